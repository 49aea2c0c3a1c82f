"""What came for a call and was not yet taken, and who waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """A queue of one reader. The credit of the nodes bounds it."""

    __slots__ = ("_items", "_waiter")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        """Adds an item and wakes the reader."""
        self._items.append(item)
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def take_nowait(self) -> T | None:
        """The oldest item, if there is one."""
        return self._items.popleft() if self._items else None

    async def take(self) -> T:
        """The oldest item, waiting for it. Cancelling the wait takes nothing."""
        while not self._items:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._items.popleft()
