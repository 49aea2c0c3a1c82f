"""An agent loop against each provider's message shape: `python agent.py 127.0.0.1:50051 claude`.

The model is recorded: its first reply asks for three tools, its second one is the answer. With a
provider's SDK in its place the loop is the same.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import a11_grpc

REPLIES = Path(__file__).resolve().parent.parent / "replies"
ALLOWED = ["word_count", "order_status"]
ANSWER = "It has twelve words, and the order does not exist."

Json = Any


@dataclass(frozen=True)
class Provider:
    """Where a provider keeps things in its replies."""

    recorded: str
    """The recorded reply that asks for tools."""
    answer: Json
    """The reply that is the answer."""
    turn: Callable[[Json], list[Json]]
    """What of a reply goes into the conversation."""
    tools: tuple[str, str]
    """Whose tools its request takes, and which of that provider's shapes."""
    backend: str | None = None
    """Said only where the reply looks like another provider's."""


def _chat(text: str) -> Json:
    message = {"role": "assistant", "content": text}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}


def _chat_turn(reply: Json) -> list[Json]:
    return [reply["choices"][0]["message"]]


PROVIDERS = {
    "claude": Provider(
        "claude.json",
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
        lambda reply: [{"role": "assistant", "content": reply["content"]}],
        ("claude", ""),
    ),
    "openai_chat": Provider("openai_chat.json", _chat(ANSWER), _chat_turn, ("openai", "chat")),
    "openai_responses": Provider(
        "openai_responses.json",
        {
            "object": "response",
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": ANSWER}],
                }
            ],
        },
        lambda reply: list(reply["output"]),
        ("openai", "responses"),
    ),
    "gemini": Provider(
        "gemini_generate_content.json",
        {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}}]},
        lambda reply: [reply["candidates"][0]["content"]],
        ("gemini", "generate_content"),
    ),
    "gemini_interactions": Provider(
        "gemini_interactions.json",
        {
            "status": "completed",
            "steps": [{"type": "model_output", "content": [{"type": "text", "text": ANSWER}]}],
        },
        lambda reply: list(reply["steps"]),
        ("gemini", "interactions"),
    ),
    "ollama": Provider(
        "ollama.json",
        {"message": {"role": "assistant", "content": ANSWER}, "done": True},
        lambda reply: [reply["message"]],
        ("ollama", ""),
    ),
    "vllm": Provider("vllm.json", _chat(ANSWER), _chat_turn, ("vllm", ""), "vllm"),
}


class RecordedModel:
    """Answers what was recorded, one reply after the other."""

    def __init__(self, provider: Provider) -> None:
        recorded = json.loads((REPLIES / provider.recorded).read_text())
        self._replies = iter([recorded, provider.answer])

    def reply(self, messages: list[Json], tools: list[Json]) -> Json:
        """What the model says to a conversation.

        With an SDK: `anthropic.messages.create(model=…, messages=messages, tools=tools)`,
        `openai.chat.completions.create(…, tools=tools)`, `openai.responses.create(…, tools=tools)`,
        `genai.models.generate_content(…, config={"tools": tools})`, `ollama.chat(…, tools=tools)`.
        """
        asked_for = [word for word in ALLOWED if word in json.dumps(tools)]
        assert asked_for == ALLOWED, tools
        return next(self._replies)


async def converse(client: a11_grpc.Client, name: str) -> list[Json]:
    """Runs the loop to the model's answer; the whole conversation."""
    provider = PROVIDERS[name]
    model = RecordedModel(provider)
    backend, dialect = provider.tools
    # One list says what the model is told of, and what it may run.
    tools = await client.tools(backend, dialect=dialect, allow=ALLOWED)
    messages: list[Json] = [{"role": "user", "content": "How long is this, and what of A-404?"}]
    while True:
        reply = model.reply(messages, tools)
        messages += provider.turn(reply)
        result = await client.execute(reply, allow=ALLOWED, backend=provider.backend)
        if not result.results:
            return messages
        for call in result.results:
            print(f"{name}: {call.name}: {call.status.code.name}", file=sys.stderr)
        a11_grpc.append_result(messages, result)


async def main() -> None:
    """Connects, converses with the providers named, or with all, and prints what was said."""
    server, *names = sys.argv[1:]
    async with a11_grpc.connect(server, name="agent") as client:
        for name in names or PROVIDERS:
            print(json.dumps(await converse(client, name), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    asyncio.run(main())
