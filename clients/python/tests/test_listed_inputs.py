"""Calls list the inputs that they write: nothing waits for another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from support.acceptor import accepting

import a11_grpc
from a11_grpc import Call, Client, Reason, Registry, StatusError
from a11_grpc._proto.action_pb2 import PortBinding
from a11_grpc._proto.chunk_pb2 import Chunk, NodeFragment
from a11_grpc._proto.peer_service_pb2 import CallFrame


async def total(values: AsyncIterator[int] | None) -> int:
    assert values is not None  # One that is not given is an empty one.
    return sum([value async for value in values])


async def test_an_input_that_the_caller_has_not_heard_of_is_waited_for_by_nobody(
    client: Client, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The action's host has been started anew since the caller looked."""
    monkeypatch.setattr("a11_grpc.client.schemas.KEPT_SECONDS", 3600.0)

    async def before(x: int) -> int:
        return x

    async def after(x: int, times: int = 10, others: AsyncIterator[int] | None = None) -> int:
        return x * times + await total(others)

    async with a11_grpc.connect(address) as caller, asyncio.timeout(20):
        registry = Registry()
        registry.action(name="l_tell")(before)
        await client.host(registry)
        assert await caller.call("l_tell", x=1) == 1
        registry.remove("l_tell")
        registry.action(name="l_tell")(after)
        while len((await client.schema("l_tell")).inputs) < 3:
            await asyncio.sleep(0.005)
        assert await caller.call("l_tell", x=2) == 20
        assert await (await caller.start("l_tell", x=2)).result() == 20
        # What does not fit what is kept may fit what there is.
        assert await caller.call("l_tell", x=2, times=3, others=[1, 1]) == 8
        assert await caller.call("l_tell", x=2, times=3) == 6
        with pytest.raises(StatusError, match="inputs are: x, times, others") as caught:
            await caller.call("l_tell", y=1)
        assert caught.value.reason is Reason.UNDECLARED_INPUT


async def test_a_started_call_takes_what_is_not_given_while_it_runs(client: Client) -> None:
    async def add(x: int, y: int = 2, more: AsyncIterator[int] | None = None) -> int:
        return x + y + await total(more)

    registry = Registry()
    registry.action(name="l_add")(add)
    await client.host(registry)
    async with asyncio.timeout(20), await client.start("l_add", x=1, more=None) as call:
        await call.close("y")
        await call.write("more", 3)
        await call.close("more")
        assert await call.result() == 6


async def test_a_result_waits_for_no_input_that_nobody_has_begun(client: Client) -> None:
    async def add(x: int, y: int = 2, more: AsyncIterator[int] | None = None) -> int:
        return x + y + await total(more)

    registry = Registry()
    registry.action(name="l_sum")(add)
    await client.host(registry)

    async def refused(call: Call, port: str, why: str) -> None:
        with pytest.raises(StatusError) as caught:
            await call.write(port, 1)
        assert caught.value.reason is Reason.NODE_CLOSED
        assert caught.value.message == f"input {port!r} has ended: {why}"

    async with asyncio.timeout(20):
        call = await client.start("l_sum", x=1)
        await call.write("more", 3)
        asking = asyncio.ensure_future(call.result())
        # It has not been asked before this task waits.
        await asyncio.sleep(0)
        await refused(call, "x", "it was given when the call was started")
        await refused(call, "y", "nothing had been written to it when the result was asked for")
        # One that was begun is its writer's.
        await call.write("more", 4)
        await call.close("more")
        await refused(call, "more", "it was closed")
        for port in ("more", "y", "x"):
            await call.close(port)
        assert await asking == 1 + 2 + 3 + 4

        call = await client.start("l_sum")
        with pytest.raises(StatusError, match="bytes have no place in JSON"):
            await call.write("x", b"1")
        await call.write("x", 1)
        await refused(call, "x", "it takes one value")
        assert await call.result() == 1 + 2

        with pytest.raises(StatusError, match="input 'x' is required") as caught:
            await (await client.start("l_sum", y=1)).result()
        assert caught.value.reason is Reason.MISSING_INPUT


async def test_inputs_that_a_caller_does_not_list_have_ended() -> None:
    registry = Registry()

    @registry.action
    async def came(must: str, may: str = "", more: AsyncIterator[int] | None = None) -> str:
        return f"{must} {may} {await total(more)}"

    def frame(listed: dict[str, str], *, only: bool) -> CallFrame:
        inputs = [PortBinding(name=name, id=id) for name, id in listed.items()]
        return CallFrame(action="came", inputs=inputs, only_listed_inputs=only)

    async with accepting() as acceptor, a11_grpc.connect(acceptor.address, registry=registry):

        async def check(
            listed: dict[str, str], written: list[str], reason: Reason | None, *, only: bool = True
        ) -> None:
            chunk = Chunk(data=b"1")
            inputs = [NodeFragment(id=id, chunk=chunk, continued=False) for id in written]
            status = await acceptor.call(frame(listed, only=only), inputs)
            found = None if status.is_ok else status.reason
            assert found is reason, (listed, written, status)

        await check({"must": "must"}, ["must"], None)
        await check({"must": "node"}, ["node"], None)
        every = {"must": "must", "may": "other", "more": "more"}
        await check(every, ["other", "more", "must"], None)
        await check({}, [], Reason.MISSING_INPUT)
        await check({"may": "may"}, ["may"], Reason.MISSING_INPUT)
        await check({"must": "must"}, ["may"], Reason.UNDECLARED_INPUT)
        await check({"must": "must", "gone": "gone"}, ["must"], Reason.UNDECLARED_INPUT)
        await check({"must": "one", "may": "one"}, ["one"], Reason.INVALID_REQUEST)
        await check({"must": ""}, [], Reason.INVALID_REQUEST)
        # Of a caller that does not say so, each input has the node of its own name.
        await check({"may": "other"}, ["other", "must", "more"], None, only=False)
        await check({"gone": "gone"}, ["must"], Reason.UNDECLARED_INPUT, only=False)
