"""Running what a model asked for, with each provider's reply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field
from support.server import ROOT, serving

import a11_grpc
from a11_grpc import (
    Backend,
    Client,
    Code,
    Context,
    Reason,
    Registry,
    RejectedCall,
    Status,
    StatusError,
    Summary,
)
from a11_grpc._proto.interaction_pb2 import Interaction
from a11_grpc.interaction.backend import backend_to_proto

REPLIES = ROOT / "examples" / "replies"
ALLOWED = ["word_count", "order_status"]


def claude(*calls: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """A reply of Claude's that makes these calls."""
    content = [
        {"type": "tool_use", "id": id, "name": name, "input": arguments}
        for id, name, arguments in calls
    ]
    return {"type": "message", "role": "assistant", "content": content}


@pytest.mark.parametrize(
    ("file", "backend"),
    [
        ("claude", Backend.CLAUDE),
        ("gemini_generate_content", Backend.GEMINI),
        ("gemini_interactions", Backend.GEMINI),
        ("ollama", Backend.OLLAMA),
        ("openai_chat", Backend.GPT),
        ("openai_responses", Backend.GPT),
    ],
)
async def test_a_provider_s_reply_goes_in_and_its_messages_come_out(
    client: Client, file: str, backend: Backend
) -> None:
    text = (REPLIES / f"{file}.json").read_text()
    for reply in (text, text.encode(), json.loads(text)):
        result = await client.execute(reply, allow=ALLOWED)
        assert result.backend is backend
        found = [(call.name, call.status.code) for call in result.results]
        assert found == [
            ("word_count", Code.OK),
            ("order_status", Code.NOT_FOUND),
            ("disk_usage", Code.PERMISSION_DENIED),
        ]
        assert result.results[0].value == {"words": 12, "lines": 1, "characters": 60}
        assert result.results[1].value is None
        assert result.results[0].log.startswith("Ran")
        assert result.results[2].status.reason is Reason.NOT_ALLOWED
        assert result.messages
        assert all(isinstance(message, dict) for message in result.messages)
        assert len(result.interaction.action_outputs) == 3


async def test_a_reply_that_fits_two_providers_is_shaped_as_it_is_told(client: Client) -> None:
    reply = json.loads((REPLIES / "vllm.json").read_text())
    result = await client.execute(reply, allow="word_count|order_status", backend="vllm")
    assert result.backend is Backend.VLLM
    with pytest.raises(StatusError) as caught:
        await client.execute(reply, allow=ALLOWED, backend="claude")
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert backend_to_proto("openai") == backend_to_proto(Backend.GPT)
    with pytest.raises(StatusError, match="there is no backend 'bard'"):
        await client.execute(reply, backend="bard")


async def test_an_sdk_s_object_and_its_blocks_are_taken_as_they_are(client: Client) -> None:
    class Block(BaseModel):
        type: str
        id: str
        name: str
        input: dict[str, Any]
        cache: str | None = None

    class Message(BaseModel):
        role: str
        content: list[Block]
        kind: str = Field(alias="type", default="message")

    block = Block(type="tool_use", id="c", name="word_count", input={"text": "a b"})
    for reply in (Message(role="assistant", content=[block]), [block], [block.model_dump()]):
        result = await client.execute(reply, allow=ALLOWED)
        assert [call.value for call in result.results] == [
            {"words": 2, "lines": 1, "characters": 4}
        ]
        assert result.messages[0]["content"][0]["tool_use_id"] == "c"


async def test_a_rejected_call_gets_its_result_in_place(client: Client) -> None:
    reply = claude(("b", "word_count", {"text": "as easy"}))
    why = Status(Code.PERMISSION_DENIED, Reason.NOT_ALLOWED, "not today", ('{"until":"Monday"}',))
    for status in (why, StatusError(why)):
        rejected = [RejectedCall(0, "a", "buy", status)]
        result = await client.execute(reply, allow=ALLOWED, rejected=rejected)
        assert [(call.id, call.name) for call in result.results] == [
            ("a", "buy"),
            ("b", "word_count"),
        ]
        assert result.results[0].status == why
        assert result.results[1].value["words"] == 2
    with pytest.raises(StatusError, match="rejected 'a': its status is OK") as caught:
        await client.execute(reply, rejected=[RejectedCall(0, "a", "buy", Status())])
    assert caught.value.reason is Reason.INVALID_REQUEST


