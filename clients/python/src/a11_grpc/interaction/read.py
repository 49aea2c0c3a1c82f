"""Portable JSON → interaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf.message import Message

from a11_grpc._proto.action_pb2 import ActionMessage, PortBinding
from a11_grpc._proto.chunk_pb2 import Chunk, NodeFragment
from a11_grpc._proto.interaction_pb2 import (
    ROLE_MODEL,
    ROLE_SYSTEM,
    ROLE_USER,
    ActionConfig,
    Interaction,
    Peer,
    UsageMetadata,
)
from a11_grpc._proto.status_pb2 import Reason as ReasonNumber
from a11_grpc._proto.status_pb2 import Status as StatusMessage
from a11_grpc.interaction.base64 import decode_base64
from a11_grpc.interaction.canonical import accept, refused
from a11_grpc.interaction.peer import peer_from_text
from a11_grpc.interaction.timestamp import read_timestamp
from a11_grpc.wire.json import JsonError, dump_json, load_json
from a11_grpc.wire.status import Reason, StatusError

_ROLES = {"user": ROLE_USER, "model": ROLE_MODEL, "system": ROLE_SYSTEM}
_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1


def from_json(text: str | bytes) -> Interaction:
    """Reads the portable A11 JSON of an interaction, in its canonical form.

    Unknown fields are ignored; one that is null counts as absent, but for `status`, where null
    means none and absent means OK.

    Raises:
        StatusError: INVALID_ARGUMENT, naming the field that is malformed or refused.
    """
    try:
        document = load_json(text)
    except JsonError as error:
        raise StatusError.of(Reason.INVALID_REQUEST, str(error)) from error
    return from_value(document)


def from_value(document: object) -> Interaction:
    """The same out of what the JSON was parsed to."""
    fields = _Fields(document, "interaction", "")
    found = Interaction(role=ROLE_USER)
    fields.text("id", found)
    role = fields.take("role")
    if role is not None:
        if not isinstance(role, str) or role not in _ROLES:
            raise refused("role", f"unknown role {role!r}, expected user, model or system")
        found.role = _ROLES[role]
    millis = fields.take("created_at_millis")
    if millis is not None:
        found.created_at_millis = _millis(millis)
    fields.text("previous_interaction_id", found)
    fields.text("model", found)
    if fields.has("status"):
        status = fields.take("status")
        if status is not None:
            _status(_Fields(status, "status"), found.status)
    else:
        found.status.SetInParent()
    for place in fields.items("system_instructions"):
        _chunk(place, found.system_instructions.add())
    for name, config in fields.entries("action_configs"):
        _config(config, found.action_configs[name])
    for place in fields.items("content"):
        _chunk(place, found.content.add())
    for place in fields.items("action_calls"):
        _call(place, found.action_calls.add())
    for name in ("action_inputs", "action_outputs"):
        lists = found.action_inputs if name == "action_inputs" else found.action_outputs
        for call, list_fields in fields.lists(name):
            target = lists[call].fragments
            for place in list_fields:
                _fragment(place, target.add())
    fields.bytes_map("backend_specific_metadata", found.backend_specific_metadata)
    usage = fields.take("usage_metadata")
    if usage is not None:
        _usage(_Fields(usage, "usage_metadata"), found.usage_metadata)
    return accept(found)


class _Fields:
    """A JSON object, whose fields are checked as they are taken."""

    def __init__(self, value: object, path: str, prefix: str | None = None) -> None:
        if not isinstance(value, Mapping):
            raise refused(path, "expected an object")
        self.value: Mapping[str, Any] = value
        self._prefix = f"{path}." if prefix is None else prefix
        self.path = path

    def at(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def has(self, name: str) -> bool:
        return name in self.value

    def take(self, name: str) -> Any:
        return self.value.get(name)

    def text(self, name: str, target: Message) -> None:
        value = self.take(name)
        if value is None:
            return
        if not isinstance(value, str):
            raise refused(self.at(name), "expected a text")
        self._set(name, target, value)

    def whole(self, name: str, target: Message, least: int, most: int) -> None:
        value = self.take(name)
        if value is None:
            return
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            fault = f"expected a whole number from {least} to {most}"
            raise refused(self.at(name), fault)
        self._set(name, target, value)

    def _set(self, name: str, target: Message, value: object) -> None:
        try:
            setattr(target, name, value)
        except (TypeError, ValueError) as error:
            raise refused(self.at(name), str(error)) from error

    def data(self, name: str) -> bytes | None:
        value = self.take(name)
        return None if value is None else _bytes(self.at(name), value)

    def items(self, name: str) -> Iterator[_Fields]:
        yield from _items(self.at(name), self.take(name))

    def lists(self, name: str) -> Iterator[tuple[str, Iterator[_Fields]]]:
        for key, value in self._object(name).items():
            yield _key(self.at(name), key), _items(f"{self.at(name)}.{key}", value)

    def entries(self, name: str) -> Iterator[tuple[str, _Fields]]:
        for key, value in self._object(name).items():
            path = f"{self.at(name)}.{key}"
            yield _key(self.at(name), key), _Fields({} if value is None else value, path)

    def bytes_map(self, name: str, target: Any) -> None:
        for key, value in self._object(name).items():
            target[_key(self.at(name), key)] = _bytes(f"{self.at(name)}.{key}", value)

    def _object(self, name: str) -> Mapping[str, Any]:
        value = self.take(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise refused(self.at(name), "expected an object")
        return value


def _items(path: str, value: object) -> Iterator[_Fields]:
    if value is None:
        return
    if not isinstance(value, list):
        raise refused(path, "expected a list")
    for place, item in enumerate(value):
        yield _Fields(item, f"{path}[{place}]")


def _key(path: str, key: str) -> str:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError as error:
        raise refused(path, "a key has a lone surrogate") from error
    return key


def _bytes(path: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise refused(path, "expected base64 text")
    try:
        return decode_base64(value, url_safe=False)
    except ValueError as error:
        raise refused(path, str(error)) from error


def _millis(value: object) -> int:
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError as error:
            raise refused("created_at_millis", "expected a whole number") from error
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        fault = "expected a whole number of milliseconds below 2^63"
        raise refused("created_at_millis", fault)
    return value


def _status(fields: _Fields, target: StatusMessage) -> None:
    target.SetInParent()
    fields.whole("code", target, -(1 << 31), (1 << 31) - 1)
    fields.text("message", target)
    details = fields.take("details")
    if details is not None and not isinstance(details, list):
        raise refused(fields.at("details"), "expected a list")
    for place, detail in enumerate(details or ()):
        try:
            target.details.append(dump_json(detail).decode())
        except JsonError as error:
            raise refused(f"{fields.at('details')}[{place}]", str(error)) from error
    reason = fields.take("reason")
    if reason is not None:
        try:
            target.reason = ReasonNumber.Value(f"REASON_{reason}")
        except ValueError as error:
            raise refused(fields.at("reason"), f"unknown reason {reason!r}") from error


def _chunk(fields: _Fields, target: Chunk) -> None:
    target.SetInParent()
    data = fields.data("data")
    reference = fields.take("ref")
    if reference is not None:
        if data and reference:
            raise refused(fields.path, "has both data and a ref")
        if reference == "":
            if data is None:
                raise refused(fields.path, "ref must not be empty")
        else:
            fields.text("ref", target)
            data = None
    if data is not None:
        target.data = data
    metadata = fields.take("metadata")
    if metadata is None:
        return
    inner = _Fields(metadata, fields.at("metadata"))
    target.metadata.SetInParent()
    mimetype = inner.take("mimetype")
    if mimetype is not None:
        if not isinstance(mimetype, str):
            raise refused(inner.at("mimetype"), "expected a text")
        _guarded(inner.at("mimetype"), lambda: setattr(target.metadata, "media_type", mimetype))
    moment = inner.take("timestamp")
    if moment is not None:
        timestamp = read_timestamp(moment) if isinstance(moment, str) else None
        if timestamp is None:
            fault = f"not an RFC 3339 timestamp in years 1 to 9999: {moment!r}"
            raise refused(inner.at("timestamp"), fault)
        target.metadata.timestamp.CopyFrom(timestamp)
    inner.bytes_map("attributes", target.metadata.attributes)


def _guarded(path: str, change: Callable[[], None]) -> None:
    try:
        change()
    except ValueError as error:
        raise refused(path, str(error)) from error


def _fragment(fields: _Fields, target: NodeFragment) -> None:
    payload = fields.take("data")
    if payload is not None:
        inner = _Fields(payload, fields.at("data"))
        if inner.take("id") is not None:
            # An id makes it a reference to a node.
            target.node_ref.SetInParent()
            inner.text("id", target.node_ref)
            inner.whole("offset", target.node_ref, 0, _U32)
            inner.whole("length", target.node_ref, 0, _U32)
        else:
            _chunk(inner, target.chunk)
    fields.text("id", target)
    fields.whole("seq", target, 0, _U32)
    continued = fields.take("continued")
    if continued is not None:
        if not isinstance(continued, bool):
            raise refused(fields.at("continued"), "expected true or false")
        target.continued = continued


def _call(fields: _Fields, target: ActionMessage) -> None:
    fields.text("id", target)
    fields.text("name", target)
    for place in fields.items("inputs"):
        _binding(place, target.inputs.add())
    for place in fields.items("outputs"):
        _binding(place, target.outputs.add())
    fields.bytes_map("headers", target.headers)


def _binding(fields: _Fields, target: PortBinding) -> None:
    fields.text("name", target)
    fields.text("id", target)


def _config(fields: _Fields, target: ActionConfig) -> None:
    target.SetInParent()
    peer = fields.take("peer")
    if isinstance(peer, str):
        try:
            target.peer.CopyFrom(peer_from_text(peer))
        except (StatusError, ValueError) as error:
            raise refused(fields.at("peer"), str(error)) from error
    elif peer is not None:
        if not isinstance(peer, Mapping):
            raise refused(fields.at("peer"), "expected a text or an object")
        parts, found = _Fields(peer, fields.at("peer")), Peer()
        for name in ("protocol", "scheme", "identity", "endpoint"):
            parts.text(name, found)
        target.peer.CopyFrom(found)
    fields.bytes_map("header_autofills", target.header_autofills)


def _usage(fields: _Fields, target: UsageMetadata) -> None:
    target.SetInParent()
    for field in UsageMetadata.DESCRIPTOR.fields:
        fields.whole(field.name, target, 0, _U64)
