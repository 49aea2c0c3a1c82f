"""Nodes apart from calls."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.proxy import proxying
from support.server import Server

import a11_grpc
from a11_grpc import (
    ActionSchema,
    Chunk,
    Client,
    Code,
    Context,
    Port,
    Reason,
    Status,
    StatusError,
)


async def collected(client: Client, id: str, **options: Any) -> list[Any]:
    return [value async for value in client.read_node(id, **options)]


async def test_a_node_is_written_and_read_from_any_place(client: Client) -> None:
    async with client.write_node("numbers") as node:
        for number in range(3000):
            await node.write(number)
    assert await collected(client, "numbers") == list(range(3000))
    assert await collected(client, "numbers", offset=2998) == [2998, 2999]


async def test_a_node_of_another_session_is_read_while_it_is_written(
    address: str, client: Client
) -> None:
    async with a11_grpc.connect(address) as reader:
        session = await client.open_session()
        values = reader.read_node("live", session=session)
        async with asyncio.timeout(20), client.write_node("live", "text/plain") as node:
            for text in ("a", "b"):
                await node.write(text)
                assert await anext(values) == text
        assert [value async for value in values] == []


async def test_values_have_the_media_type_of_the_node(client: Client) -> None:
    async with client.write_node("pictures", "image/png") as node:
        await node.write(b"one")
        await node.write(Chunk("image/jpeg", b"two"))
    found = await collected(client, "pictures")
    assert [(chunk.media_type, chunk.data) for chunk in found] == [
        ("image/png", b"one"),
        ("image/jpeg", b"two"),
    ]


async def test_a_node_that_fails_gives_every_reader_its_status(client: Client) -> None:
    with pytest.raises(StatusError):
        async with client.write_node("broken") as node:
            await node.write(1)
            raise StatusError(Code.DATA_LOSS, "disk went away")
    found = []
    with pytest.raises(StatusError, match="disk went away") as caught:
        async for value in client.read_node("broken"):
            found.append(value)
    assert found == [1]
    assert caught.value.code is Code.DATA_LOSS


async def test_a_node_is_failed_by_hand_or_left_unfinished(client: Client) -> None:
    async def check(id: str, *why: Status | StatusError) -> Status:
        node = client.write_node(id)
        await node.write(1)
        await node.fail(*why)
        with pytest.raises(StatusError) as caught:
            await collected(client, id)
        return caught.value.status

    lost = StatusError(Code.DATA_LOSS, "disk went away")
    assert await check("by_error", lost) == lost.status
    assert await check("by_status", lost.status) == lost.status
    assert (await check("unfinished")).reason is Reason.NOT_FINAL


async def test_the_ports_of_a_call_are_nodes_of_its_run(address: str, client: Client) -> None:
    registry, run = a11_grpc.Registry(), uuid.uuid4().hex

    @registry.action
    async def n_double(numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        """Twice as much."""
        async for number in numbers:
            yield number * 2

    await client.host(registry)
    async with asyncio.timeout(20), a11_grpc.connect(address) as other:
        call = await client.with_options(headers={"x-a11-run": run}).start("n_double")
        while True:
            try:
                async with other.write_node("numbers", run=run) as node:
                    await node.write(1)
                    await node.write(2)
                break
            except StatusError as error:
                # The call is still on its way.
                assert error.reason is Reason.UNKNOWN_NODE
        assert await collected(other, "output", run=run) == [2, 4]
        # What another program has written to its end takes no other end.
        assert await call.result() == [2, 4]
    with pytest.raises(StatusError) as caught:
        await collected(client, "output", run=uuid.uuid4().hex)
    assert caught.value.reason is Reason.UNKNOWN_NODE


async def test_an_output_that_its_handler_fails_gives_every_reader_the_status(
    client: Client,
) -> None:
    registry, run = a11_grpc.Registry(), uuid.uuid4().hex
    lost = StatusError(Code.DATA_LOSS, "disk went away")
    schema = ActionSchema("n_lose", outputs=[Port.text("one", stream=True), Port.text("two")])

    async def lose(ctx: Context) -> None:
        await ctx.write("one", "a")
        ctx.fail("one", lost)
        ctx.fail("two", lost.status)

    registry.register(schema, lose)
    await client.host(registry)
    call = await client.with_options(headers={"x-a11-run": run}).start("n_lose")
    events = [event async for event in call]
    assert events[0] == a11_grpc.Output("one", "a")
    for port in ("one", "two"):
        with pytest.raises(StatusError, match="disk went away") as caught:
            await collected(client, port, run=run)
        assert (caught.value.code, caught.value.reason) == (Code.DATA_LOSS, Reason.HANDLER_FAILED)


async def test_misuse_is_refused(client: Client) -> None:
    with pytest.raises(StatusError) as caught:
        await collected(client, "x", session="no-such-session")
    assert caught.value.reason is Reason.UNKNOWN_SESSION
    with pytest.raises(StatusError, match="not a name"):
        client.write_node("a b")
    async with client.write_node("once") as node:
        with pytest.raises(StatusError) as caught:
            await node.write(float("nan"))
        assert caught.value.reason is Reason.INVALID_INPUT
        await node.finish()
        with pytest.raises(StatusError) as caught:
            await node.write(1)
        assert caught.value.reason is Reason.NODE_CLOSED


async def test_reading_and_writing_go_on_over_broken_connections(server: Server) -> None:
    async with (
        proxying(server.port) as proxy,
        a11_grpc.connect(proxy.address) as client,
        asyncio.timeout(60),
    ):
        session = await client.open_session()
        received: list[int] = []

        async def read() -> None:
            async for value in client.read_node("cut", session=session):
                received.append(value)
                if len(received) % 200 == 0:
                    proxy.cut()

        reading = asyncio.ensure_future(read())
        async with client.write_node("cut", session=session) as node:
            for number in range(2000):
                await node.write(number)
                if number % 150 == 0:
                    await node.flush()
                    proxy.cut()
        await reading
        assert received == list(range(2000))
