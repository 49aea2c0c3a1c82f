"""Conversations of a service with a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.server import serving

import a11_grpc
from a11_grpc import Client, Code, Reason, StatusError, user_turn
from a11_grpc._proto.interaction_pb2 import ROLE_MODEL, Interaction


@pytest.fixture
async def storing(tmp_path: Path) -> AsyncIterator[Client]:
    async with (
        serving(["--store", str(tmp_path / "store.db")]) as server,
        a11_grpc.connect(server.address) as client,
    ):
        yield client


async def test_a_conversation_is_kept_as_it_was_sent(storing: Client) -> None:
    interactions = storing.interactions
    first = user_turn("hello", images=[b"GIF89a"])
    second = user_turn("again", previous=first)
    assert (await interactions.append("talk", first)).position == 1
    assert (await interactions.append("talk", second)).position == 2
    again = await interactions.append("talk", first)
    assert (again.position, again.existed) == (1, True)
    records = [record async for record in interactions.list("talk")]
    assert [record.interaction for record in records] == [first, second]
    assert [record.id async for record in interactions.list("talk", 1)] == [second.id]
    assert (await interactions.get("talk", second.id)).interaction == second
    assert [name async for name in interactions.conversations()] == ["talk"]
    assert await interactions.delete("talk") == 2
    with pytest.raises(StatusError) as caught:
        await interactions.get("talk", second.id)
    assert caught.value.code is Code.NOT_FOUND


async def test_what_does_not_follow_is_refused(storing: Client) -> None:
    orphan = user_turn("x", previous="nowhere")
    with pytest.raises(StatusError) as caught:
        await storing.interactions.append("talk", orphan)
    assert caught.value.reason is Reason.MISSING_PREVIOUS


async def test_a_watcher_sees_what_is_appended_later(storing: Client) -> None:
    first, second = user_turn("a"), user_turn("b")
    await storing.interactions.append("talk", first)
    watching = storing.interactions.watch("talk")
    async with asyncio.timeout(20):
        assert (await anext(watching)).id == first.id
        await storing.interactions.append("talk", second)
        assert (await anext(watching)).id == second.id
    await watching.aclose()  # type: ignore[attr-defined]


async def test_a_conversation_is_converted_for_another_provider(storing: Client) -> None:
    reply = Interaction(id="m1", role=ROLE_MODEL)
    chunk = reply.content.add()
    chunk.metadata.media_type = "application/json"
    chunk.data = b'{"role":"assistant","content":[{"type":"text","text":"hi"}]}'
    found = await storing.interactions.convert(
        "gpt", interactions=[user_turn("hello", id="u1"), reply]
    )
    assert [message["role"] for message in found.messages] == ["user", "assistant"]
    parts = await storing.interactions.normalize(reply)
    assert [part.text for part in parts] == ["hi"]
    parts = await storing.interactions.normalize({"role": "user", "content": "hello"})
    assert [part.text for part in parts] == ["hello"]
