"""What a fragment counts against its node's credit."""

from __future__ import annotations

from a11_grpc._proto.chunk_pb2 import NodeFragment

FIXED_COST = 64
"""Counted for every fragment, so that empty ones are bounded too."""


def cost(fragment: NodeFragment) -> int:
    """What a fragment costs, in bytes: both sides count the same."""
    if fragment.WhichOneof("payload") != "chunk":
        return FIXED_COST
    chunk = fragment.chunk
    total = FIXED_COST + len(chunk.data)
    if chunk.ref:
        total += len(chunk.ref.encode("utf-8"))
    attributes = chunk.metadata.attributes
    if attributes:
        total += sum(len(name.encode()) + len(value) for name, value in attributes.items())
    return total
