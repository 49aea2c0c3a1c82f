"""Frames that come: each is checked against the rules of the session, and becomes an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from a11_grpc._proto.peer_service_pb2 import CallFrame, Frame
from a11_grpc._proto.status_pb2 import Status as StatusMessage
from a11_grpc.session.core import events
from a11_grpc.session.core.call import Call, Role
from a11_grpc.session.core.link import Arrival
from a11_grpc.wire.status import Reason, Status, StatusError, status_from_proto, status_to_proto

if TYPE_CHECKING:
    from a11_grpc.session.core.core import Core

_BARE = frozenset({"open", "opened", "ack_only", "ping", "pong", "end"})


def handle_frame(core: Core, connection: int, frame: Frame, now: float) -> None:
    """Takes a frame of the connection in use.

    Raises:
        StatusError: For a frame against the rules, with which the session is to end.
    """
    attached = core.attached
    if attached is not None:
        attached.heard = now
        attached.ping = type(attached.ping).NONE
    if frame.ack:
        core.link.acknowledged(frame.ack)
    kind = frame.WhichOneof("body")
    if frame.number:
        _numbered(core, connection, frame, kind, now)
    elif kind is not None:
        _bare(core, frame, kind)


def _bare(core: Core, frame: Frame, kind: str) -> None:
    if kind == "ping":
        core.pong = frame.ping.id
    elif kind == "end":
        # There is nobody left to tell.
        core.attached = None
        core.end(status_from_proto(frame.end.status))
    elif kind in ("open", "opened"):
        raise _invalid("the session is open already")
    elif kind not in _BARE:
        raise _invalid("a frame without the number that its kind has")


def _numbered(core: Core, connection: int, frame: Frame, kind: str | None, now: float) -> None:
    arrival = core.link.arrived(frame.number, frame.ByteSize(), now)
    if arrival is Arrival.GAP:
        # The other side goes on from what is here once it resumes.
        core.disconnect(now)
    elif arrival is Arrival.NEW and kind is not None:
        if kind in _BARE:
            raise _invalid("a frame with a number that its kind has not")
        _take(core, frame, kind)


def _take(core: Core, frame: Frame, kind: str) -> None:
    match kind:
        case "fragments":
            _fragments(core, frame)
        case "credit":
            running = _known(core, frame.credit.call)
            node = running.outgoing.get(frame.credit.id) if running else None
            if node is not None:
                node.grant(frame.credit.bytes)
                core.line_up(frame.credit.call)
        case "call":
            _called(core, frame.call)
        case "status":
            call = frame.status.call
            if _in_role(core, call, Role.CALLER) is not None:
                del core.calls[call]
                core.calls_made -= 1
                status = status_from_proto(frame.status.status)
                core.events.append(events.Finished(call, status))
        case "close":
            running = _known(core, frame.close.call)
            if running is not None:
                window = core.limits.node_window_bytes
                running.incoming_node(frame.close.id, window).close()
                status = status_from_proto(frame.close.status)
                core.events.append(events.Closed(frame.close.call, frame.close.id, status))
        case "log":
            if _in_role(core, frame.log.call, Role.CALLER) is not None:
                log = frame.log
                core.events.append(events.Logged(log.call, log.entry, log.displaced))
        case "cancel":
            _cancelled(core, frame)
        case "publish":
            core.events.append(events.Publish(frame.publish.actions))
        case "published":
            core.events.append(events.Published(frame.published.refused))
        case "withdraw":
            core.events.append(events.Withdraw(frame.withdraw.names))


def _fragments(core: Core, frame: Frame) -> None:
    call = frame.fragments.call
    running = _known(core, call)
    if running is None:
        return
    fragments = frame.fragments.fragments
    window = core.limits.node_window_bytes
    for fragment in fragments:
        running.incoming_node(fragment.id, window).arrived(fragment)
    core.events.append(events.Fragments(call, fragments))


def _cancelled(core: Core, frame: Frame) -> None:
    call = frame.cancel.call
    running = _in_role(core, call, Role.HOST)
    if running is None:
        return
    running.clear()
    core.line_up(call)
    if running.ending is None:
        status = _cause(frame.cancel.status)
        core.events.append(events.Cancelled(call, status))


def _called(core: Core, frame: CallFrame) -> None:
    call = frame.call
    if call == 0 or core.is_own(call) or call <= core.last_called:
        raise _invalid(f"call {call} has a number that is not the caller's next")
    core.last_called = call
    most = core.limits.max_calls
    if core.calls_hosted >= most:
        status = Status.of(Reason.SESSION_LIMIT, f"at most {most} calls of a session run at once")
        answer = Frame()
        answer.status.call = call
        answer.status.status.CopyFrom(status_to_proto(status))
        core.add_control(answer)
        return
    core.calls_hosted += 1
    core.calls[call] = Call(Role.HOST)
    core.events.append(events.Called(frame))


def _known(core: Core, call: int) -> Call | None:
    """A call that runs; None for one that has ended."""
    begun = call < core.next_call if core.is_own(call) else 0 < call <= core.last_called
    if not begun:
        raise _invalid(f"call {call} has not begun")
    return core.calls.get(call)


def _in_role(core: Core, call: int, role: Role) -> Call | None:
    """The same, for a frame that only one side of a call gets."""
    if core.is_own(call) != (role is Role.CALLER):
        raise _invalid(f"a frame of call {call} from the wrong side")
    return _known(core, call)


def _cause(message: StatusMessage) -> Status:
    status = status_from_proto(message)
    if status.is_ok:
        return Status.of(Reason.CANCELLED, "the caller cancelled the call")
    return status


def _invalid(message: str) -> StatusError:
    return StatusError.of(Reason.INVALID_FRAME, message)
