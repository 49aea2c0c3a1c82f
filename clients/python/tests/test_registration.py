"""What is refused when it is registered, rather than when it is called."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import pytest
from pydantic import Base64Bytes, BaseModel
from typing_extensions import TypedDict

from a11_grpc import ActionSchema, Chunk, Context, MediaType, Outputs, Registry

T = TypeVar("T")


class Model(BaseModel):
    data: bytes


@dataclass
class Data:
    name: str
    data: bytes | None = None


class Typed(TypedDict):
    data: list[bytes]


class Encoded(BaseModel):
    data: Base64Bytes


class Box(BaseModel, Generic[T]):
    item: T


class Thing:
    """A thing that is called."""

    def method(self, x: int) -> int:
        return x

    @classmethod
    def of(cls, x: int) -> int:
        return x

    @staticmethod
    def alone(x: int) -> int:
        return x

    def __call__(self, x: int) -> int:
        return x


def schema_of(function: object, **options: Any) -> ActionSchema:
    registry = Registry()
    registry.action(**options)(function)  # type: ignore[type-var]
    return registry.schemas[0]


def refused(function: object, *expected: str, **options: Any) -> None:
    with pytest.raises(ValueError, match="action '") as caught:
        schema_of(function, **options)
    for text in expected:
        assert text in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def takes(hint: Any) -> Callable[..., Any]:
    def action(x) -> None:  # type: ignore[no-untyped-def]
        """Takes x."""

    action.__annotations__["x"] = hint
    return action


def gives(hint: Any) -> Callable[..., Any]:
    def action() -> None:
        """Gives."""

    action.__annotations__["return"] = hint
    return action


def test_bytes_in_a_document_are_refused_and_told_where_they_belong() -> None:
    hint = "Base64Bytes"
    refused(takes(list[bytes]), "action 'action'", "parameter 'x'", "list[bytes]", hint)
    refused(takes(dict[str, bytes]), hint)
    refused(takes(Model), "Model", "(.data)", hint)
    refused(takes(Data), "(.data)", hint)
    refused(takes(Typed), "(.data[])", hint)
    refused(takes(list[Chunk]), hint)
    refused(takes(bytes | str), hint)
    refused(takes(Box[bytes]), "(.item)", hint)
    refused(takes(AsyncIterator[bytes | None]), hint)
    refused(gives(list[bytes]), "output 'output'", hint)
    refused(gives(AsyncIterator[Model]), "output 'output'", "(.data)", hint)
    refused(takes(bytearray), "write bytes")
    port = schema_of(takes(Encoded)).inputs[0]
    assert (port.json_schema or {})["properties"]["data"]["format"] == "base64"


def test_bytes_that_may_be_absent_are_an_optional_port() -> None:
    for hint in (bytes | None, Chunk | None, Annotated[bytes, MediaType("image/png")] | None):
        for port in (schema_of(takes(hint)).inputs[0], schema_of(gives(hint)).outputs[0]):
            assert not port.required
            assert port.json_schema is None
            assert port.media_type in ("application/octet-stream", "image/png")
    assert not schema_of(takes(AsyncIterator[int] | None)).inputs[0].required


def test_the_context_must_be_said_to_be_it() -> None:
    async def bare(ctx, x: int) -> None: ...  # type: ignore[no-untyped-def]
    async def anything(context: Any) -> None: ...
    async def right(ctx: Context | None, context: str) -> None: ...

    refused(bare, "parameter 'ctx'", "`ctx: a11_grpc.Context`")
    refused(anything, "parameter 'context'", "`context: a11_grpc.Context`")
    assert [port.name for port in schema_of(right).inputs] == ["context"]


def test_what_is_no_function_is_refused_and_what_is_like_one_is_not() -> None:
    refused(Thing, "action 'Thing'", "a class is no action")
    refused(Model, "a class is no action")
    refused(Thing.method, "parameter 'self'", "registry.action(thing.method)")
    refused(Thing.__dict__["of"], "registered bound")
    refused(property(lambda _: 1), "a property is no function", name="p")
    refused(5, "int", name="five")
    refused(lambda x: x, "it has no name")
    refused(Thing(), "it has no name")
    refused(len, "positional-only")
    refused(print, "'*args'")
    for function in (Thing().method, Thing.of, Thing.alone, Thing.__dict__["alone"]):
        assert [port.name for port in schema_of(function).inputs] == ["x"]
    thing = schema_of(Thing(), name="thing")
    assert thing.description == "A thing that is called."
    assert thing.inputs[0].json_schema == {"type": "integer"}
    half = schema_of(functools.partial(add, b=2))
    assert (half.name, half.description) == ("add", "Adds.")
    assert [(port.name, port.required) for port in half.inputs] == [("a", True), ("b", False)]
    assert schema_of(lambda x: x, name="same").inputs[0].json_schema is None


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def test_parameters_without_a_name_are_refused() -> None:
    def rest(*texts: str) -> None: ...
    def options(**options: str) -> None: ...
    def position(x: int, /) -> None: ...

    refused(rest, "action 'rest'", "'*texts'", "a list or a dict")
    refused(options, "'**options'")
    refused(position, "parameter 'x'", "leave the / away")


def test_annotations_that_cannot_be_read_or_said_in_json_are_named() -> None:
    def unknown(a: int, x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def result() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821
    async def blocking(x: Iterator[int]) -> None: ...
    async def yields(x: int) -> int:  # type: ignore[misc]
        yield x

    def quiet() -> None:  # type: ignore[misc]
        yield 1

    refused(unknown, "parameter 'x'", "'Nowhere'", "when the function is registered")
    refused(result, "what it returns", "'Nowhere'")
    refused(takes(Callable[[], int]), "parameter 'x'", "no JSON form")
    refused(takes(Annotated[int, MediaType("text/plain")]), "no value of text/plain")
    refused(blocking, "parameter 'x'", "AsyncIterator[T]")
    refused(takes(list[AsyncIterator[int]]), "parameter 'x'", "the whole of a parameter")
    refused(yields, "AsyncIterator[T], not int")
    refused(quiet, "Iterator[T], not NoneType")


def test_what_is_said_of_a_stream_holds_for_its_values() -> None:
    png = MediaType("image/png")
    outside = Annotated[AsyncIterator[bytes], png, "Pictures."]
    inside = AsyncIterator[Annotated[bytes, png]]
    for hint in (outside, inside, outside | None):
        assert schema_of(takes(hint)).inputs[0].media_type == "image/png"
    for hint in (outside, inside):
        assert schema_of(gives(hint)).outputs[0].media_type == "image/png"


def test_several_outputs_are_returned_alone() -> None:
    @dataclass
    class Two(Outputs):
        a: int
        b: int

    assert len(schema_of(gives(Two)).outputs) == 2
    refused(gives(Two | None), "the whole of what is returned")
    refused(gives(AsyncIterator[Two]), "the whole of what is returned")


def test_a_generator_without_a_return_annotation_is_a_stream() -> None:
    async def later():  # type: ignore[no-untyped-def]
        yield 1

    def soon():  # type: ignore[no-untyped-def]
        yield 1

    for function in (later, soon):
        assert [port.stream for port in schema_of(function).outputs] == [True]


def test_names_are_checked() -> None:
    def fine(x: int) -> None: ...

    wrong: Any = "fine"
    with pytest.raises(ValueError, match=r"registry\.action\(name='fine'\)"):
        Registry().action(wrong)
    assert [header.name for header in schema_of(fine, headers="X-Tenant").headers] == ["X-Tenant"]
    refused(fine, "'a b' is no header's name", headers=["a b"])
    refused(fine, "5 is no header's name", headers=[5])
    refused(fine, "'5' is not a name", name=5)

    refused(fine, "not a name", name="a b")
    refused(fine, "reserved", name="__list_actions")
    registry = Registry()
    registry.action(fine)
    with pytest.raises(ValueError, match="registered already"):
        registry.action(fine)
