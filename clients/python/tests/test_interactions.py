"""Conversations of a service with a store."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
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
    Context,
    Fork,
    ImagePart,
    NormalizedPart,
    Reason,
    Registry,
    StatusError,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    interaction,
    user_turn,
)
from a11_grpc._proto.interaction_pb2 import ROLE_MODEL, ROLE_USER, Interaction
from a11_grpc._proto.interaction_service_pb2 import GetInteractionRequest
from a11_grpc._proto.interaction_service_pb2_grpc import InteractionServiceStub


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


async def test_unknown_fields_are_read_back_as_the_same_bytes(storing: Client) -> None:
    """Scenario 16: of a later version, at the top and within; an unknown number is refused."""
    unknown = b"\xc0\x3e\x07" + b"\xd2\x3e\x03abc"  # Field 1000: 7. Field 1002: "abc".
    turn = user_turn("hello", id="later")
    turn.content[0].MergeFromString(unknown)
    turn.content[0].metadata.MergeFromString(unknown)
    turn.action_calls.add(id="c", name="look").MergeFromString(unknown)
    turn.status.MergeFromString(unknown)
    turn.MergeFromString(unknown)
    text = '{"zeal": [null, 9223372036854775807], "id": "text", "role": "user", "zest": {"a": 1}}'
    service = InteractionServiceStub(storing._parts.channel)

    async def check(id: str, appended: Interaction | str, data: bytes) -> None:
        await storing.interactions.append("talk", appended)
        assert (await storing.interactions.append("talk", appended)).existed
        request = GetInteractionRequest(conversation="talk", id=id)
        record = (await service.GetInteraction(request)).record
        assert record.encoded.data == data
        found = (await storing.interactions.get("talk", id)).interaction
        if isinstance(appended, Interaction):
            assert found == appended
            assert found.SerializeToString(deterministic=True) == data

    data = turn.SerializeToString(deterministic=True)
    assert data.count(unknown) == 5
    await check("later", turn, data)
    await check("text", text, text.encode())
    for odd, said in ((b"\x10\x09", "role: 9 is"), (b"\x32\x03\x20\xe7\x07", "status.reason: 999")):
        with pytest.raises(StatusError, match=said) as caught:
            await storing.interactions.append("talk", Interaction.FromString(b"\x0a\x01x" + odd))
        assert caught.value.code is Code.INVALID_ARGUMENT
    listed = [record.interaction async for record in storing.interactions.list("talk")]
    assert [found.SerializeToString(deterministic=True) for found in listed[:1]] == [data]
    assert [found.id for found in listed] == ["later", "text"]
    async with aclosing(storing.interactions.watch("talk")) as watching:
        assert (await anext(watching)).interaction.SerializeToString(deterministic=True) == data


async def test_odd_json_is_kept_and_read_back_or_refused_at_the_door(storing: Client) -> None:
    """Scenario 16."""

    def nested(depth: int) -> str:
        return "[" * depth + "]" * depth

    async def check(fields: str, said: str | None) -> None:
        id = f"x{len(checked)}"
        checked.append(fields)
        text = f'{{"id": "{id}", {fields}}}'
        if said is None:
            await storing.interactions.append("talk", text)
            found = (await storing.interactions.get("talk", id)).interaction
            assert found == interaction.from_json(text)
            # As a message it is the same interaction, and as its own JSON.
            assert (await storing.interactions.append("talk", found)).existed
            assert (await storing.interactions.append("talk", interaction.to_json(found))).existed
            return
        with pytest.raises(StatusError, match=said) as caught:
            await storing.interactions.append("talk", text)
        assert caught.value.code is Code.INVALID_ARGUMENT
        with pytest.raises(StatusError):
            interaction.from_json(text)

    checked: list[str] = []
    largest = (1 << 63) - 1
    await check(f'"created_at_millis": {largest}', None)
    await check(f'"created_at_millis": {largest + 1}', "created_at_millis")
    await check(f'"status": {{"code": 5, "details": [null, {{"n": {largest}, "a": null}}]}}', None)
    await check('"status": {"details": [NaN]}', "not JSON")
    await check('"content": [{"data": "/+8"}, {"data": "/+8="}]', None)
    await check('"content": [{"data": "_-8="}]', "not base64")
    await check('"model": "\\ud800"', "not JSON")
    for depth in (30, 33, 40, 101):
        await check(f'"status": {{"details": [{nested(depth)}]}}', None)
    await check(f'"status": {{"details": [{nested(100_000)}]}}', "recursion limit")
    with pytest.raises(StatusError, match="surrogate"):
        await storing.interactions.append("talk", '{"id": "\ud800"}')
    listed = [record.id async for record in storing.interactions.list("talk")]
    assert len(listed) == 7


async def test_the_forks_of_a_conversation_are_listed(storing: Client) -> None:
    interactions = storing.interactions
    first, lone = user_turn("a", id="a"), user_turn("lone", id="lone")
    for turn in (first, lone):
        await interactions.append("talk", turn)
    # More than the service has in a page.
    for at in range(102):
        for side in ("left", "right"):
            turn = user_turn(side, id=f"{at}-{side}", previous=f"{at - 1}-right" if at else "a")
            await interactions.append("talk", turn)
    forks = [fork async for fork in interactions.forks("talk")]
    assert forks[0] == Fork("a", 1, ["0-left", "0-right"])
    assert [fork.id for fork in forks] == ["a", *(f"{at}-right" for at in range(101))]
    assert [fork.next_ids for fork in forks[1:]] == [
        [f"{at}-left", f"{at}-right"] for at in range(1, 102)
    ]
    after = [fork async for fork in interactions.forks("talk", after_position=forks[-2].position)]
    assert after == forks[-1:]
    await interactions.append("straight", lone)
    assert [fork async for fork in interactions.forks("straight")] == []
    with pytest.raises(StatusError) as caught:
        await anext(interactions.forks("nowhere"))
    assert caught.value.reason is Reason.UNKNOWN_CONVERSATION


async def test_a_recorded_call_has_its_idempotency_key_and_no_nested_call_has_it(
    storing: Client,
) -> None:
    registry, name = Registry(), "x-a11-idempotency-key"
    keys: dict[str, bytes | None] = {}

    @registry.action
    async def i_inner(ctx: Context) -> None:
        """Is called by another."""
        keys["inner"] = ctx.headers.get(name)

    @registry.action
    async def i_outer(ctx: Context, which: str) -> str:
        """Calls another."""
        keys[which] = ctx.headers.get(name)
        await ctx.call("i_inner")
        return which

    await storing.host(registry)
    calls = [
        {"type": "tool_use", "id": id, "name": "i_outer", "input": {"which": id}} for id in "ab"
    ]
    reply = {"role": "assistant", "content": calls}
    execute = storing.execute

    async def check(**options: Any) -> dict[str, bytes | None]:
        keys.clear()
        result = await execute(reply, allow=["i_.*"], **options)
        assert [call.value for call in result.results] == ["a", "b"]
        return {**keys}

    recorded = {"store": True, "conversation": "talk", "interaction_id": "turn"}
    assert await check(**recorded) == {"a": b"turn/a", "b": b"turn/b", "inner": None}
    # What has run is not run again; what is not recorded has no key.
    assert await check(**recorded) == {}
    assert await check() == {"a": None, "b": None, "inner": None}


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
    others: tuple[object, ...] = ({"no": "interaction"}, [])
    for other in others:
        # For all that is known, a provider's message.
        assert (await validate(other)).valid
        with pytest.raises(StatusError) as caught:
            await validate(json.dumps(other))
        assert caught.value.code is Code.INVALID_ARGUMENT
