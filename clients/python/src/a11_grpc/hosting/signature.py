"""A function's signature as an action's schema, and the function as its handler."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Never, NoReturn, cast

from pydantic.fields import FieldInfo

from a11_grpc.hosting.context import Context
from a11_grpc.hosting.docstring import Docstring, read_docstring
from a11_grpc.hosting.function import Function
from a11_grpc.hosting.invoke import Invocation, Returned, invoke
from a11_grpc.hosting.outputs import Outputs
from a11_grpc.hosting.types import (
    ValueType,
    description_of,
    is_binary,
    parts_of,
    shown,
    streamed,
    unwrap,
    with_media_type,
    without_none,
)
from a11_grpc.schema import WHOLE, ActionSchema, Header, Port
from a11_grpc.wire.chunk import Kind
from a11_grpc.wire.json import JsonError, dump_json

OUTPUT = "output"
"""The name of the output of a function that returns one value."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter and the port that feeds it; `port` is None for the context."""

    name: str
    port: Port | None = None
    type: ValueType | None = None
    is_async: bool = True
    default: object = None
    factory: Callable[[], object] | None = None

    def absent(self) -> object:
        """What the function gets where nothing is given: a list or a dict of its own each time."""
        if self.factory is not None:
            return self.factory()
        is_mutable = isinstance(self.default, (list, dict, set))
        return copy.deepcopy(self.default) if is_mutable else self.default


def describe(
    function: Callable[..., Any],
    scope: Mapping[str, Any],
    *,
    name: str | None,
    description: str | None,
    idempotent: bool,
    headers: Sequence[Header],
) -> tuple[ActionSchema, Callable[[Context], Awaitable[None]]]:
    """What a function is as an action; `scope` has names that its annotations may use.

    Raises:
        ValueError: Names the action and what of it cannot become a schema.
    """
    known = name or getattr(function, "__name__", "") or type(function).__name__
    try:
        found = Function(function)
        if not name and not found.name:
            raise ValueError("it has no name: give it one, registry.action(name=…)")
        known = name or found.name
        hints = found.hints(scope)
        doc = read_docstring(found.doc)
        parameters = [
            _parameter(parameter, hints.get(parameter.name, Any), doc, found)
            for parameter in found.parameters()
        ]
        returned = _returned(hints.get("return", Any), doc, found)
    except ValueError as error:
        raise ValueError(f"action {known!r}: {error}") from error
    invocation = Invocation(found.call, parameters, returned, in_thread=not found.is_async)
    ports = [port for port, _ in returned.ports]
    schema = ActionSchema(
        known,
        doc.description if description is None else description,
        tuple(parameter.port for parameter in parameters if parameter.port is not None),
        tuple(ports),
        tuple(headers),
        {OUTPUT: WHOLE} if returned.is_single and ports[0].kind in _WHOLE_KINDS else {},
        idempotent,
    )

    async def handler(context: Context) -> None:
        await invoke(invocation, context)

    return schema, handler


# A picture is no document, so it has a name in one.
_WHOLE_KINDS = (Kind.TEXT, Kind.JSON)


