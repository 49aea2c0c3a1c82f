"""One side of a session: its state, and what its program does with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from a11_grpc._proto.action_pb2 import ActionSchema, LogEntry
from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc._proto.peer_service_pb2 import Frame, RefusedAction
from a11_grpc.session.core import receiving, sending
from a11_grpc.session.core.call import Call, Role
from a11_grpc.session.core.cost import cost
from a11_grpc.session.core.events import Cancelled, Disconnected, Ended, Event, Finished
from a11_grpc.session.core.limits import BROKEN_AFTER, MAX_WAITING_CONTROL, PING_AFTER, Limits
from a11_grpc.session.core.link import Link
from a11_grpc.wire.status import Reason, Status, StatusError, status_to_proto

_FRAME_BYTES = 64  # Around a body: number, acknowledgement, call, lengths.


class Side(Enum):
    """Which side opened the session."""

    OPENER = auto()
    """This one. Its calls have odd numbers."""
    ACCEPTOR = auto()
    """The other one. The calls of this side have even numbers."""


class Room(Enum):
    """Whether a node takes another piece."""

    FREE = auto()
    FULL = auto()
    """Not now; `Writable` will say when."""
    GONE = auto()
    """The call is over, nothing will be sent."""


class Phase(Enum):
    """How far the session is."""

    OPEN = auto()
    ENDING = auto()
    """The end is still to be told."""
    OVER = auto()


class Ping(Enum):
    """Whether the other side has been asked since something came last."""

    NONE = auto()
    DUE = auto()
    SENT = auto()


@dataclass(frozen=True, slots=True)
class NewCall:
    """A call to be made; `timeout` is the time left for it, in seconds.

    `inputs` are those that will be written; None where that is not known.
    """

    action: str
    id: str = ""
    headers: Mapping[str, bytes] = field(default_factory=dict)
    timeout: float | None = None
    inputs: Sequence[str] | None = None


@dataclass(slots=True)
class Attached:
    """The connection in use."""

    connection: int
    heard: float
    ping: Ping = Ping.NONE


class Core:
    """One side of one session, after its opening exchange, not yet attached.

    `limits` are this side's own, `grace` (seconds) is what the acceptor said. `now` is any clock
    that only goes forward, in seconds.
    """

    def __init__(
        self, side: Side, limits: Limits, peer_limits: Limits, grace: float, now: float
    ) -> None:
        self._side = side
        self.limits = limits
        self.peer_limits = peer_limits
        self.grace = grace
        self.link = Link()
        self.calls: dict[int, Call] = {}
        self.next_call = 1 if side is Side.OPENER else 2
        self.last_called = 0
        self.calls_made = 0
        self.calls_hosted = 0
        self.control: deque[Frame] = deque()
        self.lined_up: deque[int] = deque()
        self.credits: deque[tuple[int, str]] = deque()
        self.pong: int | None = None
        self.attached: Attached | None = None
        self._detached_at = now
        self.phase = Phase.OPEN
        self.ending = Status()
        self.events: deque[Event] = deque()

    # The connection.

    @property
    def received(self) -> int:
        """The highest number received: what the opening exchange tells the other side."""
        return self.link.received

    def attach(self, connection: int, received: int, now: float) -> None:
        """Goes on over a connection; the other side has received up to `received`.

        Raises:
            StatusError: For a number that was never sent, or where the session is over.
        """
        if self.is_over:
            raise StatusError.of(Reason.UNKNOWN_SESSION, "the session is over")
        self.link.attach(received)
        self.pong = None
        self.attached = Attached(connection, now)

    def detach(self, connection: int, now: float) -> None:
        """The connection is gone, unless it is not the one in use."""
        if self.is_attached(connection):
            self.attached = None
            self._detached_at = now
            if self.phase is Phase.ENDING:
                self.phase = Phase.OVER

    def is_attached(self, connection: int) -> bool:
        """Whether that connection is the one in use."""
        return self.attached is not None and self.attached.connection == connection

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection."""
        return self.attached is not None

    @property
    def is_over(self) -> bool:
        """Whether the session has ended."""
        return self.phase is not Phase.OPEN

    @property
    def is_closed(self) -> bool:
        """Whether it has ended and there is nothing left to say."""
        return self.phase is Phase.OVER

    def handle_frame(self, connection: int, frame: Frame, now: float) -> None:
        """Takes a frame that came. One against the rules ends the session."""
        if self.is_over or not self.is_attached(connection):
            return
        try:
            receiving.handle_frame(self, connection, frame, now)
        except StatusError as error:
            self.end(error.status)

    def poll_frame(self, now: float) -> Frame | None:
        """The next frame to send; None where there is nothing to say, or no connection.

        The more has gathered before it is asked for, the fewer frames it leaves in. The frame may
        be sent again: encode it before the next call.
        """
        return sending.poll_frame(self, now)

    def poll_event(self) -> Event | None:
        """What happened next."""
        return self.events.popleft() if self.events else None

    # Time.

    def next_timeout(self) -> float | None:
        """When `handle_timeout` and `poll_frame` are to be called, if nothing else happens."""
        if self.is_over:
            return None
        if self.attached is None:
            return self._detached_at + self.grace
        after = PING_AFTER if self.attached.ping is Ping.NONE else BROKEN_AFTER
        silence = self.attached.heard + after
        by = self.link.tell_by
        return silence if by is None else min(by, silence)

    def handle_timeout(self, now: float) -> None:
        """Does what is due."""
        if self.is_over:
            return
        if self.attached is None:
            if now >= self._detached_at + self.grace:
                message = f"the peer was gone for {self.grace:g} s and did not come back"
                self.end(Status.of(Reason.PEER_LOST, message))
        elif now >= self.attached.heard + BROKEN_AFTER:
            self.disconnect(now)
        elif self.attached.ping is Ping.NONE and now >= self.attached.heard + PING_AFTER:
            self.attached.ping = Ping.DUE

    def disconnect(self, now: float) -> None:
        """Gives the connection up."""
        if self.attached is not None:
            self.detach(self.attached.connection, now)
            self.events.append(Disconnected())

    # Calling.

    def start_call(self, call: NewCall) -> int:
        """Begins a call; `Finished` ends it, once.

        Raises:
            StatusError: Where the other side takes no further call, or the session is over.
        """
        if self.is_over:
            raise StatusError.of(Reason.PEER_LOST, "the session is over")
        most = self.peer_limits.max_calls
        if self.calls_made >= most:
            raise StatusError.of(
                Reason.SESSION_LIMIT, f"the peer runs at most {most} calls at once"
            )
        number = self.next_call
        frame = Frame()
        frame.call.call = number
        frame.call.id = call.id
        frame.call.action = call.action
        for name, value in call.headers.items():
            frame.call.headers[name] = value
        if call.timeout is not None:
            frame.call.timeout.FromNanoseconds(round(min(max(call.timeout, 0.0), 3e8) * 1e9))
        if call.inputs is not None:
            frame.call.only_listed_inputs = True
            for name in call.inputs:
                frame.call.inputs.add(name=name, id=name)
        self._check_size(frame.ByteSize())
        self.next_call += 2
        self.calls_made += 1
        self.calls[number] = Call(Role.CALLER)
        self.add_control(frame)
        return number

    def cancel(self, call: int, status: Status) -> None:
        """Asks for the end of a call of ours. Nothing more of its inputs is sent."""
        running = self.calls.get(call)
        # Once is enough.
        if running is not None and running.role is Role.CALLER and running.ending is None:
            running.clear()
            running.ending = status
            frame = Frame()
            frame.cancel.call = call
            frame.cancel.status.CopyFrom(status_to_proto(status))
            self.add_control(frame)

    # Hosting.

    def finish(self, call: int, status: Status) -> None:
        """Ends a call that runs here, with everything written before it."""
        running = self.calls.get(call)
        if running is not None and running.role is Role.HOST and running.ending is None:
            running.ending = status
            self.line_up(call)

    def log(self, call: int, entry: LogEntry) -> None:
        """Narrates, for a call that runs here. Never waits."""
        running = self.calls.get(call)
        if running is not None and running.role is Role.HOST and running.ending is None:
            running.narration.add(entry)
            self.line_up(call)

    def publish(self, actions: Sequence[ActionSchema]) -> None:
        """Publishes actions of ours; `Published` answers.

        Raises:
            StatusError: RESOURCE_EXHAUSTED where they do not fit into a frame.
        """
        frame = Frame()
        frame.publish.actions.extend(actions)
        self._check_size(frame.ByteSize())
        self.add_control(frame)

    def answer_publish(self, refused: Sequence[RefusedAction]) -> None:
        """Answers `Publish`."""
        frame = Frame()
        frame.published.SetInParent()
        frame.published.refused.extend(refused)
        self.add_control(frame)

    def withdraw(self, names: Sequence[str]) -> None:
        """Takes actions of ours back."""
        frame = Frame()
        frame.withdraw.names.extend(names)
        self.add_control(frame)

    # Nodes: of either side of a call.

    def room(self, call: int, id: str) -> Room:
        """Whether a node takes another piece."""
        running = self.calls.get(call)
        if running is None or running.ending is not None:
            return Room.GONE
        node = running.outgoing_node(id, self.peer_limits.node_window_bytes)
        if node.has_room:
            return Room.FREE
        node.awaited = True
        return Room.FULL

    def write(self, call: int, fragment: NodeFragment) -> None:
        """Writes a piece to the node that its id names; let go where the call is over.

        Ask `room` before.

        Raises:
            StatusError: For a piece that does not fit into a frame, or one node too many.
        """
        size = cost(fragment)
        # Measured only where it could matter.
        if size > self.peer_limits.max_frame_bytes // 2:
            self._check_size(fragment.ByteSize())
        running = self.calls.get(call)
        if running is not None and running.ending is None:
            node = running.outgoing_node(fragment.id, self.peer_limits.node_window_bytes)
            node.write(fragment, size)
            self.line_up(call)

    def close(self, call: int, id: str, status: Status) -> None:
        """Ends a node beside its final fragment: without one, or with a failure."""
        running = self.calls.get(call)
        if running is not None and running.ending is None:
            running.outgoing_node(id, self.peer_limits.node_window_bytes).close(status)
            self.line_up(call)

    def consume(self, call: int, id: str, size: int) -> bool:
        """The reader of a node took pieces that cost this much; True: there is credit to tell."""
        running = self.calls.get(call)
        if running is None:
            return False
        node = running.incoming.get(id)
        if node is not None and node.consume(size):
            self.credits.append((call, id))
            return True
        return False

    # The end.

    def end(self, status: Status, calls_end: Status | None = None) -> None:
        """Ends the session for good. Every call ends here, and the other side is told.

        Calls end PEER_LOST, unless it is said what with.
        """
        if self.is_over:
            return
        lost = calls_end or _lost(status)
        calls, self.calls = self.calls, {}
        for number, running in calls.items():
            if running.role is Role.CALLER:
                self.events.append(Finished(number, lost))
            elif running.ending is None:
                self.events.append(Cancelled(number, lost))
        self.calls_made = 0
        self.calls_hosted = 0
        self.control.clear()
        self.lined_up.clear()
        self.credits.clear()
        self.link.clear()
        self.events.append(Ended(status))
        self.ending = status
        self.phase = Phase.OVER if self.attached is None else Phase.ENDING

    @property
    def held_bytes(self) -> int:
        """Bytes held for both directions: kept, waiting, or come and not consumed."""
        total = self.link.kept_bytes
        for call in self.calls.values():
            total += sum(node.waiting_bytes for node in call.outgoing.values())
            total += sum(node.held_bytes for node in call.incoming.values())
            total += call.narration.waiting_bytes
        return total

    # Shared with the other parts of the core.

    def add_control(self, frame: Frame) -> None:
        """Adds a control frame. One too many, and the other side does not read."""
        if self.is_over:
            return
        if len(self.control) >= MAX_WAITING_CONTROL:
            message = f"more than {MAX_WAITING_CONTROL} frames wait to be read"
            self.end(Status.of(Reason.SESSION_LIMIT, message))
            return
        self.control.append(frame)

    def line_up(self, call: int) -> None:
        """Gives a call its turn where it has something to send."""
        running = self.calls.get(call)
        if running is not None and not running.is_lined_up and running.is_ready:
            running.is_lined_up = True
            self.lined_up.append(call)

    def is_own(self, call: int) -> bool:
        """Whether a call number is one of this side's own."""
        return (call % 2 == 1) == (self._side is Side.OPENER)

    def _check_size(self, size: int) -> None:
        most = self.peer_limits.max_frame_bytes
        if size + _FRAME_BYTES > most:
            message = f"{size} bytes do not fit into a frame of the peer, which has at most {most}"
            raise StatusError.of(Reason.SESSION_LIMIT, message)


def _lost(status: Status) -> Status:
    """What the calls of a session that ended end with."""
    if status.reason is Reason.PEER_LOST:
        return status
    if status.is_ok:
        return Status.of(Reason.PEER_LOST, "the peer ended the session")
    return Status.of(Reason.PEER_LOST, f"the session ended: {status.message}")
