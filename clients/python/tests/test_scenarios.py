"""What breaks software of this kind, from Python: silence, slowness, refusal, death."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from grpc import aio
from support.pace import MIB, Memory, keep_their_rate
from support.server import Server, serving

import a11_grpc
from a11_grpc import Client, Code, Context, Reason, Registry, StatusError
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc._proto.peer_service_pb2_grpc import PeerServiceStub


async def test_headers_of_a_silent_stream_arrive_at_once(address: str) -> None:
    """Scenario 1: either side may speak first."""
    async with aio.insecure_channel(address) as channel, asyncio.timeout(10):
        for method in (ActionServiceStub(channel).CallAction, PeerServiceStub(channel).OpenSession):
            stream = method()
            await stream.initial_metadata()
            stream.cancel()


async def test_a_stream_that_nobody_reads_holds_up_no_other(server: Server, client: Client) -> None:
    """Scenario 2: ten streams, one of them not read; the others keep their rate."""
    registry = Registry()
    written: list[int] = [0] * 10

    @registry.action
    async def s_flow(which: int, count: int) -> AsyncIterator[str]:
        """A long stream."""
        for _ in range(count):
            yield "x" * 16_000
            written[which] += 1

    await client.host(registry)

    async def read(which: int) -> int:
        return len([value async for value in client.stream("s_flow", which=which, count=100)])

    async def seconds() -> float:
        began = time.perf_counter()
        assert await asyncio.gather(*(read(which) for which in range(1, 10))) == [100] * 9
        return time.perf_counter() - began

    async with asyncio.timeout(60):
        without = min([await seconds() for _ in range(4)])
        memory = Memory(server)
        async with await client.start("s_flow", which=0, count=100_000):
            while not written[0]:
                await client.ping()
            await keep_their_rate(seconds, without)
            # Its windows between host, service and caller, and not a byte more.
            assert written[0] * 16_000 < 4 * MIB
            assert memory.grown < 32 * MIB


async def test_a_slow_consumer_holds_up_its_writer_and_nobody_else(
    server: Server, client: Client
) -> None:
    """Scenario 2: what is sent waits for its reader, not in memory; other calls keep their rate."""
    registry = Registry()
    piece, count = b"x" * (64 * 1024), int(os.environ.get("A11_SLOW_PIECES", "2000"))
    sent = taken = 0
    room = asyncio.Semaphore(0)

    @registry.action
    async def s_slow(blobs: AsyncIterator[bytes]) -> int:
        """Takes a piece when it is let."""
        nonlocal taken
        total = 0
        async for blob in blobs:
            await room.acquire()
            taken += 1
            total += len(blob)
        return total

    @registry.action
    async def s_quick(number: int) -> int:
        """Answers at once."""
        return number

    await client.host(registry)

    def blobs() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(count):
            sent += 1
            yield piece

    async def seconds(pieces: int = 0) -> float:
        """For fifty calls, in which the consumer takes so many pieces."""
        began = time.perf_counter()
        for number in range(50):
            if number < pieces:
                room.release()
            assert await client.call("s_quick", number=number) == number
        grown.append(memory.grown)
        # Its windows between caller, service and host, and not a byte more.
        assert (sent - taken) * len(piece) < 4 * MIB
        return time.perf_counter() - began

    grown: list[int] = []
    memory = Memory(server)
    async with asyncio.timeout(60 + count / 50):
        alone = min([await seconds() for _ in range(8)])
        feeding = asyncio.ensure_future(client.call("s_slow", blobs=blobs()))
        await keep_their_rate(seconds, alone)
        assert 0 < sent < count
        assert taken == 0
        await keep_their_rate(lambda: seconds(pieces=10), alone)
        for _ in range(count):
            room.release()
        while not feeding.done():
            await seconds()
        assert await feeding == count * len(piece)
    # However much it was.
    assert max(grown) < 32 * MIB


# With gRPC's synchronous API. Of its asyncio API a write that fails may hide the status that came;
# not so in a session, whose refusals are frames.
REFUSED_WHILE_WRITING = """
import collections, sys, grpc
from a11_grpc._proto import action_service_pb2 as pb
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub

start = pb.CallActionRequest(start=pb.CallStart(action="no_such_action"))
more = pb.CallActionRequest()
more.inputs.fragments.add(id="text", continued=True).chunk.data = b"x" * 1000

def writing():
    yield start
    while True:
        yield more

found = collections.Counter()
with grpc.insecure_channel(sys.argv[1]) as channel:
    for _ in range(100):
        try:
            for _ in ActionServiceStub(channel).CallAction(writing()):
                pass
        except grpc.RpcError as error:
            found[error.code().name, error.details()] += 1
print(dict(found))
"""


async def test_a_refusal_while_the_client_still_writes_is_the_same_each_time(
    address: str, client: Client
) -> None:
    """Scenario 3: over CallAction, and in the session where the action has gone since."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", REFUSED_WHILE_WRITING, address), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        stdout, _ = await process.communicate()
    assert (
        stdout.decode().strip() == "{('NOT_FOUND', 'there is no action \"no_such_action\"'): 100}"
    )
    registry = Registry()

    @registry.action
    async def s_gone(texts: AsyncIterator[str]) -> None:
        """Is known to the caller and not there any more."""

    await client.host(registry)
    schema = await client.schema("s_gone")
    registry.remove("s_gone")
    async with asyncio.timeout(10):
        while await client.actions("s_gone"):
            await asyncio.sleep(0.005)

    async def texts() -> AsyncIterator[str]:
        while True:
            yield "x" * 1000

    for _ in range(100):
        # As a client does that has looked the schema up a moment before.
        client._parts.schemas._keep(schema)
        with pytest.raises(StatusError) as refused:
            await client.call("s_gone", texts=texts())
        assert refused.value.code is Code.NOT_FOUND
        assert refused.value.reason is Reason.UNKNOWN_ACTION


