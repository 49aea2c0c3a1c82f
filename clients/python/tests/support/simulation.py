"""Two session cores in virtual time, each with a program over it, on a network made of a seed.

The network delays, is cut, and now and then repeats a frame, swaps two of one connection, or brings
some of a connection that is gone. The programs know what every stream must hold.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from a11_grpc._proto.action_pb2 import LogEntry
from a11_grpc._proto.chunk_pb2 import Chunk, NodeFragment
from a11_grpc._proto.peer_service_pb2 import Frame
from a11_grpc.session.core import Core, Limits, NewCall, Room, Side, cost, events
from a11_grpc.session.core.limits import (
    DEFAULT_GRACE,
    MAX_UNACKED_BYTES,
    MAX_WAITING_NODE_BYTES,
)
from a11_grpc.wire.status import OK, Code, Reason, Status

WINDOW = 4096
LARGEST_PIECE = 9000
"""Larger than a window: one piece may go beyond it."""
MAX_CALLS = 8
CONTROL_BYTES = 256 * 1024
"""What is held beside the nodes of the calls that run: control, and what has ended."""
INPUTS, OUTPUTS = ("in_a", "in_b"), ("out_a", "out_b")
ENDINGS = ("with the last piece", "with a final piece", "beside the pieces", "with a failure")
NODE_FAILURE = Status(Code.DATA_LOSS, Reason.HANDLER_FAILED, "of a node, by the seed")
CALL_FAILURE = Status(Code.NOT_FOUND, Reason.HANDLER_FAILED, "of a call, by the seed")
ENOUGH = Status.of(Reason.CANCELLED, "by the seed")
STEPS = 20_000
"""As a rule it takes a few hundred."""


@dataclass
class Writing:
    """A node that one side writes."""

    pieces: list[bytes]
    ending: str
    written: int = 0
    is_ended: bool = False

    @property
    def end(self) -> Status:
        """What its reader is told in the end."""
        return NODE_FAILURE if self.ending == "with a failure" else OK


@dataclass
class Reading:
    """What came of a node, and what of it was not consumed yet."""

    arrived: list[bytes] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    end: Status | None = None


@dataclass
class Call:
    """A call on one side."""

    writing: dict[str, Writing]
    reading: dict[str, Reading]
    verdict: Status = OK  # What its host ends it with, as far as it goes.
    ended: Status | None = None
    is_cancelled: bool = False
    logged: int = 0


class Program:
    """A program over a core: it makes calls, hosts those of the other side, reads at its pace."""

    def __init__(self, side: Side, randomness: random.Random, calls: int) -> None:
        limits = Limits(node_window_bytes=WINDOW, max_calls=MAX_CALLS)
        self.core = Core(side, limits, limits, DEFAULT_GRACE, 0.0)
        self.random = randomness
        self.to_make = calls
        self.made: dict[int, Call] = {}
        self.hosted: dict[int, Call] = {}
        self.ended: Status | None = None
        self.displaced = 0

    @property
    def is_done(self) -> bool:
        has_calls = any(_running(self.made)) or any(_running(self.hosted))
        return not has_calls and (not self.to_make or self.ended is not None)

    def step(self) -> None:
        """Does some of what can be done."""
        self._take_events()
        if self.to_make and self.ended is None and self.random.random() < 0.5:
            self._start()
        for number, call in _running(self.made):
            self._advance(number, call)
            if not call.is_cancelled and self.random.random() < 0.003:
                call.is_cancelled = True
                self.core.cancel(number, ENOUGH)
        for number, call in _running(self.hosted):
            self._advance(number, call)
            self._host(number, call)
        self._take_events()

    def check_memory(self) -> None:
        """What is held is bounded by what the nodes of the running calls may hold.

        Log entries that were sent have no credit; the bound of all that is kept is theirs.
        """
        nodes = len(self.core.calls) * (len(INPUTS) + len(OUTPUTS))
        node = 2 * WINDOW + MAX_WAITING_NODE_BYTES + 3 * LARGEST_PIECE
        held, bound = self.core.held_bytes, nodes * node + CONTROL_BYTES
        if held > bound:
            kept = self.core.link._unacked
            held -= sum(size for frame, size in kept if frame.HasField("log"))
        assert held <= bound, f"{held} bytes for {nodes} nodes"
        assert self.core.link.kept_bytes <= MAX_UNACKED_BYTES + LARGEST_PIECE

    def check_calls(self, host: Program) -> None:
        """Compares the calls that it made, and all that they carried, with those that ran."""
        for number, made in self.made.items():
            assert made.ended is not None
            ran = host.hosted.get(number)
            if ran is None:
                assert made.ended.reason is Reason.PEER_LOST, f"call {number} never ran"
                continue
            is_whole = made.ended.is_ok and not made.is_cancelled
            for writer, reader, ports in ((made, ran, INPUTS), (ran, made, OUTPUTS)):
                for port in ports:
                    writing, reading = writer.writing[port], reader.reading[port]
                    came = len(reading.arrived)
                    assert reading.arrived == writing.pieces[:came], (number, port)
                    if is_whole:
                        assert came == len(writing.pieces), (number, port)
                        assert reading.end == writing.end, (number, port)
            if made.ended.reason is not Reason.PEER_LOST and not made.is_cancelled:
                assert made.ended == ran.ended, number

    # Below: what it does.

    def _start(self) -> None:
        if len([*_running(self.made)]) < MAX_CALLS:
            self.to_make -= 1
            number = self.core.start_call(NewCall("a", inputs=INPUTS))
            self.made[number] = self._new_call(INPUTS, OUTPUTS)

    def _new_call(self, writes: tuple[str, ...], reads: tuple[str, ...]) -> Call:
        writing = {port: self._new_writing() for port in writes}
        verdict = CALL_FAILURE if self.random.random() < 0.2 else OK
        return Call(writing, {port: Reading() for port in reads}, verdict)

    def _new_writing(self) -> Writing:
        longest = self.random.choice([0, 10, 700, LARGEST_PIECE])
        count = self.random.randrange(0, 25)
        pieces = [self.random.randbytes(self.random.randint(0, longest)) for _ in range(count)]
        return Writing(pieces, self.random.choice(ENDINGS))

    def _advance(self, number: int, call: Call) -> None:
        for port, writing in call.writing.items():
            while not writing.is_ended and self.random.random() < 0.8:
                if self.core.room(number, port) is not Room.FREE:
                    break
                self._write(number, port, writing)
        for port, reading in call.reading.items():
            while reading.unread and self.random.random() < 0.7:
                self.core.consume(number, port, reading.unread.pop(0))

    def _write(self, number: int, port: str, writing: Writing) -> None:
        left = len(writing.pieces) - writing.written
        if left:
            final = left == 1 and writing.ending == "with the last piece"
            chunk = Chunk(data=writing.pieces[writing.written])
            self.core.write(number, NodeFragment(id=port, chunk=chunk, continued=not final))
            writing.written += 1
            writing.is_ended = final
            return
        writing.is_ended = True
        if writing.ending in ("beside the pieces", "with a failure"):
            self.core.close(number, port, writing.end)
        else:
            # A null chunk: one without a value.
            self.core.write(number, NodeFragment(id=port, chunk=Chunk(), continued=False))

    def _host(self, number: int, call: Call) -> None:
        """Narrates, and ends the call once all is read and written, or before where it fails."""
        if self.random.random() < 0.15:
            # Large enough that some are displaced while there is no connection.
            text = str(call.logged).ljust(self.random.randrange(6000))
            self.core.log(number, LogEntry(text=text))
            call.logged += 1
        is_through = all(writing.is_ended for writing in call.writing.values()) and all(
            reading.end is not None for reading in call.reading.values()
        )
        if is_through or (call.verdict is not OK and self.random.random() < 0.05):
            call.ended = call.verdict
            self.core.finish(number, call.verdict)

    # Below: what it is told.

    def _take_events(self) -> None:
        while (event := self.core.poll_event()) is not None:
            self._take(event)

    def _take(self, event: events.Event) -> None:
        assert self.ended is None, f"{event} after the session's end"
        match event:
            case events.Called():
                assert event.frame.call not in self.hosted, "a call came twice"
                self.hosted[event.frame.call] = self._new_call(OUTPUTS, INPUTS)
            case events.Fragments():
                for fragment in event.fragments:
                    self._arrived(event.call, fragment)
            case events.Closed():
                reading = self._call(event.call).reading[event.id]
                assert reading.end is None, "a node ended twice"
                reading.end = event.status
            case events.Logged():
                call = self._call(event.call)
                assert int(event.entry.text) == call.logged + event.displaced
                call.logged = int(event.entry.text) + 1
                self.displaced += event.displaced
            case events.Cancelled():
                call = self.hosted[event.call]
                assert call.ended is None, "a call was cancelled after its end"
                call.ended = event.status
                self.core.finish(event.call, event.status)
            case events.Finished():
                call = self.made[event.call]
                assert call.ended is None, "a call ended twice"
                call.ended = event.status
            case events.Ended():
                self.ended = event.status

    def _call(self, number: int) -> Call:
        call = self.made.get(number)
        if call is None:
            return self.hosted[number]
        assert call.ended is None, "something came after a call's end"
        return call

    def _arrived(self, number: int, fragment: NodeFragment) -> None:
        reading = self._call(number).reading[fragment.id]
        assert reading.end is None, "something came past the end of a node"
        if fragment.continued:
            reading.unread.append(cost(fragment))
        else:
            reading.end = OK
        if fragment.continued or fragment.chunk.HasField("data"):
            reading.arrived.append(fragment.chunk.data)
        held = sum(reading.unread)
        assert held <= WINDOW + LARGEST_PIECE + 64, f"{held} bytes of a node came"


def _running(calls: dict[int, Call]) -> Iterator[tuple[int, Call]]:
    return ((number, call) for number, call in calls.items() if call.ended is None)


@dataclass(frozen=True)
class Flight:
    """A frame under way, encoded as on a wire."""

    at: float
    connection: int
    data: bytes


class Simulation:
    """Two programs, and the network between them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.programs = (
            Program(Side.OPENER, self.random, self.random.randrange(1, 6)),
            Program(Side.ACCEPTOR, self.random, self.random.randrange(0, 6)),
        )
        self.is_lost = self.random.random() < 0.1  # The first cut is for good.
        self.now = 0.0
        self.connection = 0
        self.connects_at: float | None = 0.0
        self.under_way: tuple[deque[Flight], deque[Flight]] = (deque(), deque())
        self.cuts = self.repeats = self.swaps = self.gaps = 0

    def run(self) -> None:
        """Until every call has ended; then compares what was sent with what came."""
        for _ in range(STEPS):
            self._step()
            if all(program.is_done for program in self.programs):
                break
        else:
            raise AssertionError("it does not come to an end")
        one, other = self.programs
        for program, host in ((one, other), (other, one)):
            program.check_calls(host)
            if not self.is_lost:
                assert program.ended is None, program.ended
            elif program.ended is not None:
                assert program.ended.reason is Reason.PEER_LOST

    def _step(self) -> None:
        self._pass_time()
        if self.connects_at is not None and self.connects_at <= self.now:
            self._connect()
        for place, program in enumerate(self.programs):
            core, inbox = program.core, self.under_way[place]
            while inbox and inbox[0].at <= self.now:
                flight = inbox.popleft()
                was_attached = core.is_attached(flight.connection)
                core.handle_frame(flight.connection, Frame.FromString(flight.data), self.now)
                self.gaps += was_attached and not core.is_connected
            core.handle_timeout(self.now)
            program.step()
            # A slow connection takes a few frames at a time.
            for _ in range(self.random.randrange(0, 9)):
                frame = core.poll_frame(self.now)
                if frame is None:
                    break
                self._send(1 - place, frame)
            if self.random.random() < 0.2:
                program.check_memory()
        if self.connects_at is None and self.random.random() < 0.02 and self.cuts < 20:
            self._cut()
        elif self.connects_at is None and not all(
            program.core.is_connected for program in self.programs
        ):
            self._connect_after(self.random.random())

    def _pass_time(self) -> None:
        # Now and then nothing is said for so long that one side asks whether the other is there.
        self.now += 21.0 if self.random.random() < 0.002 else self.random.random() * 0.04
        if not any(program.core.is_connected for program in self.programs):
            due = [flights[0].at for flights in self.under_way if flights]
            due += [self.connects_at] if self.connects_at is not None else []
            timeouts = [program.core.next_timeout() for program in self.programs]
            due += [timeout for timeout in timeouts if timeout is not None]
            self.now = max(self.now, min(due, default=self.now))

    def _send(self, to: int, frame: Frame) -> None:
        inbox = self.under_way[to]
        before = inbox[-1].at if inbox else 0.0
        at = max(before, self.now + self.random.random() * 0.05)
        inbox.append(Flight(at, self.connection, frame.SerializeToString()))
        chance = self.random.random()
        if chance < 0.03:
            self.repeats += 1
            again = self.random.choice(inbox)
            inbox.append(Flight(at, again.connection, again.data))
        elif chance < 0.04 and len(inbox) > 1:
            self.swaps += 1
            last, other = inbox.pop(), inbox.pop()
            inbox.append(Flight(other.at, last.connection, last.data))
            inbox.append(Flight(last.at, other.connection, other.data))

    def _cut(self) -> None:
        """One side may not notice, and what was under way may come when it is too late."""
        self.cuts += 1
        unaware = None if self.is_lost else self.random.choice([0, 1, None])
        for place, program in enumerate(self.programs):
            if place != unaware:
                program.core.detach(self.connection, self.now)
            if self.random.random() < 0.7:
                self.under_way[place].clear()
        self._connect_after(self.random.random() * 20.0)

    def _connect_after(self, seconds: float) -> None:
        self.connects_at = float("inf") if self.is_lost else self.now + seconds

    def _connect(self) -> None:
        self.connects_at = None
        self.connection += 1
        cores = [program.core for program in self.programs]
        received = [core.received for core in cores]
        for place, core in enumerate(cores):
            core.attach(self.connection, received[1 - place], self.now)
