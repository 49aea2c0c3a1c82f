"""One call of an action: its inputs as they are written, its events as they come, its result."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc.client.events import Event, Finished, Log, Output, log_from_proto
from a11_grpc.client.reading import Reading
from a11_grpc.schema import ActionSchema, Port
from a11_grpc.session.core import NewCall, Room, events
from a11_grpc.session.inbox import Inbox
from a11_grpc.session.session import Channel, ChannelEvent, Session
from a11_grpc.wire.chunk import OCTETS, Kind
from a11_grpc.wire.status import Reason, Status, StatusError
from a11_grpc.wire.values import Encoder, UnfitError

log = logging.getLogger("a11_grpc.client")

MAX_HELD_LOGS = 1024
"""How many log entries are held for a caller that does not take them; older ones go."""

LATE = 0.5
"""How much longer than its timeout a call may take to be told so, in seconds."""


class Call:
    """A call under way. Read it in one place: by iterating, or with `result`.

    As an async context manager it is cancelled when the block is left before its end. One that is
    left to itself runs on, and waits where its outputs are not read.
    """

    def __init__(self, session: Session, schema: ActionSchema, new: NewCall) -> None:
        self._schema = schema
        self._inbox: Inbox[ChannelEvent | Exception] = Inbox()
        self._channel: Channel = session.start_call(new)
        self._channel.deliver = self._deliver
        self._held_logs = 0
        self._displaced = 0
        self._encoders: dict[str, Encoder] = {}
        self._outputs = {port.name: Reading(port) for port in schema.outputs}
        self._values: dict[str, Any] = {
            port.name: [] if port.stream else None for port in schema.outputs
        }
        self._senders: set[asyncio.Task[object]] = set()
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
            elif port.required and port.media_type == OCTETS and _is_empty(value):
                message = f"input {name!r}: no bytes of {OCTETS} are no value, and it is required"
                raise StatusError.of(Reason.MISSING_INPUT, message)
            else:
                self._channel.try_write(self._fragment(name, value, final=True))

    def complete(self, schema: ActionSchema) -> None:
        """Ends the inputs that the action has now and had not when its schema was looked up.

        The handler would wait for them for ever.
        """
        if self.status is not None:
            return
        known = {port.name for port in self._schema.inputs}
        for port in schema.inputs:
            if port.name not in known:
                self._channel.try_write(Encoder(port.name, port.media_type).end())

    def _give_stream(self, port: Port, values: object) -> None:
        if isinstance(values, AsyncIterable):
            self._spawn(self._send_async(port.name, values))
        elif isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping)):
            iterator = iter(values)
            for value in iterator:
                fragment = self._fragment(port.name, value, final=False)
                if self._channel.try_write(fragment) is not Room.FREE:
                    self._spawn(self._send_rest(port.name, fragment, iterator))
                    return
            self._finish_now(port.name)
        else:
            kind = type(values).__name__
            message = f"input {port.name!r} is a stream: give a list or an iterator, not {kind}"
            raise StatusError.of(Reason.INVALID_INPUT, message)

    def _finish_now(self, name: str) -> None:
        end = self._encoder(name).end()
        if self._channel.try_write(end) is Room.FULL:
            self._spawn(self._channel.write(end))

    async def _send_async(self, name: str, values: AsyncIterable[Any]) -> None:
        async for value in values:
            fragment = self._fragment(name, value, final=False)
            if not await self._channel.write(fragment):
                return
        await self._channel.write(self._encoder(name).end())

    async def _send_rest(self, name: str, first: NodeFragment, rest: Iterable[Any]) -> None:
        if not await self._channel.write(first):
            return
        for value in rest:
            if not await self._channel.write(self._fragment(name, value, final=False)):
                return
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

        Asked again it says the same. Cancelling the wait cancels the call.

        Raises:
            StatusError: The status that the call ended with.
        """
        values = self._values
        try:
            async for event in self:
                if isinstance(event, Output):
                    if self._outputs[event.port].stream:
                        values[event.port].append(event.value)
                    else:
                        values[event.port] = event.value
                elif isinstance(event, Log) and self.on_log is not None and not event.internal:
                    self.on_log(event)
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self.status is not None:
            self.status.raise_if_failed()
        if len(values) == 1:
            return next(iter(values.values()))
        return values or None

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

    def _deliver(self, event: ChannelEvent) -> None:
        if isinstance(event, events.Logged):
            # Nothing but this bounds what a call narrates to a caller that does not listen.
            self._held_logs += 1
            if self._held_logs > MAX_HELD_LOGS:
                self._held_logs -= 1
                self._displaced += 1
                self._inbox.drop_oldest(events.Logged)
        self._inbox.put(event)

    def _take(self, item: ChannelEvent | Exception) -> None:
        if isinstance(item, events.Fragments):
            for fragment in item.fragments:
                self._arrived(fragment)
        elif isinstance(item, events.Closed):
            # The status of the call says more than that of a node.
            pass
        elif isinstance(item, events.Logged):
            self._held_logs -= 1
            displaced, self._displaced = self._displaced + item.displaced, 0
            if displaced:
                text = f"[{displaced} earlier log entries were dropped]\n"
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
            if name in ("timeout", "headers", "on_log", "port"):
                message += f"; options are given by client.with_options({name}=…)"
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

    def _spawn(self, sending: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(sending)
        self._senders.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[object]) -> None:
        self._senders.discard(task)
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, Exception) and self.status is None:
                self._fail(error)


def _is_empty(value: object) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview)) and not len(value)


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