def _parameter(
    parameter: inspect.Parameter, hint: Any, doc: Docstring, function: Function
) -> Parameter:
    bare, notes = unwrap(hint)
    if unwrap(without_none(hint))[0] is Context:
        return Parameter(parameter.name)
    if parameter.name in ("ctx", "context") and bare in (Any, object):
        raise ValueError(
            f"parameter {parameter.name!r}: write `{parameter.name}: a11_grpc.Context` for the "
            "call's context, or the type that the input has"
        )
    default, required = parameter.default, parameter.default is parameter.empty
    if isinstance(default, FieldInfo):
        notes = [default, *notes]
        hint = Annotated[hint, default]
        required = True
    field = next((note for note in notes if isinstance(note, FieldInfo)), None)
    factory = None
    if required and field is not None and not field.is_required():
        required, default = False, field.get_default(call_default_factory=False)
        if field.default_factory is not None:
            if getattr(field, "default_factory_takes_validated_data", False):
                raise ValueError(f"parameter {parameter.name!r}: its default_factory takes nothing")
            factory = cast("Callable[[], object]", field.default_factory)
            default = factory()
    port_name = (field.alias if field is not None else None) or parameter.name
    stream = streamed(bare)
    alone = without_none(hint)
    notes = [*notes, *unwrap(alone)[1]]
    described = description_of(notes) or doc.parameters.get(parameter.name, "")
    has_no_none = streamed(unwrap(alone)[0]) is not None or is_binary(alone)
    if stream is None and (default is None or (has_no_none and alone is not hint)):
        # None is no value of a stream, or among bytes: nothing is given, then.
        default, required = (None, False) if required else (default, required)
        hint = alone
        bare, _ = unwrap(hint)
        stream = streamed(bare)
    item, is_async = stream or (hint, True)
    if stream is not None:
        item = with_media_type(item, notes)
    if function.is_async and not is_async:
        raise ValueError(
            f"parameter {parameter.name!r}: an async function takes a stream as AsyncIterator[T]"
        )
    type = _type(f"parameter {parameter.name!r}", item, "validation")
    schema = type.json_schema
    if not required and default is not None and stream is None:
        schema = _with_default(schema, type, default)
    port = Port(port_name, type.media_type, described, required, stream is not None, schema)
    return Parameter(parameter.name, port, type, is_async, None if required else default, factory)


def _with_default(
    schema: Mapping[str, Any] | None, type: ValueType, default: object
) -> Mapping[str, Any] | None:
    """The schema with the default in it, where it has a JSON form."""
    if schema is None or "default" in schema:
        return schema
    try:
        written = type.write(default)
        dump_json(written)
    except (ValueError, JsonError):
        return schema
    return {**schema, "default": written}


def _returned(hint: Any, doc: Docstring, function: Function) -> Returned:
    bare, notes = unwrap(hint)
    if function.is_generator:
        kind = "AsyncIterator" if function.is_async else "Iterator"
        if bare is Any:
            hint = bare = (AsyncIterator if function.is_async else Iterator)[Any]
        elif streamed(bare) is None:
            raise ValueError(f"it yields values, and so returns {kind}[T], not {shown(hint)}")
    if bare in (None, type(None), NoReturn, Never):
        return Returned([], is_single=False)
    if any(_is_outputs(part) for part in parts_of(bare)):
        raise ValueError(
            f"{shown(bare)}: an Outputs dataclass is the whole of what is returned, once"
        )
    if inspect.isclass(bare) and issubclass(bare, Outputs):
        if not dataclasses.is_dataclass(bare):
            raise ValueError(f"{bare.__name__} must be a dataclass")
        fields = typing.get_type_hints(bare, include_extras=True)
        names = [field.name for field in dataclasses.fields(bare)]
        ports = [_output(name, fields[name], "") for name in names]
        return Returned(ports, is_single=False, kind=bare)
    described = description_of(notes) or doc.returns
    return Returned([_output(OUTPUT, hint, described)], is_single=True)


def _is_outputs(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, Outputs)


def _output(name: str, hint: Any, described: str) -> tuple[Port, ValueType]:
    bare, notes = unwrap(hint)
    described = description_of(notes) or described
    stream = streamed(bare)
    if stream is not None:
        item = with_media_type(stream[0], notes)
        described = described or description_of(unwrap(item)[1])
        type = _type(f"output {name!r}", item, "serialization")
        return Port(name, type.media_type, described, False, True, type.json_schema), type
    alone = without_none(hint)
    optional = alone is not hint and is_binary(alone)
    type = _type(f"output {name!r}", alone if optional else hint, "serialization")
    return Port(name, type.media_type, described, not optional, False, type.json_schema), type


def _type(what: str, hint: Any, mode: Any) -> ValueType:
    try:
        return ValueType(hint, mode)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
