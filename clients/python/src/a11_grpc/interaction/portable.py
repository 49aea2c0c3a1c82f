"""The portable A11 JSON of an interaction, as other A11 implementations read and write it.

snake_case names, roles in words, numeric status codes, bytes as standard base64.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from a11_grpc._proto.action_pb2 import ActionMessage, PortBinding
from a11_grpc._proto.chunk_pb2 import Chunk, NodeFragment, NodeFragments
from a11_grpc._proto.interaction_pb2 import (
    ROLE_MODEL,
    ROLE_SYSTEM,
    ActionConfig,
    Interaction,
    UsageMetadata,
)
from a11_grpc._proto.status_pb2 import Reason as ReasonNumber
from a11_grpc._proto.status_pb2 import Status as StatusMessage
from a11_grpc.interaction.base64 import encode_base64
from a11_grpc.interaction.canonical import accept
from a11_grpc.interaction.read import from_json, from_value
from a11_grpc.interaction.timestamp import write_timestamp
from a11_grpc.wire.json import load_json

__all__ = ["from_json", "from_value", "to_json", "to_value"]


def to_json(interaction: Interaction) -> str:
    """Writes an interaction's canonical form on one line.

    Raises:
        StatusError: INVALID_ARGUMENT for what could not be read back.
    """
    return json.dumps(to_value(interaction), ensure_ascii=False, separators=(",", ":"))


def to_value(interaction: Interaction) -> dict[str, Any]:
    """The same as plain values."""
    it = accept(interaction)
    roles = {ROLE_MODEL: "model", ROLE_SYSTEM: "system"}
    return {
        "id": it.id,
        "role": roles.get(it.role, "user"),
        "created_at_millis": it.created_at_millis if it.HasField("created_at_millis") else None,
        "previous_interaction_id": it.previous_interaction_id,
        "model": it.model,
        "status": _status(it.status) if it.HasField("status") else None,
        "system_instructions": [_chunk(chunk) for chunk in it.system_instructions],
        "action_configs": {
            name: _config(it.action_configs[name]) for name in sorted(it.action_configs)
        },
        "content": [_chunk(chunk) for chunk in it.content],
        "action_calls": [_call(call) for call in it.action_calls],
        "action_inputs": _lists(it.action_inputs),
        "action_outputs": _lists(it.action_outputs),
        "backend_specific_metadata": _bytes_map(it.backend_specific_metadata),
        "usage_metadata": _usage(it.usage_metadata) if it.HasField("usage_metadata") else None,
    }


def _status(status: StatusMessage) -> dict[str, Any]:
    written: dict[str, Any] = {"code": status.code, "message": status.message}
    if status.details:
        written["details"] = [load_json(detail) for detail in status.details]
    if status.reason:
        written["reason"] = ReasonNumber.Name(status.reason).removeprefix("REASON_")
    return written


def _chunk(chunk: Chunk) -> dict[str, Any]:
    written: dict[str, Any] = {}
    body = chunk.WhichOneof("body")
    if body is not None:
        written["data"] = encode_base64(chunk.data)
    if chunk.HasField("metadata"):
        metadata: dict[str, Any] = {}
        if chunk.metadata.media_type:
            metadata["mimetype"] = chunk.metadata.media_type
        if chunk.metadata.HasField("timestamp"):
            metadata["timestamp"] = write_timestamp(chunk.metadata.timestamp)
        if chunk.metadata.attributes:
            metadata["attributes"] = _bytes_map(chunk.metadata.attributes)
        written["metadata"] = metadata
    if body == "ref":
        written["ref"] = chunk.ref
    return written


def _lists(lists: Mapping[str, NodeFragments]) -> dict[str, Any]:
    return {
        call: [_fragment(fragment) for fragment in lists[call].fragments] for call in sorted(lists)
    }


def _fragment(fragment: NodeFragment) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if fragment.HasField("chunk"):
        written["data"] = _chunk(fragment.chunk)
    elif fragment.HasField("node_ref"):
        node: dict[str, Any] = {"id": fragment.node_ref.id}
        if fragment.node_ref.HasField("offset"):
            node["offset"] = fragment.node_ref.offset
        if fragment.node_ref.HasField("length"):
            node["length"] = fragment.node_ref.length
        written["data"] = node
    written["id"] = fragment.id
    if fragment.HasField("seq"):
        written["seq"] = fragment.seq
    if fragment.continued:
        written["continued"] = True
    return written


def _call(call: ActionMessage) -> dict[str, Any]:
    written: dict[str, Any] = {"id": call.id, "name": call.name}
    if call.inputs:
        written["inputs"] = _bindings(call.inputs)
    if call.outputs:
        written["outputs"] = _bindings(call.outputs)
    if call.headers:
        written["headers"] = _bytes_map(call.headers)
    return written


def _bindings(bindings: Iterable[PortBinding]) -> list[dict[str, str]]:
    return [{"name": binding.name, "id": binding.id} for binding in bindings]


def _config(config: ActionConfig) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if config.HasField("peer"):
        peer = config.peer
        written["peer"] = {
            "protocol": peer.protocol,
            "scheme": peer.scheme,
            "identity": peer.identity,
            "endpoint": peer.endpoint,
        }
    written["header_autofills"] = _bytes_map(config.header_autofills)
    return written


def _usage(usage: UsageMetadata) -> dict[str, int]:
    return {field.name: value for field, value in usage.ListFields()}


def _bytes_map(values: Mapping[str, bytes]) -> dict[str, str]:
    return {key: encode_base64(values[key]) for key in sorted(values)}