async def test_a_call_that_is_rejected_is_cut_out_of_the_reply(client: Client) -> None:
    reply = claude(*((id, "word_count", {"text": id}) for id in ("a", "b", "c")))
    why = StatusError(Code.PERMISSION_DENIED, "not today")
    rejected = [RejectedCall(1, "b", "word_count", why)]
    with pytest.raises(StatusError) as caught:
        await client.execute(reply, allow=ALLOWED, rejected=rejected)
    assert caught.value.reason is Reason.DUPLICATE_CALL
    cut = {**reply, "content": [block for block in reply["content"] if block["id"] != "b"]}
    result = await client.execute(cut, allow=ALLOWED, rejected=rejected)
    assert [(call.id, call.status.is_ok) for call in result.results] == [
        ("a", True),
        ("b", False),
        ("c", True),
    ]
    blocks = result.messages[0]["content"]
    assert [block["tool_use_id"] for block in blocks] == ["a", "b", "c"]


async def test_what_is_no_reply_is_refused(client: Client) -> None:
    async def check(reply: object, code: Code, reason: Reason, **options: Any) -> None:
        with pytest.raises(StatusError) as caught:
            await client.execute(reply, **options)
        assert (caught.value.code, caught.value.reason) == (code, reason)

    await check("{", Code.INVALID_ARGUMENT, Reason.INVALID_REQUEST)
    await check(b"\xff", Code.INVALID_ARGUMENT, Reason.INVALID_REQUEST)
    await check({"x": object()}, Code.INVALID_ARGUMENT, Reason.INVALID_REQUEST)
    await check({"role": "nobody"}, Code.INVALID_ARGUMENT, Reason.UNKNOWN_REPLY)
    reply = claude(("a", "word_count", {}))
    await check(reply, Code.INVALID_ARGUMENT, Reason.INVALID_PATTERN, allow=["("])


REGISTRY = Registry()


@REGISTRY.action
async def e_words(text: str) -> AsyncIterator[str]:
    """The words."""
    for word in text.split():
        yield word


@REGISTRY.action
async def e_tell(ctx: Context, topic: str) -> str:
    """Narrates."""
    ctx.log(f"About {topic}.")
    return topic


@pytest.fixture
async def hosted(client: Client) -> Client:
    await client.host(REGISTRY)
    return client


async def test_streams_are_lists_however_many_values_came(hosted: Client) -> None:
    calls = [(f"c{at}", "e_words", {"text": "x " * at}) for at in range(3)]
    result = await hosted.execute(claude(*calls), allow=["e_.*"])
    assert [call.value for call in result.results] == [[], ["x"], ["x", "x"]]


async def test_what_happens_is_told_as_it_happens(hosted: Client) -> None:
    calls = claude(("a", "e_words", {"text": "x y"}), ("b", "e_tell", {"topic": "z"}))
    told: dict[str, list[Any]] = {"a": [], "b": []}
    summary = None
    async for event in hosted.execute_stream(calls, allow=["e_.*"]):
        match event:
            case a11_grpc.Started(id=id):
                told[id].append("started")
            case a11_grpc.Narrated(id=id, log=log):
                told[id].append(log.text)
            case a11_grpc.Produced(id=id, field="_", value=value):
                told[id].append(value)
            case a11_grpc.Ended(result=result):
                told[result.id].append(result.status.code)
                assert (result.value, result.outputs) == (None, {})
            case Summary(result=whole):
                summary = whole
    assert told == {
        "a": ["started", "x", "y", Code.OK],
        "b": ["started", "About z.", "z", Code.OK],
    }
    assert summary is not None
    assert [call.value for call in summary.results] == [["x", "y"], "z"]


