"""One call of an action: its inputs as they are written, its events as they come, its result."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from a11_grpc._proto.action_pb2 import LogEntry, LogLevel
from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc.schema import ActionSchema, Port
from a11_grpc.session.core import NewCall, events
from a11_grpc.session.inbox import Inbox
from a11_grpc.session.session import Channel, ChannelEvent, Session
from a11_grpc.wire.chunk import Chunk, Kind
from a11_grpc.wire.status import Reason, Status, StatusError
from a11_grpc.wire.values import Decoder, Encoder, UnfitError

log = logging.getLogger("a11_grpc.client")

LATE = 0.5
"""How much longer than its timeout a call may take to be told so, in seconds."""


@dataclass(frozen=True, slots=True)
class Output:
    """A value that the action put out: one of a stream port, the one of another."""

    port: str
    value: Any


@dataclass(frozen=True, slots=True)
class Log:
    """A piece of narration. `level` is debug, info, warn or error."""

    text: str
    level: str = "info"
    channel: str = ""
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """How the call ended. Last, and always there."""

    status: Status


Event = Output | Log | Finished
"""What happens in a call."""


class Call:
    """A call under way. Read it in one place: by iterating, or with `result`.

    As an async context manager it is cancelled when the block is left before its end.
    """

    def __init__(self, session: Session, schema: ActionSchema, new: NewCall) -> None:
        self._schema = schema
        self._inbox: Inbox[ChannelEvent | Exception] = Inbox()
        self._channel: Channel = session.start_call(new)
        self._channel.deliver = self._inbox.put
        self._encoders: dict[str, Encoder] = {}
        self._outputs = {port.name: _Reading(port) for port in schema.outputs}
        self._senders: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._pending: deque[Event] = deque()
        self.on_log: Callable[[Log], None] | None = None
        """Is told what the call narrates, internal entries left out, by `result`."""
        self.status: Status | None = None
        """How the call ended; None until that has been read."""
        if new.timeout is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(new.timeout + LATE, self._too_late)

    @property
    def schema(self) -> ActionSchema:
        """The action's schema."""
        return self._schema

    # Inputs.

    def give(self, arguments: Mapping[str, Any], *, rest: bool) -> None:
        """Gives inputs by port name; `rest` ends those that are not given.

        Raises:
            StatusError: INVALID_ARGUMENT, naming the input that does not fit or is missing.
        """
        for name in arguments:
            self._input(name)
        for port in self._schema.inputs:
            name = port.name
            value = arguments.get(name)
            if name not in arguments or (value is None and not _takes_none(port)):
                if rest and port.required:
                    raise StatusError.of(Reason.MISSING_INPUT, f"input {name!r} is required")
                if rest or name in arguments:
                    self._channel.try_write(self._encoder(name).end())
            elif port.stream:
                self._give_stream(port, value)
            else:
                self._channel.try_write(self._fragment(name, value, final=True))

    def _give_stream(self, port: Port, values: object) -> None:
        if isinstance(values, AsyncIterable):
            self._spawn(self._send_async(port.name, values))
        elif isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping)):
            iterator = iter(values)
            for value in iterator:
                fragment = self._fragment(port.name, value, final=False)
                if not self._channel.try_write(fragment):
                    self._spawn(self._send_rest(port.name, fragment, iterator))
                    return
            self._finish_now(port.name)
        else:
            kind = type(values).__name__
            message = f"input {port.name!r} is a stream: give a list or an iterator, not {kind}"
            raise StatusError.of(Reason.INVALID_INPUT, message)

    def _finish_now(self, name: str) -> None:
        end = self._encoder(name).end()
        if not self._channel.try_write(end):
            self._spawn(self._channel.write(end))

    async def _send_async(self, name: str, values: AsyncIterable[Any]) -> None:
        async for value in values:
            fragment = self._fragment(name, value, final=False)
            if not self._channel.try_write(fragment):
                await self._channel.write(fragment)
        await self._channel.write(self._encoder(name).end())

    async def _send_rest(self, name: str, first: NodeFragment, rest: Iterable[Any]) -> None:
        await self._channel.write(first)
        for value in rest:
            await self._channel.write(self._fragment(name, value, final=False))
        await self._channel.write(self._encoder(name).end())

    async def write(self, port: str, value: Any) -> None:
        """Writes a value to an input, waiting for room: one of a stream, the one of another.

        Raises:
            StatusError: INVALID_ARGUMENT where there is no such input, or the value does not fit.
        """
        declared = self._input(port)
        await self._channel.write(self._fragment(port, value, final=not declared.stream))

    async def close(self, port: str) -> None:
        """Ends an input.

        Raises:
            StatusError: INVALID_ARGUMENT where there is no such input.
        """
        self._input(port)
        await self._channel.write(self._encoder(port).end())

    def cancel(self) -> None:
        """Cancels the call, if it has not ended. Nothing more comes of it but `Finished`."""
        if self.status is None:
            self._fail(StatusError.of(Reason.CANCELLED, "the caller cancelled the call"))

    # Outputs.

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._pending:
            if self.status is not None:
                raise StopAsyncIteration
            self._take(await self._inbox.take())
        return self._pending.popleft()

    async def result(self) -> Any:
        """What the action put out: the value of its one output, or a dict of several.

        Raises:
            StatusError: The status that the call ended with.
        """
        outputs: dict[str, Any] = {
            port.name: [] if port.stream else None for port in self._schema.outputs
        }
        try:
            async for event in self:
                if isinstance(event, Output):
                    if isinstance(outputs[event.port], list) and self._outputs[event.port].stream:
                        outputs[event.port].append(event.value)
                    else:
                        outputs[event.port] = event.value
                elif isinstance(event, Log) and self.on_log is not None and not event.internal:
                    self.on_log(event)
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self.status is not None:
            self.status.raise_if_failed()
        if len(outputs) == 1:
            return next(iter(outputs.values()))
        return outputs or None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()

    # Below: what comes.

    def _take(self, item: ChannelEvent | Exception) -> None:
        if isinstance(item, events.Fragments):
            for fragment in item.fragments:
                self._arrived(fragment)
        elif isinstance(item, events.Closed):
            # The status of the call says more than that of a node.
            pass
        elif isinstance(item, events.Logged):
            if item.displaced:
                text = f"[{item.displaced} earlier log entries were dropped]\n"
                self._pending.append(Log(text, "warn"))
            self._pending.append(log_from_proto(item.entry))
        elif isinstance(item, events.Finished):
            self._end(self._completed(item.status))
        elif isinstance(item, Exception):
            if not isinstance(item, StatusError):
                self._end(Status.of(Reason.CANCELLED, "an input could not be read"))
                raise item
            self._end(item.status)

    def _completed(self, status: Status) -> Status:
        """What a call ends with once its outputs are whole; those of a failed one are let go."""
        if not status.is_ok:
            return status
        for reading in self._outputs.values():
            try:
                reading.close(self._pending)
            except ValueError as error:
                return Status.of(Reason.INVALID_OUTPUT, f"output {reading.name!r}: {error}")
        return status

    def _arrived(self, fragment: NodeFragment) -> None:
        reading = self._outputs.get(fragment.id)
        if reading is None:
            message = f"the action has no output for node {fragment.id[:255]!r}"
            self._fail(StatusError.of(Reason.INVALID_OUTPUT, message))
            return
        try:
            reading.add(fragment, self._pending)
        except ValueError as error:
            message = f"output {fragment.id!r}: {error}"
            self._fail(StatusError.of(Reason.INVALID_OUTPUT, message))
        self._channel.consume(fragment)

    def _end(self, status: Status) -> None:
        if self.status is None:
            self.status = status
            self._pending.append(Finished(status))
        if self._timer is not None:
            self._timer.cancel()
        for sender in self._senders:
            sender.cancel()

    def _fail(self, error: Exception) -> None:
        self._channel.session.forget(self._channel)
        self._inbox.put(error)

    def _too_late(self) -> None:
        self._timer = None
        self._fail(StatusError.of(Reason.DEADLINE, "the call's time is up"))

    # Below: what goes.

    def _input(self, name: str) -> Port:
        port = self._schema.input(name)
        if port is None:
            known = ", ".join(port.name for port in self._schema.inputs) or "none"
            message = f"there is no input {name!r}; the inputs are: {known}"
            raise StatusError.of(Reason.UNDECLARED_INPUT, message)
        return port

    def _encoder(self, name: str) -> Encoder:
        encoder = self._encoders.get(name)
        if encoder is None:
            encoder = Encoder(name, self._input(name).media_type)
            self._encoders[name] = encoder
        return encoder

    def _fragment(self, name: str, value: object, *, final: bool) -> NodeFragment:
        try:
            return self._encoder(name).fragment(value, final=final)
        except UnfitError as error:
            raise StatusError.of(Reason.INVALID_INPUT, f"input {name!r}: {error}") from error

    def _spawn(self, sending: Any) -> None:
        task = asyncio.ensure_future(sending)
        self._senders.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._senders.discard(task)
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, Exception) and self.status is None:
                self._fail(error)


