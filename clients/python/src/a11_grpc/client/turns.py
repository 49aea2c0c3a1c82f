"""A turn of a conversation, in the forms that it may be given in."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from a11_grpc._proto.interaction_pb2 import ROLE_MODEL, ROLE_USER, Interaction, Role
from a11_grpc.interaction.portable import from_json
from a11_grpc.interaction.proto_json import from_proto_json
from a11_grpc.wire.chunk import JSON, Chunk, chunk_to_proto
from a11_grpc.wire.json import JsonError, dump_json, load_json
from a11_grpc.wire.status import Reason, StatusError

Turn = Interaction | object
"""An interaction, the JSON of one (text or parsed), or a provider's message as it came."""

# Fields that nothing but an interaction has, in the portable JSON …
_OWN = (
    "action_calls",
    "action_configs",
    "action_inputs",
    "action_outputs",
    "backend_specific_metadata",
    "created_at_millis",
    "system_instructions",
)
# … and in proto3 JSON.
_OWN_PROTO = tuple(
    "".join(part.title() if at else part for at, part in enumerate(name.split("_")))
    for name in _OWN
)

# Fields that the messages and replies of providers have, and no interaction; as in the service.
_FOREIGN = (
    *("candidates", "choices", "done", "error", "function_call", "images", "input", "message"),
    *("messages", "modelVersion", "object", "output", "outputs", "parts", "promptFeedback"),
    *("responseId", "steps", "stop_reason", "text", "tool_call_id", "tool_calls", "tool_name"),
    *("type", "usage"),
)

# Who speaks in the messages of providers, where it is not the model.
_USERS = ("user", "tool", "developer", "system")


def turn_of(turn: Turn) -> Interaction:
    """The interaction of a turn: a provider's message becomes one that holds it.

    Raises:
        StatusError: INVALID_ARGUMENT for what has no JSON form, is no JSON, or no message.
    """
    if isinstance(turn, Interaction):
        return turn
    text = reply_json(turn)
    try:
        value = load_json(text)
    except JsonError as error:
        raise StatusError.of(Reason.INVALID_REQUEST, f"the turn is {error}") from error
    blocks = value if isinstance(value, list) else [value]
    if not all(isinstance(block, Mapping) for block in blocks):
        message = (
            "a turn is an Interaction, its JSON, or a provider's message: an object or a list of "
            f"objects, not {text[:40]}"
        )
        raise StatusError.of(Reason.INVALID_REQUEST, message)
    if _has_any(value, _OWN_PROTO):
        return from_proto_json(text)
    if _has_any(value, _OWN) or _holds_chunks(value):
        return from_json(text)
    role = value.get("role") if isinstance(value, Mapping) else None
    return holding(text, ROLE_USER if role in _USERS else ROLE_MODEL)


def is_reply(text: str) -> bool:
    """Whether a text is a provider's message, and no interaction's JSON; neither is neither."""
    try:
        value = load_json(text)
    except JsonError:
        return False
    if not isinstance(value, Mapping):
        return isinstance(value, list)
    if _has_any(value, _OWN_PROTO) or _has_any(value, _OWN) or _holds_chunks(value):
        return False
    role, content = value.get("role"), value.get("content")
    return (
        _has_any(value, _FOREIGN)
        or isinstance(content, str)
        or role in ("assistant", "tool", "developer")
    )


def known(turn: Interaction, id: str, previous: str) -> Interaction:
    """The turn under an id, and after another; one that has its own is not given others.

    Raises:
        StatusError: INVALID_ARGUMENT where it is.
    """
    for name, own, given in (
        ("id", turn.id, id),
        ("previous", turn.previous_interaction_id, previous),
    ):
        if own and given and own != given:
            message = f"{name}: {given!r} was given, and the turn has {own!r} itself"
            raise StatusError.of(Reason.INVALID_REQUEST, message)
    found = Interaction()
    found.CopyFrom(turn)
    found.id = turn.id or id or str(uuid.uuid4())
    found.previous_interaction_id = turn.previous_interaction_id or previous
    return found


def holding(json: str, role: Role.ValueType) -> Interaction:
    """An interaction that holds a provider's message."""
    found = Interaction(role=role)
    found.content.append(chunk_to_proto(Chunk(JSON, json.encode())))
    return found


def reply_json(reply: object) -> str:
    """A reply as JSON text: an SDK's object, dicts and lists, or the text itself.

    Raises:
        StatusError: INVALID_ARGUMENT for what has no JSON form.
    """
    if isinstance(reply, str):
        return reply
    if isinstance(reply, (bytes, bytearray)):
        try:
            return bytes(reply).decode("utf-8")
        except UnicodeDecodeError as error:
            raise StatusError.of(Reason.INVALID_REQUEST, "the reply is not UTF-8") from error
    try:
        return dump_json(_plain(reply)).decode()
    except JsonError as error:
        message = f"the reply has no JSON form: {error}"
        raise StatusError.of(Reason.INVALID_REQUEST, message) from error


def _has_any(value: Any, fields: Iterable[str]) -> bool:
    return isinstance(value, Mapping) and any(field in value for field in fields)


def _holds_chunks(value: Any) -> bool:
    """Whether the content is chunks, which no provider's is."""
    content = value.get("content") if isinstance(value, Mapping) else None
    return (
        isinstance(content, list)
        and bool(content)
        and all(
            isinstance(item, Mapping)
            and ("metadata" in item or "data" in item)
            and "type" not in item
            for item in content
        )
    )


def _plain(value: object) -> Any:
    """SDK objects as what their provider sends: by alias, and nothing that was not there."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
