"""What a model is told of its tools, and its calls by those names."""

from __future__ import annotations

import json
from typing import Any

import pytest

import a11_grpc
from a11_grpc import ActionSchema, Backend, Client, Code, Context, Port, Reason, StatusError

ODD = "text#upper"
"""A name that no provider takes."""


async def test_the_allowed_actions_are_told_in_the_provider_s_shape(client: Client) -> None:
    (tool,) = await client.tools("claude", allow=["order_status"])
    assert tool["name"] == "order_status"
    assert tool["description"] == "Looks up what has become of an order."
    assert tool["input_schema"]["required"] == ["order_id"]
    schema = tool["input_schema"]

    def told(**shape: Any) -> list[dict[str, Any]]:
        return [{"name": tool["name"], "description": tool["description"], **shape}]

    function = {"name": tool["name"], "description": tool["description"], "parameters": schema}
    for backend, dialect, expected in (
        ("anthropic", "", told(input_schema=schema)),
        (Backend.CLAUDE_CODE, "", told(inputSchema=schema)),
        ("openai", "", [{"type": "function", "function": function}]),
        ("openai", "chat", [{"type": "function", "function": function}]),
        ("openai", "responses", [{"type": "function", **function, "strict": False}]),
        ("openai", "functions", [function]),
        (Backend.CODEX, "", [{"type": "function", **function, "strict": False}]),
        ("google", "", [{"type": "function", **function}]),
        (
            "google",
            "generate_content",
            [{"functionDeclarations": told(parametersJsonSchema=schema)}],
        ),
        ("ollama", "", [{"type": "function", "function": function}]),
        ("vllm", "", [{"type": "function", "function": function}]),
    ):
        found = await client.tools(backend, allow="order_status", dialect=dialect)
        assert found == expected, (backend, dialect)
        # In the order in which people read them, too.
        assert json.dumps(found) == json.dumps(expected), (backend, dialect)


async def test_without_a_list_no_tool_is_told_and_a_header_is_a_list(client: Client) -> None:
    assert await client.tools("claude") == []
    assert await client.tools("claude", allow=[]) == []
    by_header = client.with_options(headers={"x-a11-allowed-llm-actions": "word_.*,order_status"})
    names = [tool["name"] for tool in await by_header.tools("claude")]
    assert names == ["order_status", "word_count"]


async def test_a_pattern_that_matches_nothing_is_warned_of_once(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with a11_grpc.connect(address) as client:

        async def warned(*allow: str) -> list[str]:
            caplog.clear()
            tools = await client.tools("claude", allow=allow)
            assert len(tools) == sum("word" in pattern for pattern in allow)
            return [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"]

        def of(pattern: str) -> str:
            return f"tools: allow has {pattern!r}, which matches no action"

        assert await warned("typo") == [of("typo")]
        assert await warned("word_.*", "typo", "order", "odrer_.*") == [of("order"), of("odrer_.*")]
        assert await warned("word_count", "typo", "order") == []
        assert await warned("word.count") == []
        with pytest.raises(StatusError, match="allow: a pattern is a text, not int"):
            await client.tools("claude", allow=[5])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("backend", "allow", "dialect", "reason", "says"),
    [
        ("bard", "now", "", Reason.INVALID_REQUEST, "bard"),
        ("claude", "(", "", Reason.INVALID_PATTERN, "allowed_actions: "),
        ("claude", ".*", "responses", Reason.INVALID_REQUEST, "dialect: "),
    ],
)
async def test_what_is_wrong_is_refused(
    client: Client, backend: str, allow: str, dialect: str, reason: Reason, says: str
) -> None:
    with pytest.raises(StatusError) as caught:
        await client.tools(backend, allow=allow, dialect=dialect)
    assert (caught.value.code, caught.value.reason) == (Code.INVALID_ARGUMENT, reason)
    assert says in caught.value.message


async def test_a_call_by_the_told_name_runs_and_keeps_it(client: Client, address: str) -> None:
    registry = a11_grpc.Registry()

    async def upper(ctx: Context) -> None:
        async for text in ctx.read_stream("texts"):
            await ctx.write("said", text.upper())

    schema = ActionSchema(
        name=ODD,
        inputs=(Port(name="texts", media_type="text/plain", stream=True, required=True),),
        outputs=(Port(name="said", media_type="text/plain", stream=True),),
    )
    registry.register(schema, upper)
    async with a11_grpc.connect(address, registry=registry) as host:
        assert not host.refused
        (tool,) = await client.tools("claude", allow=[ODD])
        assert tool["name"] != ODD
        assert tool["input_schema"]["properties"]["texts"]["type"] == "array"
        call = {"type": "tool_use", "id": "t", "name": tool["name"], "input": {"texts": ["hi"]}}
        reply = {"type": "message", "role": "assistant", "content": [call]}
        result = await client.execute(reply, allow=[ODD])
        (found,) = result.results
        assert (found.name, found.status.code) == (tool["name"], Code.OK)
        # The schema is found by that name: one of a stream is a list.
        assert (found.value, found.outputs) == (["HI"], {"said": ["HI"]})
