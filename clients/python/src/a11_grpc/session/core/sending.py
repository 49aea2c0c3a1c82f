"""Frames that leave: what goes first, and what shares a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc._proto.peer_service_pb2 import Frame
from a11_grpc.session.core.call import Role
from a11_grpc.session.core.events import Writable
from a11_grpc.session.core.limits import GATHERED_BYTES, GATHERED_FRAGMENTS
from a11_grpc.wire.status import OK, status_to_proto

if TYPE_CHECKING:
    from a11_grpc.session.core.core import Core


def poll_frame(core: Core, now: float) -> Frame | None:
    """The next frame, if there is a connection and something to say."""
    attached = core.attached
    if attached is None:
        return None
    link = core.link
    if core.is_over:
        return _farewell(core)
    again = link.replay()
    if again is not None:
        return again
    if core.pong is not None:
        frame = Frame()
        frame.pong.id, core.pong = core.pong, None
        return link.send_bare(frame)
    if link.has_room:
        new = _next_frame(core)
        if new is not None:
            return link.send(new)
    if attached.ping.name == "DUE":
        attached.ping = type(attached.ping).SENT
        frame = Frame()
        frame.ping.SetInParent()
        return link.send_bare(frame)
    if link.must_tell(now):
        frame = Frame()
        frame.ack_only.SetInParent()
        return link.send_bare(frame)
    return None


def _farewell(core: Core) -> Frame | None:
    if core.is_closed:
        return None
    core.phase = type(core.phase).OVER
    frame = Frame()
    frame.end.status.CopyFrom(status_to_proto(core.ending))
    return core.link.send_bare(frame)


def _next_frame(core: Core) -> Frame | None:
    """What is new: control first, then credit, so that the other side goes on; then the calls."""
    if core.control:
        return core.control.popleft()
    while core.credits:
        call, id = core.credits.popleft()
        running = core.calls.get(call)
        node = running.incoming.get(id) if running is not None else None
        if node is not None:
            node.untold = False
            frame = Frame()
            frame.credit.call = call
            frame.credit.id = id
            frame.credit.bytes = node.granted
            return frame
    while core.lined_up:
        call = core.lined_up.popleft()
        said = _next_of(core, call)
        core.line_up(call)
        if said is not None:
            return said
    return None


def _next_of(core: Core, number: int) -> Frame | None:
    """What a call has to say next."""
    call = core.calls.get(number)
    if call is None:
        return None
    call.is_lined_up = False
    frame = Frame()
    narrated = call.narration.take()
    if narrated is not None:
        frame.log.call = number
        frame.log.entry.CopyFrom(narrated[0])
        frame.log.displaced = narrated[1]
        return frame
    nodes = list(call.outgoing.values())
    if call.first_served:
        nodes = nodes[call.first_served :] + nodes[: call.first_served]
    fragments: list[NodeFragment] = []
    gathered = 0
    for node in nodes:
        while len(fragments) < GATHERED_FRAGMENTS:
            # One alone is taken whatever its size.
            taken = node.take(max(0, GATHERED_BYTES - gathered) if fragments else None)
            if taken is None:
                break
            fragments.append(taken[0])
            gathered += taken[1]
        if node.awaited and node.has_room:
            node.awaited = False
            core.events.append(Writable(number, node.id))
    if fragments:
        call.first_served = (call.first_served + 1) % len(nodes)
        frame.fragments.call = number
        frame.fragments.fragments.extend(fragments)
        return frame
    for node in nodes:
        status = node.take_end()
        if status is not None:
            frame.close.call = number
            frame.close.id = node.id
            if not status.is_ok:
                frame.close.status.CopyFrom(status_to_proto(status))
            return frame
    if call.role is Role.HOST and call.can_end:
        frame.status.call = number
        frame.status.status.CopyFrom(status_to_proto(call.ending or OK))
        del core.calls[number]
        core.calls_hosted -= 1
        return frame
    return None
