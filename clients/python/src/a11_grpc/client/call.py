"""One call of an action: its inputs as they are written, its events as they come, its result."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc.client.arguments import input_of
from a11_grpc.client.events import Event, Finished, Log, Output, log_from_proto
from a11_grpc.client.reading import Reading
from a11_grpc.schema import ActionSchema, Port
from a11_grpc.session.core import NewCall, Room, events
from a11_grpc.session.inbox import Inbox
from a11_grpc.session.session import Channel, ChannelEvent, Session
from a11_grpc.wire.status import OK, Reason, Status, StatusError
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
        self.id = new.id
        """The call's id, as its handler sees it."""
        self._schema = schema
        self._inbox: Inbox[ChannelEvent | Exception] = Inbox()
        self._channel: Channel = session.start_call(new)
        self._channel.deliver = self._deliver
        self._held_logs = 0
        self._displaced = 0
        self._encoders: dict[str, Encoder] = {}
        self._unwritten = dict.fromkeys(new.inputs or ())
        self._ended: dict[str, str] = {}  # Inputs, and why they take no more.
        self._outputs = {port.name: Reading(port) for port in schema.outputs}
        self._values: dict[str, Any] = {
            port.name: [] if port.stream else None for port in schema.outputs
        }
        self._senders: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._pending: deque[Event] = deque()
        self.on_log: Callable[[Log], None] | None = None
        """Is told what the call narrates, internal entries left out, as it is read."""
        self.status: Status | None = None
        """How the call ended; None until that has been read."""
        if new.timeout is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(new.timeout + LATE, self._too_late)

    @property
    def schema(self) -> ActionSchema:
        """The action's schema."""
        return self._schema

    def __repr__(self) -> str:
        return f"<Call {self.id} of {self._schema.name!r}, {self.status or 'under way'}>"

    # Inputs.

    def give(self, arguments: Mapping[str, Any]) -> None:
        """Writes arguments, each to its end, by input name.

        Raises:
            StatusError: INVALID_ARGUMENT, naming the input whose value does not fit.
        """
        for name, value in arguments.items():
            self._end_input(name, "it was given when the call was started")
            if not self._input(name).stream:
                self._give_whole(name, value)
            elif isinstance(value, AsyncIterable):
                self._spawn(self._send_async(name, value))
            else:
                self._give_all(name, value)

    def _give_whole(self, name: str, value: object) -> None:
        first, *others = self._fragments(name, value, final=True)
        self._channel.try_write(first)
        if others:
            self._spawn(self._send(others))

    def _give_all(self, name: str, values: Iterable[Any]) -> None:
        iterator = iter(values)
        for value in iterator:
            [fragment] = self._fragments(name, value, final=False)
            if self._channel.try_write(fragment) is not Room.FREE:
                self._spawn(self._send_rest(name, fragment, iterator))
                return
        self._finish_now(name)

    def _finish_now(self, name: str) -> None:
        end = self._encoder(name).end()
        if self._channel.try_write(end) is Room.FULL:
            self._spawn(self._channel.write(end))

    async def _send_async(self, name: str, values: AsyncIterable[Any]) -> None:
        async for value in values:
            if not await self._send(self._fragments(name, value, final=False)):
                return
        await self._channel.write(self._encoder(name).end())

    async def _send_rest(self, name: str, first: NodeFragment, rest: Iterable[Any]) -> None:
        if not await self._channel.write(first):
            return
        for value in rest:
            if not await self._send(self._fragments(name, value, final=False)):
                return
        await self._channel.write(self._encoder(name).end())

    async def _send(self, fragments: Iterable[NodeFragment]) -> bool:
        for fragment in fragments:
            if not await self._channel.write(fragment):
                return False
        return True

    async def write(self, port: str, value: Any) -> None:
        """Writes a value to an input, waiting for room: one of a stream, the one of another.

        Raises:
            StatusError: INVALID_ARGUMENT where there is no such input, or the value does not fit;
                FAILED_PRECONDITION (NODE_CLOSED) where the input has ended.
        """
        declared = self._input(port)
        if (why := self._ended.get(port)) is not None:
            raise StatusError.of(Reason.NODE_CLOSED, f"input {port!r} has ended: {why}")
        fragments = self._fragments(port, value, final=not declared.stream)
        if declared.stream:
            self._unwritten.pop(port, None)
        else:
            self._end_input(port, "it takes one value")
        await self._send(fragments)

    async def close(self, port: str) -> None:
        """Ends an input, if it has not ended.

        Raises:
            StatusError: INVALID_ARGUMENT where there is no such input.
        """
        self._input(port)
        if port not in self._ended:
            self._end_input(port, "it was closed")
            await self._channel.write(self._encoder(port).end())

    def _end_input(self, port: str, why: str) -> None:
        self._unwritten.pop(port, None)
        self._ended[port] = why

    def _end_unwritten(self) -> None:
        for port in [*self._unwritten]:
            self._end_input(port, "nothing had been written to it when the result was asked for")
            # Not with a final piece: another program may have written one, to a node of the run.
            self._channel.close(port, OK)

    def cancel(self, reason: str = "the caller cancelled the call") -> None:
        """Cancels the call, if it has not ended. Nothing more comes of it but `Finished`."""
        if self.status is None:
            self._fail(StatusError.of(Reason.CANCELLED, reason))

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

        Inputs that nothing was written to end here; those that were begun are left to whoever
        writes them. Asked again it says the same. Cancelling the wait cancels the call.

        Raises:
            StatusError: The status that the call ended with.
        """
        values = self._values
        self._end_unwritten()
        try:
            async for event in self:
                if isinstance(event, Output):
                    if self._outputs[event.port].stream:
                        values[event.port].append(event.value)
                    else:
                        values[event.port] = event.value
        except BaseException:
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
                self._narrate(Log(text, "warn"))
            self._narrate(log_from_proto(item.entry))
        elif isinstance(item, events.Finished):
            self._end(self._completed(item.status))
        elif isinstance(item, Exception):
            if not isinstance(item, StatusError):
                self._end(Status.of(Reason.CANCELLED, "an input could not be read"))
                raise item
            self._end(item.status)

    def _narrate(self, entry: Log) -> None:
        self._pending.append(entry)
        if self.on_log is not None and not entry.internal:
            self.on_log(entry)

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
        except StatusError as error:
            message = f"output {fragment.id!r}: {error.message}"
            self._fail(StatusError.of(error.reason, message))
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
        return input_of(self._schema, name)

    def _encoder(self, name: str) -> Encoder:
        encoder = self._encoders.get(name)
        if encoder is None:
            encoder = Encoder(name, self._input(name).media_type)
            self._encoders[name] = encoder
        return encoder

    def _fragments(self, name: str, value: object, *, final: bool) -> list[NodeFragment]:
        encoder = self._encoder(name)
        try:
            return encoder.whole(value) if final else [encoder.fragment(value, final=False)]
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
