"""What a handler has of its call: inputs, outputs, narration, time left, further calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from a11_grpc._proto.action_pb2 import LogEntry, LogLevel
from a11_grpc.hosting.input import Input
from a11_grpc.schema import ActionSchema
from a11_grpc.wire.chunk import Chunk
from a11_grpc.wire.status import Code, Reason, Status, StatusError
from a11_grpc.wire.values import Encoder, UnfitError

if TYPE_CHECKING:
    from a11_grpc.client.call import Call
    from a11_grpc.client.client import Client
    from a11_grpc.hosting.host import HostedCall

T = TypeVar("T")

MAX_LOG_BYTES = 64 * 1024
"""The longest text of a log entry; a longer one is cut."""

_LEVELS = {
    "debug": LogLevel.LOG_LEVEL_DEBUG,
    "info": LogLevel.LOG_LEVEL_INFO,
    "warn": LogLevel.LOG_LEVEL_WARN,
    "error": LogLevel.LOG_LEVEL_ERROR,
}


class Context:
    """One call that runs here. Its methods that are not async may be used from a thread too."""

    def __init__(
        self,
        call: HostedCall,
        id: str,
        schema: ActionSchema,
        headers: Mapping[str, bytes],
        deadline: float | None,
    ) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline
        self._outputs: dict[str, _Output] = {}
        self.id = id
        """The call's id: the model's own, where a model made it."""
        self.schema = schema
        """The action's schema."""
        self.headers = headers
        """Header name, lower case → value: `x-a11-*`, `x-otel-*`, and what the schema declares."""

    def __repr__(self) -> str:
        return f"<Context of call {self.id} of {self.action!r}>"

    @property
    def action(self) -> str:
        """The action's name."""
        return self.schema.name

    # Time.

    @property
    def deadline(self) -> float | None:
        """When the call's time is up, in seconds since the Unix epoch; None: never."""
        left = self.time_left()
        return None if left is None else time.time() + left

    def time_left(self) -> float | None:
        """How much time is left, in seconds; None: no limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    @property
    def cancelled(self) -> bool:
        """Whether the call is to end: for functions in a thread, which nobody can interrupt."""
        return self._call.is_ending

    # Narration.

    def log(self, text: str, *, level: str = "info", channel: str = "") -> None:
        """Narrates: the user may read it, a model never does. Never waits.

        Entries are concatenated as they are: write your own line breaks.
        """
        self._log(text, level, channel, internal=False)

    def log_internal(self, text: str, *, level: str = "info", channel: str = "") -> None:
        """Narrates for the operator alone."""
        self._log(text, level, channel, internal=True)

    def _log(self, text: str, level: str, channel: str, *, internal: bool) -> None:
        text = _cut(text)
        entry = LogEntry(
            level=_LEVELS.get(level, LogLevel.LOG_LEVEL_INFO),
            text=text,
            channel=channel,
            internal=internal,
        )
        self._in_loop(self._call.log, entry)

    # Inputs.

    def input(self, port: str) -> Input:
        """An input as it comes.

        Raises:
            StatusError: INTERNAL where the action has no such input.
        """
        found = self._call.inputs.get(port)
        if found is None:
            raise _broken(f"the action has no input {port!r}")
        return found

    async def read(self, port: str) -> Any:
        """The one value of an input, waiting for it; None where there is none.

        Raises:
            StatusError: INVALID_ARGUMENT where a required input has none, or it does not fit.
        """
        found = self.input(port)
        chunk = await found.whole()
        if chunk is None:
            if found.port.required:
                raise StatusError.of(Reason.MISSING_INPUT, f"input {port!r} is required")
            return None
        return found.value(chunk)

    async def read_chunk(self, port: str) -> Chunk | None:
        """The one value of an input as a chunk; None where there is none."""
        return await self.input(port).whole()

    async def read_stream(self, port: str) -> AsyncGenerator[Any, None]:
        """The values of a stream input, as they come."""
        found = self.input(port)
        while (chunk := await found.next_chunk()) is not None:
            yield found.value(chunk)

    # Outputs.

    async def write(self, port: str, value: Any) -> None:
        """Writes a value to an output, waiting for room: one of a stream, the one of another.

        Raises:
            StatusError: INTERNAL where the schema has no such output, or it does not fit.
        """
        output = self._output(port)
        if output.is_finished:
            raise _broken(f"output {port!r} has ended")
        encoder = output.encoder
        try:
            fragments = (
                [encoder.fragment(value, final=False)] if output.stream else encoder.whole(value)
            )
        except UnfitError as error:
            raise _broken(f"output {port!r}: {error}") from error
        output.is_finished = not output.stream
        for fragment in fragments:
            if not await self._call.channel.write(fragment):
                return

    async def finish(self, port: str) -> None:
        """Ends an output.

        A stream output that a handler neither finishes nor fails is closed without a final piece.
        """
        output = self._output(port)
        if not output.is_finished:
            output.is_finished = True
            await self._call.channel.write(output.encoder.end())

    def fail(self, port: str, status: Status | StatusError) -> None:
        """Fails an output: every reader of it gets the status."""
        output = self._output(port)
        if not output.is_finished:
            output.is_finished = True
            why = handler_failure(status)
            self._in_loop(self._call.channel.close, output.node, why)

    def _output(self, port: str) -> _Output:
        output = self._outputs.get(port)
        if output is None:
            declared = self.schema.output(port)
            if declared is None:
                raise _broken(f"the action has no output {port!r}")
            node = self._call.output_node(port)
            output = _Output(node, Encoder(node, declared.media_type), declared.stream)
            self._outputs[port] = output
        return output

    # Further calls.

    @property
    def client(self) -> Client:
        """The client, for calls that are part of this one: deadline and headers go with them."""
        return self._call.nested(self.time_left())

    async def call(self, action: str, /, **arguments: Any) -> Any:
        """Calls another action as part of this call; as `Client.call`."""
        return await self.client.call(action, **arguments)

    def stream(self, action: str, /, **arguments: Any) -> AsyncGenerator[Any, None]:
        """Calls another action as part of this call; as `Client.stream`."""
        return self.client.stream(action, **arguments)

    async def start(self, action: str, /, **arguments: Any) -> Call:
        """Starts a call of another action as part of this call; as `Client.start`."""
        return await self.client.start(action, **arguments)

    # Threads.

    async def in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a function in a thread of the host's."""
        self._call.threads += 1
        try:
            return await self._loop.run_in_executor(self._call.host.threads, function, *arguments)
        finally:
            self._call.threads -= 1

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """From a thread: runs a coroutine in the event loop and waits for it."""
        return self._call.from_thread(coroutine)

    def _in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            function(*arguments)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)


class _Output:
    __slots__ = ("encoder", "is_finished", "node", "stream")

    def __init__(self, node: str, encoder: Encoder, stream: bool) -> None:
        self.node = node
        self.encoder = encoder
        self.stream = stream
        self.is_finished = False


def handler_failure(why: Status | StatusError) -> Status:
    """What a handler fails with: without a reason of its own it is HANDLER_FAILED."""
    status = why.status if isinstance(why, StatusError) else why
    if not status.is_ok and status.reason is not Reason.UNSPECIFIED:
        return status
    code = Code.INTERNAL if status.is_ok else status.code
    return Status(code, Reason.HANDLER_FAILED, status.message, status.details)


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_LOG_BYTES:
        return data.decode("utf-8")
    notice = f"… [cut, {len(data)} bytes in all]"
    room = MAX_LOG_BYTES - len(notice.encode())
    return data[:room].decode("utf-8", "ignore") + notice


def _broken(message: str) -> StatusError:
    return StatusError.of(Reason.INVALID_OUTPUT, message)
