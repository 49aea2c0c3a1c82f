"""Arguments, sorted out by an action's inputs."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any

from a11_grpc.client.schemas import Schemas
from a11_grpc.schema import ActionSchema, Port
from a11_grpc.wire.chunk import OCTETS, Kind
from a11_grpc.wire.status import Reason, StatusError

MAX_REFS = 16
"""How many references of a JSON Schema are followed; they may go round in circles."""


async def sorted_out(
    schemas: Schemas, action: str, arguments: Mapping[str, Any], *, are_all: bool
) -> tuple[ActionSchema, dict[str, Any]]:
    """The schema of the action, and the arguments that are there, by it.

    Raises:
        StatusError: NOT_FOUND where there is no such action; as `given_arguments`.
    """
    kept = await schemas.schema(action)
    try:
        return kept, given_arguments(kept, arguments, are_all=are_all)
    except StatusError:
        # What does not fit what is kept may fit what there is.
        schema = await schemas.schema(action, fresh=True)
        if schema == kept:
            raise
        return schema, given_arguments(schema, arguments, are_all=are_all)


def given_arguments(
    schema: ActionSchema, arguments: Mapping[str, Any], *, are_all: bool
) -> dict[str, Any]:
    """The arguments that are there, in the order of the inputs: None may be as good as absent.

    Raises:
        StatusError: INVALID_ARGUMENT, naming the input that is none, is no stream of values or,
            where these `are_all` there will be, is missing.
    """
    for name in arguments:
        input_of(schema, name)
    given: dict[str, Any] = {}
    for port in schema.inputs:
        name = port.name
        value = arguments.get(name)
        if name in arguments and (value is not None or _takes_none(port)):
            _check(port, value)
            given[name] = value
        elif are_all and port.required:
            raise StatusError.of(Reason.MISSING_INPUT, f"input {name!r} is required")
    return given


def input_of(schema: ActionSchema, name: str) -> Port:
    """The input of that name.

    Raises:
        StatusError: INVALID_ARGUMENT where there is none.
    """
    port = schema.input(name)
    if port is None:
        known = ", ".join(port.name for port in schema.inputs) or "none"
        message = f"there is no input {name!r}; the inputs are: {known}"
        if name in ("timeout", "headers", "on_log", "port"):
            message += f"; options are given by client.with_options({name}=…)"
        raise StatusError.of(Reason.UNDECLARED_INPUT, message)
    return port


def _check(port: Port, value: object) -> None:
    name = port.name
    if port.stream:
        text = isinstance(value, (str, bytes, Mapping))
        if text or not isinstance(value, (Iterable, AsyncIterable)):
            kind = type(value).__name__
            message = f"input {name!r} is a stream: give a list or an iterator, not {kind}"
            raise StatusError.of(Reason.INVALID_INPUT, message)
    elif port.required and port.media_type == OCTETS and _is_empty(value):
        message = f"input {name!r}: no bytes of {OCTETS} are no value, and it is required"
        raise StatusError.of(Reason.MISSING_INPUT, message)


def _is_empty(value: object) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview)) and not len(value)


def _takes_none(port: Port) -> bool:
    """Whether None is a value of the input, rather than none at all."""
    if port.kind is not Kind.JSON or port.stream:
        return False
    schema = port.json_schema
    return port.required or schema is None or _accepts_null(schema, schema, MAX_REFS)


def _accepts_null(schema: object, root: object, refs: int) -> bool:
    """Whether null is valid by a JSON Schema; one that says nothing of it takes it."""
    if not isinstance(schema, Mapping):
        return schema is not False

    def accepts(part: object) -> bool:
        return _accepts_null(part, root, refs)

    kinds = schema.get("type", "null")
    return (
        "null" in ([kinds] if isinstance(kinds, str) else kinds)
        and schema.get("const") is None
        and None in schema.get("enum", [None])
        and any(map(accepts, schema.get("anyOf", [True])))
        and any(map(accepts, schema.get("oneOf", [True])))
        and all(map(accepts, schema.get("allOf", [])))
        and not ("not" in schema and accepts(schema["not"]))
        and ("$ref" not in schema or _accepts_null(*_referred(schema["$ref"], root, refs)))
    )


def _referred(ref: str, root: object, refs: int) -> tuple[object, object, int]:
    """What a reference within the schema names; what is not found takes no null."""
    found = root if ref.startswith("#") and refs else False
    for key in ref.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")
        found = found.get(key, False) if isinstance(found, Mapping) else False
    return found, root, refs - 1
