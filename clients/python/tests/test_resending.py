"""Connections that break while the calls of a turn run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.proxy import Proxy, proxying
from support.server import serving

import a11_grpc
from a11_grpc import Client, Code, Context, Ended, Produced, Reason, Registry, Started, StatusError


def claude(*calls: tuple[str, str]) -> dict[str, Any]:
    content = [{"type": "tool_use", "id": id, "name": name, "input": {}} for id, name in calls]
    return {"role": "assistant", "content": content}


@dataclass
class Bench:
    """A server with a store, actions that count how often they run, a client through a proxy."""

    client: Client
    proxy: Proxy
    runs: dict[str, int] = field(default_factory=dict)
    quick: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def registry(self) -> Registry:
        registry = Registry()

        @registry.action
        async def r_quick(ctx: Context) -> str:
            """Answers at once."""
            self.runs[ctx.id] = self.runs.get(ctx.id, 0) + 1
            self.quick.set()
            return "quick"

        @registry.action
        async def r_held(ctx: Context) -> AsyncIterator[str]:
            """Puts something out, and waits to be told."""
            self.runs[ctx.id] = self.runs.get(ctx.id, 0) + 1
            yield "first"
            await self.quick.wait()
            self.running.set()
            await self.go_on.wait()
            yield "second"

        return registry


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(["--store", str(tmp_path / "store.db")]))
        proxy = await stack.enter_async_context(proxying(server.port))
        client = await stack.enter_async_context(a11_grpc.connect(proxy.address))
        bench = Bench(client, proxy)
        host = a11_grpc.connect(server.address, registry=bench.registry())
        await stack.enter_async_context(host)
        yield bench


RECORDED: dict[str, Any] = {"store": True, "conversation": "talk", "interaction_id": "turn"}
REPLY = claude(("a", "r_quick"), ("b", "r_held"))


async def test_a_recorded_round_is_asked_for_again_until_it_answers(bench: Bench) -> None:
    async with asyncio.timeout(30):
        running = asyncio.ensure_future(bench.client.execute(REPLY, allow="r_.*", **RECORDED))
        for _ in range(3):
            await bench.running.wait()
            accepted = bench.proxy.accepted
            assert bench.proxy.strand() > 0
            while bench.proxy.accepted == accepted:
                await asyncio.sleep(0.01)
        bench.go_on.set()
        result = await running
    assert [call.value for call in result.results] == ["quick", ["first", "second"]]
    assert bench.runs == {"a": 1, "b": 1}


async def test_nothing_runs_twice_where_the_service_sees_the_connection_break(
    bench: Bench,
) -> None:
    """Nobody waits for the round any more, for a moment: what still runs may be cancelled."""
    async with asyncio.timeout(30):
        running = asyncio.ensure_future(bench.client.execute(REPLY, allow="r_.*", **RECORDED))
        await bench.running.wait()
        assert bench.proxy.cut() > 0
        bench.go_on.set()
        result = await running
    assert bench.runs == {"a": 1, "b": 1}
    for call in result.results:
        assert call.status.code in (Code.OK, Code.CANCELLED)


async def test_events_go_on_without_repeating_what_was_told(bench: Bench) -> None:
    told: list[Any] = []
    async with asyncio.timeout(30):
        events = bench.client.execute_stream(REPLY, allow="r_.*", **RECORDED)
        async for event in events:
            told.append(event)
            if isinstance(event, Produced) and event.value == "first":
                assert bench.proxy.strand() > 0
                bench.go_on.set()
    started = [event.id for event in told if isinstance(event, Started)]
    ended = [event.result.id for event in told if isinstance(event, Ended)]
    assert (sorted(started), sorted(ended)) == (["a", "b"], ["a", "b"])
    summary = told[-1]
    assert isinstance(summary, a11_grpc.Summary)
    assert [call.value for call in summary.result.results] == ["quick", ["first", "second"]]
    assert bench.runs == {"a": 1, "b": 1}


async def answered(client: Client) -> None:
    """Until then gRPC may send on a connection that was cut, and not have heard of it."""
    while True:
        try:
            return await client.ping()
        except StatusError:
            await asyncio.sleep(0.01)


async def test_a_round_that_is_not_recorded_is_not_asked_for_again(bench: Bench) -> None:
    async def check(running: Any) -> None:
        bench.quick.clear()
        bench.running.clear()
        await answered(bench.client)
        task = asyncio.ensure_future(running)
        await bench.running.wait()
        bench.proxy.cut()
        with pytest.raises(StatusError) as caught:
            await task
        assert (caught.value.code, caught.value.reason) == (Code.UNAVAILABLE, Reason.UNSPECIFIED)
        assert "whether the calls ran is not known" in caught.value.message
        assert "store=True" in caught.value.message

    async def last() -> None:
        async for _ in bench.client.execute_stream(REPLY, allow="r_.*"):
            pass

    async with asyncio.timeout(30):
        await check(bench.client.execute(REPLY, allow="r_.*"))
        await check(last())
    assert bench.runs == {"a": 2, "b": 2}


async def test_what_was_never_sent_did_not_run(bench: Bench) -> None:
    bench.proxy.is_refusing = True
    bench.proxy.cut()
    messages: set[str] = set()
    async with asyncio.timeout(20):
        # Until the channel has noticed: what was under way is another matter.
        while not any(message.startswith("failed to connect") for message in messages):
            with pytest.raises(StatusError) as caught:
                await bench.client.execute(REPLY, allow="r_.*")
            assert caught.value.code is Code.UNAVAILABLE
            messages = {caught.value.message}
    assert "not known" not in messages.pop()
    assert bench.runs == {}


async def test_it_is_given_up_when_its_time_is_up(bench: Bench) -> None:
    bench.proxy.is_refusing = True
    bench.proxy.cut()
    with pytest.raises(StatusError, match="no time left") as caught:
        await bench.client.execute(REPLY, allow="r_.*", timeout=0.5, **RECORDED)
    assert caught.value.code is Code.UNAVAILABLE
    assert "runs nothing twice" in caught.value.message
