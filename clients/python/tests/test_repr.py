"""What is printed of the things that a program holds: short, and what they are."""

from __future__ import annotations

import json
from pathlib import Path

from support.server import ROOT, serving

import a11_grpc
from a11_grpc import Client, Code, Context, Registry, Status


async def test_a_client_says_where_it_is_and_whether_it_is_attached(address: str) -> None:
    client = await a11_grpc.connect(address)
    assert repr(client) == f"<Client of http://{address}, no session>"
    id = await client.open_session()
    assert repr(client.with_options(timeout=1)) == f"<Client of http://{address}, session {id}>"
    await client.close()
    assert repr(client) == f"<Client of http://{address}, closed>"


async def test_a_call_says_whose_it_is_and_how_it_ended(client: Client) -> None:
    seen: list[str] = []
    registry = Registry()
    assert repr(registry) == "<Registry of no actions>"

    @registry.action
    async def p_one(ctx: Context) -> None:
        seen.append(repr(ctx))

    registry.action(name="p_two")(p_one)
    assert repr(registry) == "<Registry of p_one, p_two>"
    await client.host(registry)
    async with await client.start("p_one") as call:
        assert repr(call) == f"<Call {call.id} of 'p_one', under way>"
        await call.result()
        assert repr(call) == f"<Call {call.id} of 'p_one', OK>"
    assert seen == [f"<Context of call {call.id} of 'p_one'>"]
    async with client.write_node("p_node") as node:
        assert repr(node) == "<NodeWriter of 'p_node', open>"
    assert repr(node) == "<NodeWriter of 'p_node', ended>"


async def test_results_and_records_are_shown_without_their_interactions(tmp_path: Path) -> None:
    reply = json.loads((ROOT / "examples" / "replies" / "claude.json").read_text())
    arguments = ["--config", "examples/actions.toml", "--store", str(tmp_path / "talk.db")]
    async with serving(arguments) as server, a11_grpc.connect(server.address) as client:
        result = await client.execute(
            reply, allow="word_count", store=True, conversation="talk", interaction_id="turn"
        )
        value = {"words": 12, "lines": 1, "characters": 60}
        shown = repr(result)
        assert f"name='word_count', status={Status()!r}" in shown
        assert f"value={value!r}" in shown
        assert len(shown) < 1500, shown
        for record in [record async for record in client.interactions.list("talk")]:
            assert f"id={record.id!r}" in repr(record)
            assert len(repr(record)) < 300
        assert result.results[1].status.code is Code.PERMISSION_DENIED
