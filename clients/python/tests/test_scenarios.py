"""What breaks software of this kind, from Python: silence, slowness, refusal, death."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator

import pytest
from grpc import aio
from support.server import Server, serving

import a11_grpc
from a11_grpc import Client, Code, Context, Reason, Registry, StatusError
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc._proto.peer_service_pb2_grpc import PeerServiceStub

MIB = 1 << 20


async def test_headers_of_a_silent_stream_arrive_at_once(address: str) -> None:
    """Scenario 1: either side may speak first."""
    async with aio.insecure_channel(address) as channel, asyncio.timeout(10):
        for method in (ActionServiceStub(channel).CallAction, PeerServiceStub(channel).OpenSession):
            stream = method()
            await stream.initial_metadata()
            stream.cancel()


async def test_a_stream_that_nobody_reads_holds_up_no_other(server: Server, client: Client) -> None:
    """Scenario 2: ten streams, one of them not read; memory stays bounded."""
    registry = Registry()
    written: list[int] = [0] * 10

    @registry.action
    async def s_flow(which: int, count: int) -> AsyncIterator[str]:
        """A long stream."""
        for _ in range(count):
            yield "x" * 16_000
            written[which] += 1

    await client.host(registry)
    stalled = await client.start("s_flow", which=0, count=100_000)
    before = server.resident_bytes()

    async def read(which: int) -> int:
        return len([value async for value in client.stream("s_flow", which=which, count=300)])

    async with asyncio.timeout(60):
        assert await asyncio.gather(*(read(which) for which in range(1, 10))) == [300] * 9
    assert written[1:] == [300] * 9
    # Its windows between host, service and caller, and not a byte more.
    assert written[0] * 16_000 < 4 * MIB
    assert server.resident_bytes() - before < 100 * MIB
    stalled.cancel()


async def test_large_data_to_a_slow_consumer_keeps_memory_bounded(
    server: Server, client: Client
) -> None:
    """Scenario 2: what is sent waits for its reader, not in memory."""
    registry = Registry()
    piece, count = b"x" * (64 * 1024), int(os.environ.get("A11_SLOW_PIECES", "2000"))

    @registry.action
    async def s_slow(blobs: AsyncIterator[bytes]) -> int:
        """Reads slower than it could be written."""
        total = 0
        async for blob in blobs:
            total += len(blob)
            await asyncio.sleep(0)
        return total

    await client.host(registry)
    before = server.resident_bytes(), resident_bytes()

    def blobs() -> Iterator[bytes]:
        for _ in range(count):
            yield piece

    async with asyncio.timeout(100 + count / 50):
        assert await client.call("s_slow", blobs=blobs()) == count * len(piece)
    grown = server.resident_bytes() - before[0], resident_bytes() - before[1]
    # However much it was.
    assert max(grown) < 60 * MIB


def resident_bytes() -> int:
    """How much memory this process has."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 (not a file, really)
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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


async def test_when_the_client_dies_a_one_shot_call_is_cancelled_at_once(
    server: Server, client: Client
) -> None:
    """Scenario 5: and its session's calls only once their grace is over."""
    registry = Registry()
    began: dict[str, asyncio.Event] = {"one_shot": asyncio.Event(), "session": asyncio.Event()}
    ended: dict[str, asyncio.Event] = {"one_shot": asyncio.Event(), "session": asyncio.Event()}

    @registry.action
    async def s_wait(ctx: Context, which: str) -> str:
        """Waits for its end."""
        began[which].set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended[which].set()
        return which

    await client.host(registry)
    program = f"""
        import asyncio, a11_grpc

        async def main():
            client = await a11_grpc.connect({server.address!r})
            await client.open_session()
            call = {{"type": "tool_use", "id": "c", "name": "s_wait"}}
            call["input"] = {{"which": "one_shot"}}
            reply = {{"role": "assistant", "content": [call]}}
            async with asyncio.TaskGroup() as group:
                group.create_task(client.execute(reply, allow=["s_wait"]))
                group.create_task(client.call("s_wait", which="session"))

        asyncio.run(main())
    """
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(program))
    try:
        async with asyncio.timeout(20):
            await asyncio.gather(*(event.wait() for event in began.values()))
            process.kill()
            await ended["one_shot"].wait()
        assert not ended["session"].is_set()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_when_a_host_dies_its_calls_fail_once_its_session_is_gone() -> None:
    """Scenario 5, the other way round: a host that says goodbye is gone at once."""
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
