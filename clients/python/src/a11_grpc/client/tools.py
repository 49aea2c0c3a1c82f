"""What a model is told of the actions that it may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpc import aio

from a11_grpc._proto import action_service_pb2 as pb
from a11_grpc._proto.action_service_pb2_grpc import ActionServiceStub
from a11_grpc.client.execute import request_metadata
from a11_grpc.interaction.backend import Backend, backend_to_proto
from a11_grpc.wire.json import load_json
from a11_grpc.wire.status import error_from_grpc

if TYPE_CHECKING:
    from a11_grpc.client.parts import Parts


async def declare_tools(
    parts: Parts,
    backend: Backend | str,
    allow: str | Sequence[str] | None,
    dialect: str,
    headers: Mapping[str, bytes],
) -> list[dict[str, Any]]:
    """The elements of a provider's `tools`, plain JSON values."""
    request = pb.DeclareToolsRequest(
        allowed_actions=[allow] if isinstance(allow, str) else allow,
        backend=backend_to_proto(backend),
        dialect=dialect,
    )
    try:
        answer = await ActionServiceStub(parts.channel).DeclareTools(
            request, metadata=request_metadata(parts, headers)
        )
    except aio.AioRpcError as error:
        raise error_from_grpc(error) from error
    return [load_json(tool) for tool in answer.tools]