class _Reading:
    """An output as it comes."""

    __slots__ = ("_decoder", "_ended", "_parts", "name", "stream")

    def __init__(self, port: Port) -> None:
        self.name = port.name
        self.stream = port.stream
        self._decoder = Decoder(port.media_type)
        self._parts: list[Chunk] = []
        self._ended = False

    def add(self, fragment: NodeFragment, events: deque[Event]) -> None:
        chunk = self._decoder.chunk(fragment.chunk)
        if chunk is not None:
            if self.stream:
                events.append(Output(self.name, self._decoder.value(chunk)))
            else:
                self._parts.append(chunk)
        if not fragment.continued:
            self.close(events)

    def close(self, events: deque[Event]) -> None:
        if self._ended:
            return
        self._ended = True
        if self._parts:
            parts, self._parts = self._parts, []
            events.append(Output(self.name, self._decoder.joined(parts)))


_LEVELS = {
    LogLevel.LOG_LEVEL_DEBUG: "debug",
    LogLevel.LOG_LEVEL_WARN: "warn",
    LogLevel.LOG_LEVEL_ERROR: "error",
}


def log_from_proto(entry: LogEntry) -> Log:
    """Reads a log entry."""
    level = _LEVELS.get(entry.level, "info")
    return Log(entry.text, level, entry.channel, entry.internal)


def _takes_none(port: Port) -> bool:
    """Whether None is a value of the input, rather than none at all."""
    if port.kind is not Kind.JSON or port.stream:
        return False
    return port.required or port.json_schema is None or _accepts_null(port.json_schema)


def _accepts_null(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return any(_accepts_null(choice) for choice in schema[key])
    if "enum" in schema:
        return None in schema["enum"]
    return not schema or ("const" in schema and schema["const"] is None)
