"""Rules of the session core that a simulation does not single out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from a11_grpc._proto.action_pb2 import LogEntry
from a11_grpc._proto.chunk_pb2 import Chunk, NodeFragment
from a11_grpc._proto.peer_service_pb2 import Frame, SessionLimits
from a11_grpc.session.core import Core, Limits, NewCall, Room, Side, cost, events
from a11_grpc.session.core.limits import (
    DEFAULT_GRACE,
    MAX_WAITING_CONTROL,
    MAX_WAITING_LOG_BYTES,
    PING_AFTER,
)
from a11_grpc.wire.status import OK, Reason, Status, StatusError

CONNECTION = 1
SMALL = Limits(node_window_bytes=4096)


def pair(limits: Limits | None = None) -> tuple[Core, Core]:
    limits = limits or Limits()
    opener = Core(Side.OPENER, limits, limits, DEFAULT_GRACE, 0.0)
    acceptor = Core(Side.ACCEPTOR, limits, limits, DEFAULT_GRACE, 0.0)
    for core in (opener, acceptor):
        core.attach(CONNECTION, 0, 0.0)
    return opener, acceptor


def frames(core: Core, now: float = 0.0) -> list[Frame]:
    found = []
    while (frame := core.poll_frame(now)) is not None:
        # As on the wire: it may be sent again with another acknowledgement.
        found.append(Frame.FromString(frame.SerializeToString()))
    return found


def pass_on(source: Core, target: Core, now: float = 0.0) -> list[Frame]:
    moved = frames(source, now)
    for frame in moved:
        target.handle_frame(CONNECTION, frame, now)
    return moved


def happened(core: Core) -> list[events.Event]:
    found = []
    while (event := core.poll_event()) is not None:
        found.append(event)
    return found


def ended(core: Core) -> Status | None:
    statuses = [event.status for event in happened(core) if isinstance(event, events.Ended)]
    return statuses[0] if statuses else None


def call(core: Core) -> int:
    return core.start_call(NewCall("a"))


def piece(text: str, id: str = "in", *, continued: bool = True) -> NodeFragment:
    return NodeFragment(id=id, chunk=Chunk(data=text.encode()), continued=continued)


def test_a_call_lists_its_inputs_where_they_are_known() -> None:
    def check(inputs: list[str] | None, expected: list[tuple[str, str]]) -> None:
        opener, _ = pair()
        opener.start_call(NewCall("a", inputs=inputs))
        [frame] = frames(opener)
        assert [(binding.name, binding.id) for binding in frame.call.inputs] == expected
        assert frame.call.only_listed_inputs == (inputs is not None)

    check(None, [])
    check([], [])
    check(["x", "y"], [("x", "x"), ("y", "y")])


def test_a_lone_fragment_leaves_at_once_and_many_small_ones_leave_as_few_frames() -> None:
    def check(pieces: int, expected: int) -> None:
        opener, _ = pair()
        number = call(opener)
        frames(opener)
        for _ in range(pieces):
            opener.write(number, piece("0123456789abcdef"))
        assert len(frames(opener)) == expected, pieces

    check(1, 1)
    check(200, 1)
    check(1000, 4)


def test_a_node_without_credit_holds_up_no_other() -> None:
    opener, acceptor = pair(SMALL)
    number = call(opener)
    while opener.room(number, "in") is Room.FREE:
        opener.write(number, piece("x" * 1000))
    opener.write(number, piece("y", "other", continued=False))

    def came() -> dict[str, int]:
        counts: dict[str, int] = {}
        for event in happened(acceptor):
            if isinstance(event, events.Fragments):
                for fragment in event.fragments:
                    counts[fragment.id] = counts.get(fragment.id, 0) + 1
        return counts

    pass_on(opener, acceptor)
    assert came() == {"in": 4, "other": 1}
    # What the reader consumes comes back as credit, and only then more comes.
    assert pass_on(opener, acceptor) == []
    acceptor.consume(number, "in", 2 * cost(piece("x" * 1000)))
    pass_on(acceptor, opener)
    pass_on(opener, acceptor)
    assert came() == {"in": 2}


def test_frames_against_the_rules_end_the_session() -> None:
    def check(frame: Frame, expected: str) -> None:
        _, acceptor = pair()
        acceptor.handle_frame(CONNECTION, frame, 0.0)
        status = ended(acceptor)
        assert status is not None, expected
        assert status.reason is Reason.INVALID_FRAME
        assert expected in status.message
        assert [frame.WhichOneof("body") for frame in frames(acceptor)] == ["end"]

    def frame(number: int, kind: str, **fields: object) -> Frame:
        made = Frame(number=number)
        body = getattr(made, kind)
        body.SetInParent()
        for name, value in fields.items():
            setattr(body, name, value)
        return made

    check(frame(1, "call", call=2, action="a"), "call 2 has a number")
    check(frame(1, "call", call=0, action="a"), "call 0 has a number")
    check(frame(0, "call", call=1, action="a"), "without the number")
    check(frame(1, "ping", id=1), "with a number")
    check(frame(1, "status", call=2), "has not begun")
    check(frame(1, "cancel", call=2), "wrong side")
    check(frame(1, "fragments", call=7), "has not begun")
    check(frame(0, "open"), "open already")
    check(Frame(number=1, ack=9), "was acknowledged")


def test_what_is_sent_past_its_credit_ends_the_session() -> None:
    opener, acceptor = pair(SMALL)
    number = call(opener)
    for _ in range(4):
        opener.write(number, piece("x" * 1000))
    for frame in frames(opener):
        if frame.WhichOneof("body") == "fragments":
            frame.fragments.fragments.extend([*frame.fragments.fragments])
        acceptor.handle_frame(CONNECTION, frame, 0.0)
    status = ended(acceptor)
    assert status is not None
    assert "past its credit" in status.message


def test_a_gap_breaks_the_connection_and_not_the_session() -> None:
    opener, acceptor = pair()
    call(opener)
    call(opener)
    acceptor.handle_frame(CONNECTION, frames(opener)[1], 0.0)
    assert happened(acceptor) == [events.Disconnected()]
    opener.attach(2, acceptor.received, 0.0)
    acceptor.attach(2, opener.received, 0.0)
    for frame in frames(opener):
        acceptor.handle_frame(2, frame, 0.0)
    assert len(happened(acceptor)) == 2


def test_what_was_received_is_not_sent_again_and_the_rest_has_the_same_numbers() -> None:
    opener, acceptor = pair()
    calls = [call(opener) for _ in range(3)]
    sent = frames(opener)
    acceptor.handle_frame(CONNECTION, sent[0], 0.0)
    opener.detach(CONNECTION, 0.0)
    opener.write(calls[0], piece("late"))
    opener.attach(2, acceptor.received, 0.0)
    again = frames(opener)
    assert [frame.number for frame in again] == [2, 3, 4]
    assert again[:2] == sent[1:]


def test_a_peer_that_sends_without_reading_ends_the_session() -> None:
    _, acceptor = pair(Limits(max_calls=1))
    for place in range(MAX_WAITING_CONTROL + 2):
        frame = Frame(number=place + 1)
        frame.call.call = 2 * place + 1
        acceptor.handle_frame(CONNECTION, frame, 0.0)
    status = ended(acceptor)
    assert status is not None
    assert status.reason is Reason.SESSION_LIMIT
    assert acceptor.held_bytes == 0


def test_a_log_that_nobody_reads_loses_its_oldest_entries() -> None:
    opener, acceptor = pair()
    number = call(opener)
    pass_on(opener, acceptor)
    for place in range(10):
        acceptor.log(number, LogEntry(text=f"{place}{'x' * (MAX_WAITING_LOG_BYTES // 4)}"))
    pass_on(acceptor, opener)
    logs = [
        (event.entry.text[0], event.displaced)
        for event in happened(opener)
        if isinstance(event, events.Logged)
    ]
    assert logs == [("7", 7), ("8", 0), ("9", 0)]


def test_a_silent_connection_is_asked_and_then_given_up() -> None:
    opener, acceptor = pair()
    assert opener.next_timeout() == PING_AFTER
    opener.handle_timeout(PING_AFTER)
    assert [it.WhichOneof("body") for it in pass_on(opener, acceptor, PING_AFTER)] == ["ping"]
    assert [it.WhichOneof("body") for it in pass_on(acceptor, opener, PING_AFTER)] == ["pong"]
    silent = opener.next_timeout()
    assert silent is not None
    opener.handle_timeout(silent)
    frames(opener, silent)
    given_up = opener.next_timeout()
    assert given_up is not None
    opener.handle_timeout(given_up)
    assert happened(opener) == [events.Disconnected()]
    opener.handle_timeout(given_up + DEFAULT_GRACE)
    status = ended(opener)
    assert status is not None
    assert status.reason is Reason.PEER_LOST


def test_what_is_received_is_acknowledged_in_time_and_kept_no_longer() -> None:
    opener, acceptor = pair()
    call(opener)
    pass_on(opener, acceptor)
    assert opener.held_bytes > 0
    assert frames(acceptor) == []
    due = acceptor.next_timeout()
    assert due is not None
    assert due <= 0.025
    pass_on(acceptor, opener, due)
    assert opener.held_bytes == 0


def test_the_calls_of_a_session_that_ends_end_once() -> None:
    opener, acceptor = pair()
    number = call(opener)
    pass_on(opener, acceptor)
    happened(acceptor)
    opener.end(OK)
    finished, over = happened(opener)
    assert isinstance(finished, events.Finished)
    assert (finished.call, finished.status.reason) == (number, Reason.PEER_LOST)
    assert over == events.Ended(OK)
    pass_on(opener, acceptor)
    cancelled, over = happened(acceptor)
    assert isinstance(cancelled, events.Cancelled)
    assert cancelled.call == number
    assert isinstance(over, events.Ended)
    assert opener.is_closed
    assert frames(acceptor) == []


def test_a_failed_call_tells_its_status_without_waiting_for_credit() -> None:
    def check(status: Status, told: bool) -> None:
        opener, acceptor = pair(SMALL)
        number = call(opener)
        pass_on(opener, acceptor)
        while acceptor.room(number, "out") is Room.FREE:
            acceptor.write(number, piece("x" * 1000, "out"))
        acceptor.finish(number, status)
        pass_on(acceptor, opener)
        finished = [it for it in happened(opener) if isinstance(it, events.Finished)]
        assert bool(finished) is told, status

    check(OK, False)
    check(Status.of(Reason.DEADLINE, "late"), True)


def test_limits_are_checked() -> None:
    assert Limits.from_proto(SessionLimits()) == Limits()

    def check(message: SessionLimits, field: str) -> None:
        with pytest.raises(StatusError, match=field):
            Limits.from_proto(message)

    check(SessionLimits(node_window_bytes=1), "node_window_bytes")
    check(SessionLimits(max_frame_bytes=1), "max_frame_bytes")


def test_what_is_too_large_is_refused_at_the_sender() -> None:
    def check(action: Callable[[Core, int], object]) -> None:
        opener, _ = pair(Limits(max_frame_bytes=256 * 1024))
        number = call(opener)
        with pytest.raises(StatusError) as caught:
            action(opener, number)
        assert caught.value.reason is Reason.SESSION_LIMIT

    check(lambda core, number: core.write(number, piece("x" * 300_000)))
    check(lambda core, _: core.start_call(NewCall("a", headers={"x": b"x" * 300_000})))
