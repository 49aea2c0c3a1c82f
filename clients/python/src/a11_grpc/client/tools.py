"""What a model is told of the actions that it may call."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpc import aio

from a11_grpc._proto import action_service_pb2 as pb
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc.client.execute import request_metadata
from a11_grpc.client.given import patterns_of
from a11_grpc.interaction.backend import Backend, backend_to_proto
from a11_grpc.wire.json import load_json
from a11_grpc.wire.status import StatusError, error_from_grpc

if TYPE_CHECKING:
    from a11_grpc.client.parts import Parts

log = logging.getLogger("a11_grpc.client")


async def declare_tools(
    parts: Parts,
    backend: Backend | str,
    allow: str | Sequence[str] | None,
    dialect: str,
    headers: Mapping[str, bytes],
) -> list[dict[str, Any]]:
    """The elements of a provider's `tools`, plain JSON values."""
    patterns = patterns_of("allow", allow)
    request = pb.DeclareToolsRequest(
        allowed_actions=patterns, backend=backend_to_proto(backend), dialect=dialect
    )
    try:
        answer = await ActionServiceStub(parts.channel).DeclareTools(
            request, metadata=request_metadata(parts, headers)
        )
    except aio.AioRpcError as error:
        raise error_from_grpc(error) from error
    await _check(parts, patterns, {name.action for name in answer.names})
    return [load_json(tool) for tool in answer.tools]


async def _check(parts: Parts, patterns: Sequence[str], told: set[str]) -> None:
    """Warns, once each, of patterns that match nothing: most often a name that is misspelt.

    They are not refused: what they match may be hosted later.
    """
    for pattern in patterns:
        if pattern in told or pattern in parts.looked_up:
            continue
        try:
            # The service's expressions are not Python's: only it knows what one of several matches.
            is_alone = len(patterns) == 1 or not told
            matches = bool(told) if is_alone else await parts.schemas.has(pattern)
        except StatusError as error:
            log.debug("tools: whether %r matches anything is not known: %s", pattern, error)
            continue
        parts.looked_up.add(pattern)
        if not matches:
            log.warning("tools: allow has %r, which matches no action", pattern)
