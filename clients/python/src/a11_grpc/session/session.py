"""A session in this program: the core, who waits for what, and the tasks of its calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from a11_grpc._proto.action_pb2 import ActionSchema
from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc._proto.peer_service_pb2 import CallFrame, Frame, RefusedAction
from a11_grpc.session.core import Core, NewCall, Room, cost, events
from a11_grpc.wire.status import Reason, Status, StatusError, status_to_proto

log = logging.getLogger("a11_grpc.session")

ChannelEvent = events.Fragments | events.Closed | events.Logged | events.Finished | events.Cancelled
"""What comes for a call."""

now = time.monotonic
"""The clock of every session."""


def _drop(event: ChannelEvent) -> None:
    """Until somebody wants what comes."""


class Channel:
    """One call of the session, of either side.

    What it writes waits for room here; what comes for it is given to `deliver`.
    """

    __slots__ = ("_writable", "deliver", "number", "session")

    def __init__(self, session: Session, number: int) -> None:
        self.session = session
        self.number = number
        self.deliver: Callable[[ChannelEvent], None] = _drop
        self._writable: list[asyncio.Future[None]] = []

    def try_write(self, fragment: NodeFragment) -> Room:
        """Writes a piece if there is room; what there was."""
        room = self.session.core.room(self.number, fragment.id)
        if room is Room.FREE:
            self.session.core.write(self.number, fragment)
            self.session.changed()
        return room

    async def write(self, fragment: NodeFragment) -> bool:
        """Writes a piece, waiting for room; False where the call is over, and it was let go.

        Raises:
            StatusError: RESOURCE_EXHAUSTED for a piece that does not fit into a frame.
        """
        while (room := self.try_write(fragment)) is Room.FULL:
            waiter = asyncio.get_running_loop().create_future()
            self._writable.append(waiter)
            await waiter
        if room is Room.GONE:
            # Who writes on and on, and waits for nothing, must hear of it.
            await asyncio.sleep(0)
        return room is Room.FREE

    def close(self, id: str, status: Status) -> None:
        """Ends a node beside its final fragment."""
        self.session.core.close(self.number, id, status)
        self.session.changed()

    def consume(self, fragment: NodeFragment) -> None:
        """A reader took a piece."""
        # A final one needs no more credit.
        if fragment.continued and self.session.core.consume(
            self.number, fragment.id, cost(fragment)
        ):
            self.session.changed()

    def wake(self) -> None:
        """Wakes who waits for room."""
        waiting, self._writable = self._writable, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class Session:
    """A session that has been opened. It lives until it ends, whoever holds it.

    `hosts` is given each call that the other side makes, with its channel.
    """

    def __init__(self, id: str, core: Core, hosts: Callable[[Channel, CallFrame], None]) -> None:
        self.id = id
        self.core = core
        self._hosts = hosts
        self._channels: dict[int, Channel] = {}
        self._publishing: deque[asyncio.Future[Sequence[RefusedAction]]] = deque()
        self._pulse = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self.over = asyncio.Event()

    # Calls.

    def start_call(self, call: NewCall) -> Channel:
        """Begins a call.

        Raises:
            StatusError: As `Core.start_call`.
        """
        number = self.core.start_call(call)
        channel = self._channels[number] = Channel(self, number)
        self.changed()
        return channel

    def forget(self, channel: Channel) -> None:
        """Lets go of a call of ours, which is cancelled where it still runs."""
        if self._channels.pop(channel.number, None) is not None:
            status = Status.of(Reason.CANCELLED, "the caller cancelled the call")
            self.core.cancel(channel.number, status)
            channel.wake()
            self.changed()

    def finish(self, channel: Channel, status: Status) -> None:
        """Ends a call that runs here."""
        self._channels.pop(channel.number, None)
        self.core.finish(channel.number, status)
        self.changed()

    # Hosting.

    async def publish(self, actions: Sequence[ActionSchema]) -> Sequence[RefusedAction]:
        """Publishes actions; answers those that are refused.

        Raises:
            StatusError: Where they do not fit into a frame, or the session ends.
        """
        if self.core.is_over:
            raise StatusError.of(Reason.PEER_LOST, "the session is over")
        self.core.publish(actions)
        answer: asyncio.Future[Sequence[RefusedAction]]
        answer = asyncio.get_running_loop().create_future()
        self._publishing.append(answer)
        self.changed()
        return await answer

    def withdraw(self, names: Sequence[str]) -> None:
        """Takes actions back."""
        self.core.withdraw(names)
        self.changed()

    # Driving.

    def end(self, status: Status, calls_end: Status | None = None) -> None:
        """Ends it for good; the other side is told where there is a connection."""
        self.core.end(status, calls_end)
        self.changed()

    def changed(self) -> None:
        """Acts on what happened, and wakes the connection."""
        if self.core.events:
            self._settle()
        self._pulse.set()
        due = self.core.next_timeout()
        if due is not None and (self._timer is None or due < self._due):
            if self._timer is not None:
                self._timer.cancel()
            self._due = due
            self._timer = asyncio.get_running_loop().call_later(due - now(), self._timed_out)

    def _timed_out(self) -> None:
        self._timer = None
        self.core.handle_timeout(now())
        self.changed()

    async def pulse(self) -> None:
        """Waits until there may be something to send, or another time to keep."""
        await self._pulse.wait()

    def still(self) -> None:
        """Everything that could be sent has been."""
        self._pulse.clear()

    def poll_frame(self, connection: int) -> Frame | None:
        """The next frame for that connection."""
        if not self.core.is_attached(connection):
            return None
        frame = self.core.poll_frame(now())
        if self.core.events:
            self._settle()
        return frame

    def handle_frame(self, connection: int, frame: Frame) -> None:
        """Takes a frame that came."""
        self.core.handle_frame(connection, frame, now())
        self.changed()

    def _settle(self) -> None:
        queue = self.core.events
        while queue:
            event = queue.popleft()
            match event:
                case events.Fragments() | events.Closed() | events.Logged():
                    channel = self._channels.get(event.call)
                    if channel is not None:
                        channel.deliver(event)
                case events.Finished():
                    channel = self._channels.pop(event.call, None)
                    if channel is not None:
                        channel.deliver(event)
                        channel.wake()
                case events.Cancelled():
                    channel = self._channels.get(event.call)
                    if channel is not None:
                        channel.deliver(event)
                        channel.wake()
                case events.Writable():
                    channel = self._channels.get(event.call)
                    if channel is not None:
                        channel.wake()
                case events.Called():
                    number = event.frame.call
                    channel = self._channels[number] = Channel(self, number)
                    self._hosts(channel, event.frame)
                case events.Publish():
                    self._refuse(event.actions)
                case events.Published():
                    if self._publishing:
                        answer = self._publishing.popleft()
                        if not answer.done():
                            answer.set_result(event.refused)
                case events.Withdraw() | events.Disconnected():
                    pass
                case events.Ended():
                    self._ended(event.status)

    def _refuse(self, actions: Sequence[ActionSchema]) -> None:
        status = Status.of(Reason.UNSUPPORTED, "this side serves no actions of its peer")
        refused = [
            RefusedAction(name=action.name, status=status_to_proto(status)) for action in actions
        ]
        self.core.answer_publish(refused)

    def _ended(self, status: Status) -> None:
        log.debug("session %s ended: %s", self.id, status)
        error = StatusError.of(Reason.PEER_LOST, "the session is over")
        while self._publishing:
            answer = self._publishing.popleft()
            if not answer.done():
                answer.set_exception(error)
        for channel in self._channels.values():
            channel.wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.over.set()
