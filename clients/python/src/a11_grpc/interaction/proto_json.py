"""The proto3 JSON of an interaction: the generated form, for tools that speak protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from a11_grpc._proto.interaction_pb2 import Interaction
from a11_grpc.interaction.base64 import decode_base64
from a11_grpc.interaction.canonical import accept, refused
from a11_grpc.wire.json import JsonError, load_json
from a11_grpc.wire.status import Reason, StatusError


def to_proto_json(interaction: Interaction) -> str:
    """Writes an interaction's canonical form on one line.

    Raises:
        StatusError: INVALID_ARGUMENT for what could not be read back.
    """
    return json_format.MessageToJson(accept(interaction), indent=None, ensure_ascii=False)


def from_proto_json(text: str | bytes) -> Interaction:
    """Reads an interaction, in its canonical form.

    Unknown fields are ignored, a field that is null is absent, names may be lowerCamelCase or the
    proto's own, base64 may be of either alphabet.

    Raises:
        StatusError: INVALID_ARGUMENT, naming the field that is malformed or refused.
    """
    try:
        document = load_json(text)
    except JsonError as error:
        raise StatusError.of(Reason.INVALID_REQUEST, str(error)) from error
    if not isinstance(document, dict):
        raise refused("interaction", "expected an object")
    _check(Interaction.DESCRIPTOR, document, "")
    try:
        found = json_format.ParseDict(document, Interaction(), ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        raise StatusError.of(Reason.INVALID_REQUEST, str(error)) from error
    return accept(found)


def _check(descriptor: Descriptor, fields: Any, prefix: str) -> None:
    """What the generated reader lets pass: junk in base64, names that are no value of an enum."""
    if not isinstance(fields, Mapping):
        return
    for field in descriptor.fields:
        for name in {field.name, field.json_name}:
            if name in fields:
                _check_field(field, fields[name], f"{prefix}{name}")


def _check_field(field: FieldDescriptor, value: Any, path: str) -> None:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        if isinstance(value, Mapping):
            for key, item in value.items():
                _check_value(inner.fields_by_name["value"], item, f"{path}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            _check_value(field, item, f"{path}[{place}]")
    else:
        _check_value(field, value, path)


def _check_value(field: FieldDescriptor, value: Any, path: str) -> None:
    if field.type == FieldDescriptor.TYPE_BYTES and isinstance(value, str):
        try:
            decode_base64(value, url_safe=True)
        except ValueError as error:
            raise refused(path, str(error)) from error
    elif field.enum_type is not None and isinstance(value, str):
        if value not in field.enum_type.values_by_name:
            raise refused(path, f"unknown value {value!r}")
    elif field.message_type is not None and not field.message_type.full_name.startswith("google."):
        _check(field.message_type, value, f"{path}.")
