"""Two session cores on a network that delays, cuts and repeats, from a seed."""

from __future__ import annotations

import heapq
import os
import random
from dataclasses import dataclass, field

import pytest

from a11_grpc._proto.chunk_pb2 import Chunk, NodeFragment
from a11_grpc._proto.peer_service_pb2 import Frame
from a11_grpc.session.core import Core, Limits, NewCall, Room, Side, cost, events
from a11_grpc.session.core.limits import DEFAULT_GRACE, MAX_UNACKED_BYTES, MAX_WAITING_NODE_BYTES
from a11_grpc.wire.status import OK

SEEDS = int(os.environ.get("A11_SEEDS", "120"))
"""How many networks; the first is A11_SEED where that is set."""

FIRST = int(os.environ.get("A11_SEED", "0"))
WINDOW = 4096
STEPS = 200_000


@dataclass
class Stream:
    """What one side writes to a node of a call, and what of it came."""

    pieces: list[bytes]
    written: int = 0
    arrived: list[bytes] = field(default_factory=list)
    unconsumed: list[NodeFragment] = field(default_factory=list)
    is_final: bool = False


class Peer:
    """A program over a core: makes calls, answers each with streams of its own."""

    def __init__(self, side: Side, randomness: random.Random, calls: int) -> None:
        limits = Limits(node_window_bytes=WINDOW, max_calls=8)
        self.core = Core(side, limits, limits, DEFAULT_GRACE, 0.0)
        self.random = randomness
        self.to_make = calls
        self.sending: dict[int, Stream] = {}
        self.receiving: dict[int, Stream] = {}
        self.made: list[int] = []
        self.finished: dict[int, int] = {}
        self.called: set[int] = set()

    def stream(self, number: int) -> Stream:
        count = self.random.randrange(0, 40)
        size = self.random.choice([0, 10, 700, 9000])
        return Stream([f"{number}:{place}:".encode() + b"x" * size for place in range(count)])

    def act(self) -> None:
        """Does some of what can be done."""
        while (event := self.core.poll_event()) is not None:
            self.take(event)
        if self.to_make and len(self.made) - len(self.finished) < 8 and self.random.random() < 0.5:
            self.to_make -= 1
            number = self.core.start_call(NewCall("a"))
            self.made.append(number)
            self.sending[number] = self.stream(number)
            self.receiving[number] = Stream([])
        for number, stream in [*self.sending.items()]:
            self.write(number, stream)
        for number, stream in self.receiving.items():
            while stream.unconsumed and self.random.random() < 0.7:
                self.core.consume(number, "n", cost(stream.unconsumed.pop(0)))

    def write(self, number: int, stream: Stream) -> None:
        while self.random.random() < 0.8:
            if stream.written > len(stream.pieces):
                return
            if self.core.room(number, "n") is not Room.FREE:
                return
            final = stream.written == len(stream.pieces)
            data = b"" if final else stream.pieces[stream.written]
            fragment = NodeFragment(id="n", chunk=Chunk(data=data), continued=not final)
            self.core.write(number, fragment)
            stream.written += 1

    def take(self, event: events.Event) -> None:
        if isinstance(event, events.Called):
            number = event.frame.call
            assert number not in self.called, "a call came twice"
            self.called.add(number)
            self.sending[number] = self.stream(number)
            self.receiving[number] = Stream([])
        elif isinstance(event, events.Fragments):
            stream = self.receiving[event.call]
            for fragment in event.fragments:
                assert not stream.is_final, "something came past the end"
                if fragment.continued:
                    stream.arrived.append(fragment.chunk.data)
                    stream.unconsumed.append(fragment)
                else:
                    stream.is_final = True
        elif isinstance(event, events.Finished):
            assert event.call not in self.finished, "a call ended twice"
            assert event.status.is_ok, event.status
            self.finished[event.call] = 1
        assert not isinstance(event, events.Ended), event

    def finish_calls(self) -> None:
        """A host's call ends once it has read and written everything."""
        for number in self.called:
            stream = self.sending[number]
            if self.receiving[number].is_final and stream.written > len(stream.pieces):
                self.core.finish(number, OK)

    @property
    def is_done(self) -> bool:
        return not self.to_make and len(self.finished) == len(self.made)


class Network:
    """Carries frames in order with delay, while a connection lasts."""

    def __init__(self, randomness: random.Random) -> None:
        self.random = randomness
        self.under_way: list[tuple[float, int, int, int, bytes]] = []
        self.last = [0.0, 0.0]
        self.connection = 0
        self.count = 0
        self.cuts = 0

    def send(self, to: int, frame: Frame, now: float) -> None:
        arrival = max(self.last[to], now + self.random.random() * 0.05)
        self.last[to] = arrival
        self.count += 1
        data = frame.SerializeToString()
        heapq.heappush(self.under_way, (arrival, self.count, to, self.connection, data))


def run(seed: int) -> int:
    randomness = random.Random(seed)
    peers = [
        Peer(Side.OPENER, randomness, randomness.randrange(1, 6)),
        Peer(Side.ACCEPTOR, randomness, randomness.randrange(0, 6)),
    ]
    network, now = Network(randomness), 0.0
    cores = [peer.core for peer in peers]
    for _ in range(STEPS):
        if not cores[0].is_connected or not cores[1].is_connected:
            network.connection += 1
            received = [core.received for core in cores]
            cores[0].attach(network.connection, received[1], now)
            cores[1].attach(network.connection, received[0], now)
        for peer in peers:
            peer.act()
            peer.finish_calls()
        for place, core in enumerate(cores):
            for _ in range(randomness.randrange(0, 6)):
                frame = core.poll_frame(now)
                if frame is None:
                    break
                network.send(1 - place, frame, now)
                if randomness.random() < 0.02:
                    # What comes twice is dropped.
                    network.send(1 - place, frame, now)
        now += randomness.random() * 0.02
        while network.under_way and network.under_way[0][0] <= now:
            _, _, to, connection, data = heapq.heappop(network.under_way)
            cores[to].handle_frame(connection, Frame.FromString(data), now)
        if randomness.random() < 0.02 and network.cuts < 20:
            network.cuts += 1
            for core in cores:
                core.detach(network.connection, now)
        for core in cores:
            due = core.next_timeout()
            if due is not None and due <= now:
                core.handle_timeout(now)
            nodes = 2 * len(core.calls)
            bound = MAX_UNACKED_BYTES + nodes * (MAX_WAITING_NODE_BYTES + WINDOW + 10_000)
            assert core.held_bytes <= bound
        if all(peer.is_done for peer in peers):
            break
    else:
        pytest.fail("it does not come to an end")
    for one, other in (peers, peers[::-1]):
        for number, stream in one.sending.items():
            assert other.receiving[number].arrived == stream.pieces
    assert all(not core.calls for core in cores)
    return network.cuts


def test_every_stream_is_exact_and_every_call_ends_once_on_any_network() -> None:
    cuts = 0
    for seed in range(FIRST, FIRST + SEEDS):
        try:
            cuts += run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: A11_SEED={seed} A11_SEEDS=1 repeats it")
            raise
    # The networks are no better than they should be.
    assert cuts > SEEDS // 2
