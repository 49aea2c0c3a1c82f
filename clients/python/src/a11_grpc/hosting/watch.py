"""Notices that the event loop is held up, and by whom it may be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

log = logging.getLogger("a11_grpc.hosting")

LOOK_EVERY = 0.25
"""How often the loop is looked at while calls run, in seconds."""
HELD_UP = 1.0
"""How late a look may come, in seconds, before it is told."""


class Watch:
    """Looks at the event loop as long as calls run; warns of each action once."""

    def __init__(self, is_busy: Callable[[], bool], running: Callable[[], Iterable[str]]) -> None:
        """`is_busy`: whether calls run; `running`: the actions of those that do in the loop."""
        self._is_busy = is_busy
        self._running = running
        self._told: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        """A call begins."""
        if self._timer is None:
            self._look_later()

    def stop(self) -> None:
        """Looks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ended(self, action: str) -> None:
        """A call ended; it may have held up the loop to its very end."""
        if self._timer is not None:
            self._judge({action})

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + LOOK_EVERY
        self._timer = loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._timer = None
        self._judge({*self._running()})
        if self._is_busy():
            self._look_later()

    def _judge(self, actions: set[str]) -> None:
        late = asyncio.get_running_loop().time() - self._due
        new = actions - self._told
        if late > HELD_UP and new:
            self._told |= new
            log.warning(
                "the event loop was held up for %.1f s while %s ran: everything else waits for an "
                "async function that blocks; a plain def runs in a thread",
                late,
                ", ".join(sorted(new)),
            )
