"""What breaks software of this kind, with a client made of reflection and nothing else."""

from __future__ import annotations

import asyncio
import collections
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from support.pace import MIB, Memory, keep_their_rate
from support.proxy import proxying
from support.reflected import Reflected, channel_to, reflect
from support.server import Server, serving

import a11_grpc
from a11_grpc import Client, Registry

LINE = 16_000
"""How long a line of the flood is, in bytes."""

CONFIG = """
[actions.flood]
description = "Long lines, as many as are wanted, as fast as they are read."
command = ["awk", "-v", "n={count}", '''
  BEGIN {{
    line = "x"; while (length(line) < 16000) line = line line
    line = substr(line, 1, 16000); for (i = 0; i < n; i++) print line
  }}
''']
output = "lines"
max_output_bytes = 10_000_000_000

[actions.flood.inputs.count]
description = "How many."
required = true
"""


@pytest.fixture(scope="module")
async def flooding(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    config = Path(tmp_path_factory.mktemp("config")) / "actions.toml"
    config.write_text(CONFIG)
    async with serving(["--config", str(config)]) as server:
        yield server


@pytest.fixture(scope="module")
async def reflected(flooding: Server) -> Reflected:
    return await reflect(flooding.address)


@pytest.fixture
async def channel(flooding: Server) -> AsyncIterator[aio.Channel]:
    async with channel_to(flooding.address) as channel:
        yield channel


@pytest.fixture
async def hosting(flooding: Server) -> AsyncIterator[tuple[Client, Registry]]:
    registry = Registry()
    async with a11_grpc.connect(flooding.address, registry=registry) as client:
        yield client, registry


def flood(reflected: Reflected, channel: aio.Channel, count: int) -> Any:
    method = reflected.method(channel, "ActionService", "StreamAction")
    request = reflected.message("StreamActionRequest", action="flood")
    request.arguments_json = json.dumps({"count": str(count)})
    return method(request)


async def drained(stream: Any) -> int:
    """How many lines there were until its end."""
    lines = 0
    async for message in stream:
        if message.WhichOneof("event") == "outputs":
            lines += sum(len(one.chunk.data) == LINE for one in message.outputs.fragments)
        elif message.WhichOneof("event") == "status":
            assert message.status.code == 0, message.status.message
    return lines


async def test_of_ten_streams_on_one_channel_one_that_is_not_read_holds_up_no_other(
    flooding: Server, reflected: Reflected, channel: aio.Channel
) -> None:
    """Scenario 2: they go past it, at their rate and to their end."""

    async def seconds() -> float:
        began = time.perf_counter()
        streams = [drained(flood(reflected, channel, 100)) for _ in range(9)]
        assert await asyncio.gather(*streams) == [100] * 9
        return time.perf_counter() - began

    async with asyncio.timeout(60):
        alone = min([await seconds() for _ in range(4)])
        memory = Memory(flooding)
        stalled = flood(reflected, channel, 100_000)
        # Until it is held up, for sure: its first piece has been taken, nothing after it.
        await stalled.read()
        await keep_their_rate(seconds, alone)
        assert memory.grown < 40 * MIB
        # It stood still, and goes on where it stood.
        for _ in range(100):
            assert (await stalled.read()).WhichOneof("event") in ("outputs", "log")
        stalled.cancel()


class Others:
    """Other calls, on the same connection."""

    def __init__(self, reflected: Reflected, channel: aio.Channel) -> None:
        self._ask = reflected.method(channel, "ActionService", "GetAction")
        self._request = reflected.message("GetActionRequest", name="flood")

    async def seconds(self, beside: Callable[[], None] | None = None) -> float:
        """For fifty of them, something done after every tenth."""
        began = time.perf_counter()
        for number in range(50):
            await self._ask(self._request)
            if beside is not None and number % 10 == 0:
                beside()
        return time.perf_counter() - began

    async def alone(self) -> float:
        """For fifty of them, with nothing beside."""
        return min([await self.seconds() for _ in range(8)])


async def test_much_data_to_a_slow_reader_waits_for_it_and_not_in_memory(
    flooding: Server, reflected: Reflected, channel: aio.Channel
) -> None:
    """Scenario 2, what the service sends: 64 MB; other calls keep their rate."""
    others, memory = Others(reflected, channel), Memory(flooding)
    room, grown, lines = asyncio.Semaphore(0), 0, 0

    async def read() -> None:
        nonlocal grown, lines
        async for message in flood(reflected, channel, 4000):
            await room.acquire()
            lines += sum(len(one.chunk.data) == LINE for one in message.outputs.fragments)
            grown = max(grown, memory.grown)

    async with asyncio.timeout(60):
        alone = await others.alone()
        reading = asyncio.ensure_future(read())
        await keep_their_rate(others.seconds, alone)
        assert lines == 0
        await keep_their_rate(lambda: others.seconds(room.release), alone)
        assert 0 < lines < 4000
        for _ in range(4000):
            room.release()
        await reading
    assert lines == 4000
    assert grown < 32 * MIB


async def test_much_data_for_a_slow_action_waits_for_it_and_not_in_memory(
    flooding: Server,
    reflected: Reflected,
    channel: aio.Channel,
    hosting: tuple[Client, Registry],
) -> None:
    """Scenario 2, what the service is sent: 125 MiB, taken one by one; so too."""
    client, registry = hosting
    piece, count = b"x" * (64 * 1024), 2000
    room, sent, taken = asyncio.Semaphore(0), 0, 0

    @registry.action
    async def d_slow(blobs: AsyncIterator[bytes]) -> int:
        """Takes a piece when it is let."""
        nonlocal taken
        total = 0
        async for blob in blobs:
            await room.acquire()
            taken += 1
            total += len(blob)
        return total

    await client.host(registry)
    others, memory = Others(reflected, channel), Memory(flooding)
    call = reflected.method(channel, "ActionService", "CallAction")()
    grown = 0

    async def write() -> None:
        nonlocal sent, grown
        start = reflected.message("CallStart", action="d_slow")
        await call.write(reflected.message("CallActionRequest", start=start))
        request = reflected.message("CallActionRequest")
        request.inputs.fragments.add(id="blobs", continued=True).chunk.data = piece
        for _ in range(count):
            await call.write(request)
            sent += 1
            # What is under way: the windows of the connection, of the service and of its host.
            assert (sent - taken) * len(piece) < 16 * MIB
            grown = max(grown, memory.grown)
        await call.done_writing()

    async with asyncio.timeout(100):
        alone = await others.alone()
        writing = asyncio.ensure_future(write())
        await keep_their_rate(others.seconds, alone)
        assert 0 < sent < count
        assert taken == 0
        await keep_their_rate(lambda: others.seconds(room.release), alone)
        assert not writing.done()
        for _ in range(count):
            room.release()
        await writing
        events = [message async for message in call]
    [total] = [json.loads(one.chunk.data) for e in events for one in e.outputs.fragments]
    assert total == count * len(piece)
    assert events[-1].status.code == 0
    assert grown < 32 * MIB


async def test_headers_of_a_silent_stream_arrive_at_once(
    reflected: Reflected, channel: aio.Channel
) -> None:
    """Scenario 1."""
    async with asyncio.timeout(10):
        for service, name in (("ActionService", "CallAction"), ("PeerService", "OpenSession")):
            stream = reflected.method(channel, service, name)()
            await stream.initial_metadata()
            stream.cancel()


async def test_a_refusal_while_the_client_still_writes_is_the_same_each_time(
    flooding: Server, reflected: Reflected
) -> None:
    """Scenario 3. By gRPC's synchronous API: its other one may hide a status by a failed write."""
    start = reflected.message("CallStart", action="no_such_action")
    more = reflected.message("CallActionRequest")
    more.inputs.fragments.add(id="text", continued=True).chunk.data = b"x" * 1000

    def writing() -> Iterator[Any]:
        yield reflected.message("CallActionRequest", start=start)
        while True:
            yield more

    def ask() -> collections.Counter[tuple[str, str]]:
        found: collections.Counter[tuple[str, str]] = collections.Counter()
        with grpc.insecure_channel(flooding.address) as channel:
            method = reflected.method(channel, "ActionService", "CallAction")
            for _ in range(100):
                try:
                    for _ in method(writing()):
                        pass
                except grpc.RpcError as error:
                    found[error.code().name, str(error.details())] += 1
        return found

    async with asyncio.timeout(60):
        found = await asyncio.to_thread(ask)
    assert found == {("NOT_FOUND", 'there is no action "no_such_action"'): 100}


async def test_when_the_client_is_gone_its_call_is_cancelled_at_once(
    flooding: Server, reflected: Reflected, hosting: tuple[Client, Registry]
) -> None:
    """Scenario 5."""
    client, registry = hosting
    began, ended = asyncio.Event(), asyncio.Event()

    @registry.action
    async def d_wait() -> None:
        """Waits for its end."""
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    await client.host(registry)
    async with proxying(flooding.port) as proxy, channel_to(proxy.address) as channel:
        method = reflected.method(channel, "ActionService", "RunAction")
        asking = method(reflected.message("RunActionRequest", action="d_wait"))
        async with asyncio.timeout(20):
            await began.wait()
            proxy.cut()
            await ended.wait()
            with pytest.raises(aio.AioRpcError) as caught:
                await asking
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_odd_arguments_come_back_as_they_are_or_are_refused_at_the_door(
    reflected: Reflected, channel: aio.Channel, hosting: tuple[Client, Registry]
) -> None:
    """Scenario 16."""
    client, registry = hosting

    @registry.action
    async def d_same(value: object) -> object:
        """What it got."""
        return value

    await client.host(registry)
    run = reflected.method(channel, "ActionService", "RunAction")

    async def same(text: str) -> str:
        arguments = f'{{"value":{text}}}'
        request = reflected.message("RunActionRequest", action="d_same", arguments_json=arguments)
        data: bytes = (await run(request)).outputs[0].chunk.data
        return data.decode()

    odd = ["null", str((1 << 63) - 1), str(1 << 64), "1.5e+300", '"\u2028 😀"', '{"a":[null,{}]}']
    for text in [*odd, *("[" * depth + "]" * depth for depth in (30, 33, 40, 101))]:
        assert json.loads(await same(text)) == json.loads(text)
    for text in ("NaN", "Infinity", '"\\ud800"', "{"):
        with pytest.raises(aio.AioRpcError) as caught:
            await same(text)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, text
