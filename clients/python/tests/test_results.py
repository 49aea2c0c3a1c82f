"""What a call of a turn is worth: as the same call made directly."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support import fixtures
from support.server import serving

import a11_grpc
from a11_grpc import Client


@pytest.fixture(scope="module")
async def fixed() -> AsyncIterator[Client]:
    async with (
        serving() as server,
        a11_grpc.connect(server.address, registry=fixtures.REGISTRY) as client,
    ):
        yield client


def reply(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "c", "name": name, "input": arguments}
    return {"role": "assistant", "content": [call]}


async def test_a_result_has_the_value_that_a_call_answers_and_the_outputs_by_name(
    fixed: Client,
) -> None:
    async def check(
        name: str, arguments: dict[str, Any], outputs: dict[str, Any], **called: Any
    ) -> None:
        result = (await fixed.execute(reply(name, arguments), allow=name)).results[0]
        assert result.status.is_ok, result.status
        assert result.outputs == outputs
        expected = called.get("value", await fixed.call(name, **arguments))
        assert result.value == expected, name

    await check("echo", {"word": "x"}, {"echoed": "x"})
    await check("split_words", {"text": "a b"}, {"words": ["a", "b"]})
    await check("split_words", {"text": ""}, {"words": []})
    await check("counted", {"text": "a b", "parts": ["c"]}, {"words": ["a", "b", "c"], "total": 3})
    await check("no_outputs", {"word": "x"}, {})
    await check("whole_string", {"query": "x"}, {"result": "answer to x"})
    await check("whole_document", {"query": "x"}, {"result": {"q": "x", "hits": 2}})
    # An output that is no part of the result is for callers of the action alone.
    outputs = {"status": "7: delayed"}
    await check("order_status", {"order_id": "7"}, outputs, value=outputs)


async def test_a_failed_call_has_neither(fixed: Client) -> None:
    result = await fixed.execute(reply("fail_with", {"code": "ABORTED"}), allow="fail_with")
    assert (result.results[0].value, result.results[0].outputs) == (None, {})


async def test_a_config_that_configures_nothing_is_told_once(
    fixed: Client, caplog: pytest.LogCaptureFixture
) -> None:
    configs = {
        "echo": "a11://$sender",
        "counted": "a11://$sender",
        "elsewhere": "mcp://127.0.0.1:1/mcp",
        "ecko": "a11://$sender",
    }
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "a11_grpc.client"):
            result = await fixed.execute(
                reply("echo", {"word": "x"}), allow="echo", action_configs=configs
            )
        assert result.results[0].value == "x"
    assert [record.getMessage() for record in caplog.records] == [
        "action_configs: 'ecko' is no action that the reply calls or the service lists"
    ]


async def test_a_config_may_set_headers(fixed: Client) -> None:
    registry = a11_grpc.Registry()

    @registry.action
    async def tenant(ctx: a11_grpc.Context) -> str:
        """Whose call it is."""
        return ctx.headers.get("x-a11-tenant", b"nobody").decode()

    await fixed.host(registry)

    async def check(config: Any, expected: str) -> None:
        result = await fixed.execute(
            reply("tenant", {}), allow="tenant", action_configs={"tenant": config}
        )
        assert result.results[0].value == expected

    await check("a11://$sender", "nobody")
    await check({"headers": {"X-A11-Tenant": "acme"}}, "acme")
    await check({"peer": "a11://$sender", "headers": {"x-a11-tenant": b"acme"}}, "acme")
    for wrong in ({"per": "a11://$sender"}, "nowhere"):
        with pytest.raises(a11_grpc.StatusError) as caught:
            await check(wrong, "")
        assert caught.value.reason is a11_grpc.Reason.INVALID_REQUEST