async def test_odd_arguments_arrive_as_they_are_or_are_refused_at_the_door(hosted: Client) -> None:
    """Scenario 16."""
    registry = Registry()

    @registry.action
    async def e_same(value: object) -> object:
        """What it got."""
        return value

    await hosted.host(registry)

    async def same(value: object) -> None:
        result = await hosted.execute(claude(("a", "e_same", {"value": value})), allow=["e_same"])
        assert result.results[0].status.is_ok, result.results[0].status
        assert result.results[0].value == value

    odd: list[object] = [None, (1 << 63) - 1, 1.5e300, "\u2028 😀", {"a": [None, {}]}]
    for value in odd:
        await same(value)
    for depth in (30, 33, 40, 101):
        nested: object = 1
        for _ in range(depth):
            nested = [nested]
        await same(nested)
    for refused in (float("nan"), float("inf"), "\ud800"):
        with pytest.raises(StatusError) as caught:
            await same(refused)
        assert caught.value.reason is Reason.INVALID_REQUEST
    with pytest.raises(StatusError) as caught:
        await hosted.execute('{"role":"assistant","content":[NaN]}', allow=["e_same"])
    assert caught.value.code is Code.INVALID_ARGUMENT


async def test_leaving_the_events_cancels_the_calls(client: Client) -> None:
    registry = Registry()
    began, ended = asyncio.Event(), asyncio.Event()

    @registry.action
    async def e_wait() -> None:
        """Waits."""
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    await client.host(registry)
    async for _ in client.execute_stream(claude(("a", "e_wait", {})), allow=["e_wait"]):
        await began.wait()
        break
    async with asyncio.timeout(10):
        await ended.wait()


async def test_calls_are_routed_to_the_peer_that_is_named(address: str) -> None:
    async def answer(text: str) -> str:
        """Is hosted twice, differently."""
        return f"first {text}"

    first, second = Registry(), Registry()
    first.action(name="e_route")(answer)

    @second.action(name="e_route", description="Another.")
    async def other(text: str) -> str:
        return f"second {text}"

    async with (
        a11_grpc.connect(address, registry=first),
        a11_grpc.connect(address, registry=second) as loser,
    ):
        assert loser.refused["e_route"].reason is Reason.NAME_TAKEN
        reply = claude(("a", "e_route", {"text": "x"}))

        async def check(configs: dict[str, str] | None, expected: Sequence[Any]) -> None:
            result = await loser.execute(reply, allow=["e_route"], action_configs=configs)
            assert [call.value for call in result.results] == expected

        await check(None, ["first x"])
        await check({"e_route": "a11://$sender"}, ["second x"])
        await check({"e_route": f"a11://{loser.session_id}"}, ["second x"])


async def test_a_deadline_leaves_what_finished(hosted: Client) -> None:
    registry = Registry()

    @registry.action
    async def e_slow() -> str:
        """Takes an hour."""
        await asyncio.sleep(3600)
        return "done"

    await hosted.host(registry)
    reply = claude(("a", "e_slow", {}), ("b", "e_tell", {"topic": "z"}))
    result = await hosted.execute(reply, allow=["e_.*"], timeout=0.3)
    assert [call.status.code for call in result.results] == [Code.DEADLINE_EXCEEDED, Code.OK]


async def test_an_interaction_is_run_and_recorded(tmp_path: Path) -> None:
    async with (
        serving(["--store", str(tmp_path / "store.db")]) as server,
        a11_grpc.connect(server.address, registry=REGISTRY) as client,
    ):
        reply = claude(("a", "e_tell", {"topic": "z"}))
        for _ in range(2):
            result = await client.execute(
                reply, allow=["e_.*"], store=True, conversation="talk", interaction_id="turn-1"
            )
            assert [call.value for call in result.results] == ["z"]
        records = [record async for record in client.interactions.list("talk")]
        assert [record.id for record in records] == ["turn-1", result.interaction.id]
        assert isinstance(records[0].interaction, Interaction)
