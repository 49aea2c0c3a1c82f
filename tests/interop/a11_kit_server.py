"""A server of the Python package a11-kit, on stdio: actions for our server to
take in."""

import asyncio

import a11
from a11.sdk import mcp

REGISTRY = a11.ActionRegistry()


@REGISTRY.action
async def shout(word: str) -> str:
    """Says it louder."""
    return word.upper()


async def split(action):
    text = await action["text"].consume()
    for word in text.split():
        await action["words"].put(word)
    await action["words"].finalize()
    await action["total"].finalize(len(text.split()))


REGISTRY.register(
    "split",
    a11.ActionSchema(
        name="split",
        description="The words of a line, one by one.",
        inputs={"text": a11.ActionPortSchema("text", "text/plain", typeinfo=str, required=True, unary=True)},
        outputs={
            "words": a11.ActionPortSchema("words", "text/plain", typeinfo=str),
            "total": a11.ActionPortSchema("total", "application/json", typeinfo=int, unary=True),
        },
    ),
    split,
)

asyncio.run(mcp.serve_stdio(REGISTRY, name="a11-kit"))
