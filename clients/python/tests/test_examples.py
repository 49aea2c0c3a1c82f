"""The examples, as their readers run them."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from support.server import ROOT

import a11_grpc
from a11_grpc import Client, Code, Log, Registry, StatusError

EXAMPLES = ROOT / "examples" / "python"
REPLIES = [path.stem for path in (ROOT / "examples" / "replies").glob("*.json")]


async def test_the_agent_loop_comes_to_its_answer_with_every_provider(address: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLES / "agent.py"), address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    lines = stderr.decode().splitlines()
    assert len(lines) == 3 * len(REPLIES)
    for call in ("word_count: OK", "order_status: NOT_FOUND", "disk_usage: PERMISSION_DENIED"):
        assert len([line for line in lines if line.endswith(call)]) == len(REPLIES)
    decoder, text, conversations = json.JSONDecoder(), stdout.decode(), []
    while text.strip():
        conversation, end = decoder.raw_decode(text)
        conversations.append(conversation)
        text = text[end:].lstrip()
    assert len(conversations) == len(REPLIES)
    for conversation in conversations:
        assert "twelve words" in json.dumps(conversation[-1])
        # Between the model's turns stand the results of its calls.
        assert "order_status" in json.dumps(conversation)


async def test_the_peer_serves_its_actions(client: Client, address: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "a11_grpc", "host", str(EXAMPLES / "peer.py")),
        *("--server", address),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(30):
            while not (await process.stderr.readline()).startswith(b"ready "):
                pass
        assert await client.call("py_shout", text="hi") == "HI"
        assert await client.call("py_count", n=3) == [1, 2, 3]
        lengths = [found async for found in client.stream("word_lengths", texts=["a bc", "def"])]
        assert lengths == [{"a": 1, "bc": 2}, {"def": 3}]
        with pytest.raises(StatusError) as caught:
            await client.call("py_ask_ts", text="abc")
        assert caught.value.code is Code.NOT_FOUND
        registry, logs = Registry(), list[Log]()

        @registry.action
        async def ts_reverse(text: str) -> str:
            """Stands in for the TypeScript peer's."""
            return text[::-1]

        async with a11_grpc.connect(address, registry=registry):
            found = await client.with_options(on_log=logs.append).call("py_ask_ts", text="abc")
        assert found == "cba"
        assert [log.text for log in logs] == ["Asking ts_reverse about 'abc'.\n"]
    finally:
        process.terminate()
        await process.communicate()
