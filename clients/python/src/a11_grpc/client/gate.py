"""A channel that says so when it is used after its end."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from grpc import aio

from a11_grpc.wire.status import Reason, StatusError

T = TypeVar("T")


class Gate:
    """The methods of a channel, until it is closed: gRPC's own must not be called after that.

    It goes where an `aio.Channel` is taken to make stubs of.
    """

    def __init__(self, channel: aio.Channel) -> None:
        self._channel = channel
        self.is_closed = False
        """Whether it is of no more use."""
        self._under_way: weakref.WeakSet[Any] = weakref.WeakSet()
        self._loop = asyncio.get_running_loop()

    @property
    def methods(self) -> aio.Channel:
        """Itself, as what stubs are made of."""
        return cast("aio.Channel", self)

    def unary_unary(self, *arguments: Any, **options: Any) -> Callable[..., Awaitable[Any]]:
        """As of a channel; the answer is to be awaited, and nothing else."""
        method = self._gated(self._channel.unary_unary, arguments, options)

        async def ask(*arguments: Any, **options: Any) -> Any:
            return await self.wait(method(*arguments, **options))

        return ask

    def unary_stream(self, *arguments: Any, **options: Any) -> Callable[..., Answers]:
        """As of a channel; the answers are to be iterated, or cancelled, and nothing else."""
        method = self._gated(self._channel.unary_stream, arguments, options)

        def ask(*arguments: Any, **options: Any) -> Answers:
            return Answers(self, method(*arguments, **options))

        return ask

    def stream_unary(self, *arguments: Any, **options: Any) -> Callable[..., Any]:
        """As of a channel."""
        return self._gated(self._channel.stream_unary, arguments, options)

    def stream_stream(self, *arguments: Any, **options: Any) -> Callable[..., Any]:
        """As of a channel."""
        return self._gated(self._channel.stream_stream, arguments, options)

    def _gated(
        self, make: Callable[..., Callable[..., Any]], arguments: Any, options: Any
    ) -> Callable[..., Any]:
        # Even making a method of a channel that is closed touches memory that has been freed.
        method = None if self.is_closed else make(*arguments, **options)

        def call(*arguments: Any, **options: Any) -> Any:
            self.check()
            if method is None:
                raise _closed()
            rpc = method(*arguments, **options)
            self._under_way.add(rpc)
            return rpc

        return call

    async def wait(self, answer: Awaitable[T]) -> T:
        """Waits for an answer.

        Raises:
            StatusError: CANCELLED where the channel is closed meanwhile, which
                cancels what is under way on it, but not whoever waits.
        """
        try:
            return await answer
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self.is_closed and task is not None and not task.cancelling():
                raise _closed() from error
            raise

    def check(self) -> None:
        """Checks that it can be used here.

        Raises:
            StatusError: CANCELLED once it is closed.
            RuntimeError: In another event loop than that it was made in.
        """
        if self.is_closed:
            raise _closed()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "this client belongs to another event loop: connect once in each, or hand the "
                "call over with asyncio.run_coroutine_threadsafe"
            )

    async def close(self) -> None:
        """Closes the channel; what is under way on it is cancelled."""
        if not self.is_closed:
            self.is_closed = True
            # Not every version of gRPC wakes those who read a stream.
            for rpc in [*self._under_way]:
                rpc.cancel()
            await self._channel.close()


class Answers:
    """The answers of a stream, as they come."""

    def __init__(self, gate: Gate, rpc: Any) -> None:
        self._gate = gate
        self._rpc = rpc
        self._answers = aiter(rpc)

    def __aiter__(self) -> Answers:
        return self

    async def __anext__(self) -> Any:
        return await self._gate.wait(anext(self._answers))

    def cancel(self) -> bool:
        """Ends it."""
        return bool(self._rpc.cancel())


def _closed() -> StatusError:
    return StatusError.of(Reason.CANCELLED, "the client is closed")
