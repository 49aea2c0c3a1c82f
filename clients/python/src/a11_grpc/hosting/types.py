"""Python types as ports: media type, JSON Schema, and how values are read and written."""

from __future__ import annotations

import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from typing import Annotated, Any, Union

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import PydanticSerializationError

from a11_grpc.wire.chunk import JSON, OCTETS, TEXT, Chunk, Kind, kind_of
from a11_grpc.wire.json import load_json

MAX_ERRORS = 4
"""How many faults of one value are named."""


@dataclass(frozen=True, slots=True)
class MediaType:
    """In `Annotated[…]`: the media type of a port, such as `MediaType("image/png")`."""

    name: str


class UnfitValueError(ValueError):
    """Why a value is none of a type."""


class ValueType:
    """A type as the media type and the schema of a port."""

    def __init__(self, hint: Any, mode: JsonSchemaMode) -> None:
        """Describes a type.

        Raises:
            ValueError: For a type that is neither of bytes nor known to pydantic.
        """
        bare, notes = unwrap(hint)
        media = next((note.name for note in notes if isinstance(note, MediaType)), None)
        self._bare = bare
        self._adapter: TypeAdapter[Any] | None = None
        self.json_schema: Mapping[str, Any] | None = None
        if bare is bytes or bare is Chunk:
            self.media_type = media or OCTETS
            return
        try:
            self._adapter = TypeAdapter(plain_fields(hint))
            schema = self._adapter.json_schema(mode=mode, schema_generator=_Schema)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise ValueError(f"{hint!r} has no JSON form: {error.message}") from error
        self.json_schema = _inlined(schema) or None
        is_text = _is_text(self.json_schema)
        self.media_type = media or (TEXT if is_text else JSON)
        if (kind_of(self.media_type) is Kind.TEXT) != is_text:
            raise ValueError(f"{hint!r} is no value of {self.media_type}")

    def read(self, chunk: Chunk) -> Any:
        """The value that a chunk stands for.

        Raises:
            UnfitValueError: Names the fields that do not fit.
        """
        if self._bare is Chunk:
            return chunk
        if self._adapter is None:
            return chunk.data
        try:
            if kind_of(chunk.media_type) is not Kind.JSON:
                return self._adapter.validate_python(chunk.data.decode("utf-8"))
            if self._bare in (Any, object):
                return load_json(chunk.data)
            return self._adapter.validate_json(chunk.data)
        except ValidationError as error:
            raise UnfitValueError(_faults(error)) from error
        except ValueError as error:
            raise UnfitValueError(str(error)) from error

    def write(self, value: Any) -> Any:
        """What a value is written as: text, bytes, a chunk, or a JSON value.

        Raises:
            UnfitValueError: Where it is none of the type.
        """
        if self._adapter is None or isinstance(value, Chunk):
            return value
        if self._bare is str and isinstance(value, str):
            return value
        try:
            return self._adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise UnfitValueError(str(error)) from error


def unwrap(hint: Any) -> tuple[Any, list[Any]]:
    """A type without its `Annotated`, and what was said there."""
    notes: list[Any] = []
    while typing.get_origin(hint) is Annotated:
        notes = [*hint.__metadata__, *notes]
        hint = hint.__origin__
    return hint, notes


def plain_fields(hint: Any) -> Any:
    """The type with the constraints of pydantic's `Field` and without its name and default."""
    bare, notes = unwrap(hint)
    result = bare
    for note in notes:
        own = isinstance(note, FieldInfo) and (note.alias is not None or not note.is_required())
        for kept in note.metadata if own else [note]:
            result = Annotated[result, kept]
    return result


def description_of(notes: list[Any]) -> str:
    """What `Annotated` says for people: a text, or pydantic's `Field(description=…)`."""
    for note in notes:
        if isinstance(note, str):
            return note
        if isinstance(note, FieldInfo) and note.description:
            return note.description
    return ""


def streamed(hint: Any) -> tuple[Any, bool] | None:
    """The type of a stream's items, and whether it is an async one; None for no stream."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    item = arguments[0] if arguments else Any
    if origin in (AsyncIterator, AsyncIterable, AsyncGenerator):
        return item, True
    if origin in (Iterator, Iterable, Generator):
        return item, False
    return None


def without_none(hint: Any) -> Any:
    """`T` out of `T | None`, whatever `Annotated` stands around it."""
    bare, notes = unwrap(hint)
    if typing.get_origin(bare) not in (Union, types.UnionType):
        return hint
    rest = [part for part in typing.get_args(bare) if part is not type(None)]
    if not rest or len(rest) == len(typing.get_args(bare)):
        return hint
    result: Any = Union.__getitem__(tuple(rest))
    for note in notes:
        result = Annotated[result, note]
    return result


class _Schema(GenerateJsonSchema):
    """Schemas without the titles that pydantic makes of names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _is_text(schema: Mapping[str, Any] | None) -> bool:
    """Whether every value is a string."""
    if not schema:
        return False
    if "const" in schema:
        return isinstance(schema["const"], str)
    return schema.get("type") == "string"


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its definitions where they are used, unless one uses itself."""
    definitions = schema.get("$defs", {})
    if not definitions:
        return schema

    def inline(part: Any, within: tuple[str, ...]) -> Any:
        if isinstance(part, list):
            return [inline(item, within) for item in part]
        if not isinstance(part, dict):
            return part
        target = part.get("$ref")
        if isinstance(target, str):
            name = target.removeprefix("#/$defs/")
            if name in within:
                raise _RecursiveError
            found = inline(definitions[name], (*within, name))
            rest = {key: inline(value, within) for key, value in part.items() if key != "$ref"}
            return {**found, **rest}
        return {key: inline(value, within) for key, value in part.items() if key != "$defs"}

    try:
        whole: dict[str, Any] = inline(schema, ())
    except (_RecursiveError, KeyError):
        return schema
    return whole


class _RecursiveError(Exception):
    """A definition uses itself."""


def _faults(error: ValidationError) -> str:
    faults = []
    for fault in error.errors(include_url=False, include_context=False)[:MAX_ERRORS]:
        place = ".".join(str(step) for step in fault["loc"])
        faults.append(f"{place}: {fault['msg']}" if place else fault["msg"])
    more = error.error_count() - len(faults)
    return "; ".join(faults) + (f"; and {more} more" if more > 0 else "")
