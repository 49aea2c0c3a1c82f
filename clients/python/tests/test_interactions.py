"""Conversations of a service with a store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.proxy import proxying
from support.server import serving

import a11_grpc
from a11_grpc import (
    Chunk,
    Client,
    Code,
    ImagePart,
    NormalizedPart,
    Reason,
    StatusError,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    interaction,
    user_turn,
)
from a11_grpc._proto.interaction_pb2 import ROLE_MODEL, ROLE_USER, Interaction


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
    assert [record.id async for record in interactions.list("talk", after_position=1)] == [
        second.id
    ]
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
    await watching.aclose()


async def test_a_watcher_goes_on_where_its_connection_broke(tmp_path: Path) -> None:
    turns = [user_turn(f"turn {at}") for at in range(6)]
    async with (
        serving(["--store", str(tmp_path / "store.db")]) as server,
        proxying(server.port) as proxy,
        a11_grpc.connect(server.address) as writer,
        a11_grpc.connect(proxy.address) as reader,
    ):
        await writer.interactions.append("talk", turns[0])
        watching = reader.interactions.watch("talk")
        seen = []
        async with asyncio.timeout(30):
            for turn in turns[1:]:
                seen.append((await anext(watching)).id)
                assert proxy.cut() > 0
                await writer.interactions.append("talk", turn)
            seen.append((await anext(watching)).id)
        await watching.aclose()
        assert seen == [turn.id for turn in turns]
        with pytest.raises(StatusError) as caught:
            await anext(reader.interactions.watch("a\nb"))
        assert caught.value.code is Code.INVALID_ARGUMENT


async def test_what_is_appended_as_json_is_kept_as_it_came(storing: Client) -> None:
    turn = user_turn("hello")
    appended = await storing.interactions.append("talk", interaction.to_json(turn))
    assert (appended.position, appended.existed) == (1, False)
    record = await storing.interactions.get("talk", turn.id)
    assert record.interaction == turn
    assert record.appended_at == appended.appended_at
    assert record.appended_at is not None
    await storing.interactions.append("other/1", turn)
    names = storing.interactions.conversations
    assert [name async for name in names()] == ["other/1", "talk"]
    assert [name async for name in names("other/")] == ["other/1"]


async def test_a_conversation_is_converted_for_another_provider(storing: Client) -> None:
    reply = Interaction(id="m1", role=ROLE_MODEL)
    chunk = reply.content.add()
    chunk.metadata.media_type = "application/json"
    chunk.data = b'{"role":"assistant","content":[{"type":"text","text":"hi"}]}'
    convert = storing.interactions.convert
    turns = [user_turn("hello", id="u1"), reply]
    for turn in turns:
        await storing.interactions.append("talk", turn)
    raw = json.loads(chunk.data)
    for source in ("talk", turns, [{"role": "user", "content": "hello"}, raw]):
        found = await convert(source, to="gpt")
        assert [message["role"] for message in found.messages] == ["user", "assistant"]
    assert len((await convert("talk", to="openai", up_to_position=1)).messages) == 1
    mistakes: list[Any] = ["", reply, raw]
    for wrong in mistakes:
        with pytest.raises(StatusError) as caught:
            await convert(wrong, to="gpt")
        assert caught.value.reason is Reason.INVALID_REQUEST
    told = Interaction(id="u2", role=ROLE_USER)
    chunk = told.content.add()
    chunk.metadata.media_type = "audio/wav"
    chunk.data = b"RIFF"
    dropped = (await convert([told], to="claude")).dropped
    assert [note.interaction_id for note in dropped] == ["u2"]
    assert dropped[0].why in str(dropped[0])


async def test_a_turn_is_shown_in_no_provider_s_shape(storing: Client) -> None:
    async def check(turn: object, role: str, *expected: NormalizedPart) -> None:
        found = await storing.interactions.normalize(turn)
        assert (found.role, found.parts) == (role, [*expected])

    call = {"type": "tool_use", "id": "c", "name": "look", "input": {"at": 1}}
    await check({"role": "user", "content": "hello"}, "user", TextPart("hello"))
    await check(user_turn("hello"), "user", TextPart("hello"))
    for write in (interaction.to_json, interaction.to_proto_json):
        text = write(user_turn("hello"))
        await check(text, "user", TextPart("hello"))
        await check(json.loads(text), "user", TextPart("hello"))
    await check('{"role": "user", "content": "hello"}', "user", TextPart("hello"))
    await check(
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}, call]},
        "model",
        TextPart("hi"),
        ToolCallPart("c", "look", {"at": 1}),
    )
    result = {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}
    await check({"role": "user", "content": [result]}, "user", ToolResultPart("c", "no", True))
    picture = Chunk("image/png", b"\x89PNG")
    await check(user_turn(images=[picture]), "user", ImagePart(picture))


async def test_what_is_wrong_with_a_turn_is_told(storing: Client) -> None:
    validate = storing.interactions.validate
    assert (await validate(user_turn("fine"))).valid
    twice = Interaction(id="x")
    for _ in range(2):
        twice.action_calls.add(id="c", name="look")
    found = await validate(twice)
    assert not found.valid
    assert [(problem.field, problem.reason) for problem in found.problems if problem.refused] == [
        ("action_calls[1].id", Reason.DUPLICATE_CALL)
    ]
    assert (await validate(interaction.to_json(user_turn("fine")))).valid
    with pytest.raises(StatusError) as caught:
        await validate("[]")
    assert caught.value.code is Code.INVALID_ARGUMENT