GRACE = 1.0
"""The grace of the servers below, in seconds: time enough to see that nothing ends before."""


@asynccontextmanager
async def running(program: str, address: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python program for the length of a block, its output to be read."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(program), address), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


CALLER = """
    import asyncio, sys, a11_grpc

    async def main():
        client = await a11_grpc.connect(sys.argv[1])
        print(await client.open_session(), flush=True)
        call = {"type": "tool_use", "id": "c", "name": "s_wait", "input": {"which": "one_shot"}}
        reply = {"role": "assistant", "content": [call]}
        async with asyncio.TaskGroup() as group:
            group.create_task(client.execute(reply, allow=["s_wait"]))
            group.create_task(client.call("s_wait", which="session"))

    asyncio.run(main())
"""


async def test_when_the_client_dies_its_calls_end_at_once_or_after_its_grace() -> None:
    """Scenario 5: a one-shot call at once, a session's when its grace is over; nothing is left."""
    registry = Registry()
    began = {"one_shot": asyncio.Event(), "session": asyncio.Event()}
    ended = {"one_shot": asyncio.Event(), "session": asyncio.Event()}

    @registry.action
    async def s_wait(ctx: Context, which: str) -> str:
        """Waits for its end."""
        began[which].set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended[which].set()
        return which

    async with (
        serving(["--session-grace", f"{GRACE:g}s"]) as server,
        a11_grpc.connect(server.address, registry=registry) as host,
        asyncio.timeout(30),
    ):
        await host.ping()
        tasks = len(asyncio.all_tasks())
        async with running(CALLER, server.address) as process:
            session = await line_of(process)
            await asyncio.gather(*(event.wait() for event in began.values()))
            reading = asyncio.ensure_future(anext(host.read_node("x", session=session)))
            killed = time.monotonic()
            process.kill()
            await ended["one_shot"].wait()
            assert not ended["session"].is_set()
            await ended["session"].wait()
            assert time.monotonic() - killed >= GRACE
        # Whoever waits for a node of the session hears that it will not come.
        with pytest.raises(StatusError) as caught:
            await reading
        assert caught.value.code is Code.UNAVAILABLE, caught.value
        with pytest.raises(StatusError) as caught:
            await anext(host.read_node("x", session=session))
        assert caught.value.reason is Reason.UNKNOWN_SESSION
        current = host._parts.keeper.current
        assert current is not None
        while current.core.calls or len(asyncio.all_tasks()) > tasks:
            await host.ping()


HOST = """
    import asyncio, sys, a11_grpc

    registry = a11_grpc.Registry()

    @registry.action
    async def s_abandon() -> str:
        print("began", flush=True)
        await asyncio.sleep(3600)

    async def main():
        async with a11_grpc.connect(sys.argv[1], registry=registry):
            print("ready", flush=True)
            await asyncio.Event().wait()

    asyncio.run(main())
"""


async def test_when_a_host_is_killed_its_calls_fail_once_its_grace_is_over() -> None:
    """Scenario 5, the other way round."""
    async with (
        serving(["--session-grace", f"{GRACE:g}s"]) as server,
        a11_grpc.connect(server.address) as caller,
        running(HOST, server.address) as process,
        asyncio.timeout(30),
    ):
        assert await line_of(process) == "ready"
        calling = asyncio.ensure_future(caller.call("s_abandon"))
        assert await line_of(process) == "began"
        killed = time.monotonic()
        process.kill()
        with pytest.raises(StatusError) as caught:
            await calling
        assert time.monotonic() - killed >= GRACE
        assert (caught.value.code, caught.value.reason) == (Code.UNAVAILABLE, Reason.PEER_LOST)
        with pytest.raises(StatusError) as caught:
            await caller.call("s_abandon")
        assert caught.value.reason is Reason.UNKNOWN_ACTION


async def test_when_a_host_says_goodbye_its_calls_fail_at_once() -> None:
    """Scenario 5: nobody waits for one that will not come back."""
    registry = Registry()
    began = asyncio.Event()

    @registry.action
    async def s_leave() -> str:
        """Is left alone."""
        began.set()
        await asyncio.sleep(3600)
        return ""

    async with serving() as server, a11_grpc.connect(server.address) as caller:
        host = await a11_grpc.connect(server.address, registry=registry)
        calling = asyncio.ensure_future(caller.call("s_leave"))
        async with asyncio.timeout(20):
            await began.wait()
            await host.close()
            with pytest.raises(StatusError) as caught:
                await calling
        assert (caught.value.code, caught.value.reason) == (Code.UNAVAILABLE, Reason.PEER_LOST)
        with pytest.raises(StatusError) as caught:
            await caller.call("s_leave")
        assert caught.value.code is Code.NOT_FOUND
