"""A peer that hosts actions: `python -m a11_grpc host examples/python/peer.py --server URL`.

Beside the TypeScript peer of `examples/typescript` each calls the other's through the service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import a11_grpc

REGISTRY = a11_grpc.Registry()


@REGISTRY.action(idempotent=True)
async def py_shout(text: Annotated[str, "What to shout."]) -> str:
    """Says it in upper case."""
    return text.upper()


@REGISTRY.action(idempotent=True)
async def py_count(n: Annotated[int, "How far."]) -> AsyncIterator[int]:
    """Counts from 1 to n."""
    for number in range(1, n + 1):
        yield number


@REGISTRY.action(idempotent=True)
async def word_lengths(texts: AsyncIterator[str]) -> AsyncIterator[dict[str, int]]:
    """The length of each word, as the texts come.

    Args:
        texts: Lines, or parts of them.
    """
    async for text in texts:
        yield {word: len(word) for word in text.split()}


@REGISTRY.action
async def py_ask_ts(ctx: a11_grpc.Context, text: Annotated[str, "What to reverse."]) -> str:
    """Lets the TypeScript peer reverse a text, as part of this call."""
    ctx.log(f"Asking ts_reverse about {text!r}.\n")
    return str(await ctx.call("ts_reverse", text=text))
