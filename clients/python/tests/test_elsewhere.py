"""Values that are elsewhere: nobody goes there, and nobody takes them for empty ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.acceptor import accepting

import a11_grpc
from a11_grpc import ActionSchema, Chunk, Client, Code, Context, Port, Reason, Registry, StatusError
from a11_grpc._proto.chunk_pb2 import Chunk as ChunkMessage
from a11_grpc._proto.chunk_pb2 import NodeFragment, NodeRef
from a11_grpc._proto.peer_service_pb2 import CallFrame


async def test_an_input_that_says_where_its_value_is_is_refused() -> None:
    registry = Registry()
    came: list[object] = []

    @registry.action
    async def x_text(value: str) -> None:
        came.append(value)

    @registry.action
    async def x_chunk(value: Chunk) -> None:
        came.append(value)

    @registry.action
    async def x_stream(value: AsyncIterator[str]) -> None:
        came.extend([text async for text in value])

    @registry.action
    async def x_unread(value: str = "") -> None:
        pass

    there = NodeFragment(id="value", node_ref=NodeRef(id="other"))
    place = NodeFragment(id="value", chunk=ChunkMessage(ref="file:///etc/passwd"))
    async with accepting() as acceptor, a11_grpc.connect(acceptor.address, registry=registry):
        for action in ("x_text", "x_chunk", "x_stream", "x_unread"):
            for fragment, where in ((there, "in node 'other'"), (place, "at 'file:///etc/passwd'")):
                status = await acceptor.call(CallFrame(action=action), [fragment])
                assert status.reason is Reason.UNKNOWN_NODE, (action, status)
                assert (
                    status.message == f"input 'value': the value is {where}, which is not held here"
                )
    assert came == []


async def test_an_output_that_says_where_its_value_is_fails_its_call_alone(client: Client) -> None:
    registry = Registry()
    schema = ActionSchema("x_there", outputs=[Port.text("text")])

    async def there(ctx: Context) -> None:
        fragment = NodeFragment(id=ctx._output("text").node, node_ref=NodeRef(id="other"))
        await ctx._call.channel.write(fragment)

    registry.register(schema, there)

    @registry.action
    async def x_here() -> str:
        return "here"

    await client.host(registry)
    async with asyncio.timeout(20):
        with pytest.raises(
            StatusError, match="output 'text': the value is in node 'other'"
        ) as caught:
            await client.call("x_there")
        assert (caught.value.code, caught.value.reason) == (Code.UNIMPLEMENTED, Reason.UNSUPPORTED)
        content: list[dict[str, Any]] = [
            {"type": "tool_use", "id": name, "name": name, "input": {}}
            for name in ("x_there", "x_here")
        ]
        reply = {"role": "assistant", "content": content}
        result = await client.execute(reply, allow="x_.*")
        async for event in client.execute_stream(reply, allow="x_.*"):
            last = event
        assert isinstance(last, a11_grpc.Summary)
        for found in (result, last.result):
            failed, good = found.results
            assert failed.status.reason is Reason.UNKNOWN_NODE
            assert good.value == "here"
