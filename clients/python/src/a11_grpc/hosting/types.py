"""Python types as ports: media type, JSON Schema, and how values are read and written."""

from __future__ import annotations

import functools
import inspect
import operator
import re
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
from pydantic.errors import (
    PydanticErrorMixin,
    PydanticSchemaGenerationError,
    PydanticUserError,
)
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
        if bare in (bytearray, memoryview):
            raise ValueError(f"{bare.__name__} is no type of an action's: write bytes")
        try:
            self._adapter = TypeAdapter(plain_fields(hint))
            schema = self._adapter.json_schema(mode=mode, schema_generator=_Schema)
        except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
            raise ValueError(f"{shown(hint)} has no JSON form: {_why(hint, error)}") from error
        self.json_schema = _inlined(schema) or None
        if (place := _bytes_in(schema)) is not None:
            raise ValueError(
                f"{shown(hint)} has bytes in it{place}, and JSON has none: make them a port of "
                "their own (`bytes` alone, or `bytes | None`), or write `pydantic.Base64Bytes`"
            )
        is_text = _is_text(self.json_schema)
        self.media_type = media or (TEXT if is_text else JSON)
        if (kind_of(self.media_type) is Kind.TEXT) != is_text:
            raise ValueError(f"{shown(hint)} is no value of {self.media_type}")

    @property
    def is_binary(self) -> bool:
        """Whether its values are bytes or chunks, on which None is no value."""
        return self._adapter is None

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
        if value is None and not self._takes_none:
            raise UnfitValueError(f"expected {shown(self._bare)}, got None")
        try:
            return self._adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise UnfitValueError(_unexpected(str(error))) from error

    @functools.cached_property
    def _takes_none(self) -> bool:
        """Whether None is a value, which pydantic writes whatever the type."""
        try:
            if self._adapter is not None:
                self._adapter.validate_python(None)
        except ValidationError:
            return False
        return True


def shown(hint: Any) -> str:
    """A type as people write it."""
    return hint.__name__ if inspect.isclass(hint) else repr(hint).replace("typing.", "")


def _why(hint: Any, error: Exception) -> str:
    if any(streamed(part) for part in parts_of(hint)):
        return "a stream is the whole of a parameter or a result: AsyncIterator[T], or | None"
    text = error.message if isinstance(error, PydanticErrorMixin) else str(error)
    # What pydantic says further is about its own configuration.
    return text.split("\n")[0].partition(". Set `")[0]


def parts_of(hint: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    for part in typing.get_args(hint):
        yield part
        yield from parts_of(part)


def _bytes_in(schema: Any, place: str = "") -> str | None:
    """Where a schema has bytes that are not said to be base64, ` (.data[])`; None: nowhere."""
    if isinstance(schema, list):
        found = (_bytes_in(part, place) for part in schema)
        return next((where for where in found if where is not None), None)
    if not isinstance(schema, dict):
        return None
    if schema.get("format") == "binary" and schema.get("type") == "string":
        return f" ({place})" if place else ""
    inside: list[tuple[str, Any]] = []
    for key, part in schema.items():
        if key in ("properties", "$defs", "patternProperties"):
            inside += [(f"{place}.{name}", value) for name, value in part.items()]
        elif key in ("items", "prefixItems", "additionalProperties"):
            inside.append((f"{place}[]", part))
        elif key in ("anyOf", "oneOf", "allOf"):
            inside.append((place, part))
    found = (_bytes_in(part, where) for where, part in inside)
    return next((where for where in found if where is not None), None)


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


def is_binary(hint: Any) -> bool:
    """Whether a type is that of bytes of some media type."""
    return unwrap(hint)[0] in (bytes, Chunk)


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
    origin = typing.get_origin(hint) or hint
    arguments = typing.get_args(hint)
    item = arguments[0] if arguments else Any
    if origin in (AsyncIterator, AsyncIterable, AsyncGenerator):
        return item, True
    if origin in (Iterator, Iterable, Generator):
        return item, False
    return None


def with_media_type(item: Any, notes: list[Any]) -> Any:
    """The items of a stream, of the media type that was said of the stream."""
    media = next((note for note in notes if isinstance(note, MediaType)), None)
    return item if media is None else Annotated[item, media]


def without_none(hint: Any) -> Any:
    """`T` out of `T | None`, whatever `Annotated` stands around it."""
    bare, notes = unwrap(hint)
    if typing.get_origin(bare) not in (Union, types.UnionType):
        return hint
    rest = [part for part in typing.get_args(bare) if part is not type(None)]
    if not rest or len(rest) == len(typing.get_args(bare)):
        return hint
    result: Any = functools.reduce(operator.or_, rest)
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


def _unexpected(text: str) -> str:
    """What pydantic says of a value that is none of its type, in one line."""
    found = _UNEXPECTED.search(text) or _UNEXPECTED_BEFORE.search(text)
    return f"expected {found[1]}, got {found[2]}" if found else text.split("\n")[0]


# As pydantic 2.10 has it.
_UNEXPECTED_BEFORE = re.compile(r"Expected `(.*?)` but got `.*?` with value `(.*?)` - ", re.DOTALL)
_UNEXPECTED = re.compile(r"Expected `(.*?)`.*\[input_value=(.*), input_type=", re.DOTALL)


def _faults(error: ValidationError) -> str:
    faults = []
    for fault in error.errors(include_url=False, include_context=False)[:MAX_ERRORS]:
        place = ".".join(str(step) for step in fault["loc"])
        faults.append(f"{place}: {fault['msg']}" if place else fault["msg"])
    more = error.error_count() - len(faults)
    return "; ".join(faults) + (f"; and {more} more" if more > 0 else "")
