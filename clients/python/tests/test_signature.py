"""Signatures and docstrings as schemas, without a server."""

from __future__ import annotations

import enum
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from a11_grpc import ActionSchema, Chunk, Context, Header, MediaType, Outputs, Port, Registry


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    city: str
    zip: int | None = None


@dataclass
class Order:
    id: str
    places: list[Place]


class Extra(TypedDict):
    a: int
    b: NotRequired[str]


class Tree(BaseModel):
    children: list[Tree] = []


def schema_of(function: Callable[..., Any], **options: Any) -> ActionSchema:
    registry = Registry()
    registry.action(**options)(function)
    return registry.schemas[0]


def input_of(hint: Any, default: Any = ...) -> Port:
    def action(x) -> None:  # type: ignore[no-untyped-def]
        """Takes x."""

    action.__annotations__["x"] = hint
    if default is not ...:
        action.__defaults__ = (default,)
    return schema_of(action).inputs[0]


def test_types_become_ports() -> None:
    def check(hint: Any, media_type: str, schema: Any, *, stream: bool = False) -> None:
        port = input_of(hint)
        assert (port.media_type, port.json_schema) == (media_type, schema), hint
        assert (port.stream, port.required) == (stream, True), hint

    text, json = "text/plain", "application/json"
    string, integer = {"type": "string"}, {"type": "integer"}
    check(str, text, string)
    check(int, json, integer)
    check(float, json, {"type": "number"})
    check(bool, json, {"type": "boolean"})
    check(Any, json, None)
    check(list[str], json, {"type": "array", "items": string})
    check(dict[str, int], json, {"type": "object", "additionalProperties": integer})
    check(str | int, json, {"anyOf": [string, integer]})
    check(int | None, json, {"anyOf": [integer, {"type": "null"}]})
    check(Literal["a", "b"], text, {"type": "string", "enum": ["a", "b"]})
    check(Literal[1, 2], json, {"type": "integer", "enum": [1, 2]})
    check(datetime, text, {"type": "string", "format": "date-time"})
    check(uuid.UUID, text, {"type": "string", "format": "uuid"})
    check(Annotated[int, Field(ge=1, le=9)], json, {"type": "integer", "minimum": 1, "maximum": 9})
    check(Annotated[str, MediaType("text/markdown")], "text/markdown", string)
    check(bytes, "application/octet-stream", None)
    check(Annotated[bytes, MediaType("image/png")], "image/png", None)
    check(Annotated[Chunk, MediaType("audio/wav")], "audio/wav", None)
    check(AsyncIterator[str], text, string, stream=True)
    check(Annotated[AsyncIterator[int], "numbers"], json, integer, stream=True)
    check(Iterator[Annotated[int, Field(ge=0)]], json, {**integer, "minimum": 0}, stream=True)
    check(Colour, text, {"enum": ["red", "blue"], "title": "Colour", "type": "string"})


def test_structures_have_their_definitions_in_place() -> None:
    place = {
        "properties": {
            "city": {"type": "string"},
            "zip": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["city"],
        "title": "Place",
        "type": "object",
    }
    assert input_of(Place).json_schema == place
    schema = input_of(Order).json_schema
    assert schema is not None
    assert schema["properties"]["places"] == {"items": place, "type": "array"}
    schema = input_of(Extra).json_schema
    assert schema is not None
    assert schema["required"] == ["a"]
    # One that holds itself cannot be written out.
    schema = input_of(Tree).json_schema
    assert schema is not None
    assert "$defs" in schema


def test_defaults_make_inputs_optional() -> None:
    def check(hint: Any, default: Any, schema: Any) -> None:
        port = input_of(hint, default)
        assert (port.required, port.json_schema) == (False, schema)

    check(str, "x", {"type": "string", "default": "x"})
    check(int, 5, {"type": "integer", "default": 5})
    check(str | None, None, {"type": "string"})
    check(int | None, None, {"type": "integer"})
    check(Annotated[int | None, "how many"], None, {"type": "integer"})
    check(Annotated[int, "how many"] | None, None, {"type": "integer"})
    assert input_of(Annotated[int, "how many"] | None, None).description == "how many"
    check(int | None, 3, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 3})
    check(Colour, Colour.RED, {**(input_of(Colour).json_schema or {}), "default": "red"})
    check(AsyncIterator[str] | None, None, {"type": "string"})
    check(int, Field(default=2, description="d"), {"type": "integer", "default": 2})


def test_descriptions_come_from_annotations_and_docstrings() -> None:
    async def google(
        a: Annotated[str, "from the annotation"],
        b: Annotated[int, Field(description="from the field")],
        c: int = 1,
        d: int = 2,
    ) -> Annotated[str, "what it says"]:
        """Does a thing.

        In two paragraphs.

        Args:
            a: not this
            c (int): from the docstring,
                over two lines

        Returns:
            Not this.

        Raises:
            ValueError: Never.
        """
        return ""

    schema = schema_of(google)
    assert schema.description == "Does a thing.\n\nIn two paragraphs."
    assert [port.description for port in schema.inputs] == [
        "from the annotation",
        "from the field",
        "from the docstring, over two lines",
        "",
    ]
    assert schema.outputs[0].description == "what it says"

    def sphinx(a: int) -> int:
        """Does it.

        :param a: from the field list
        :returns: the answer
        """
        return a

    schema = schema_of(sphinx)
    assert schema.description == "Does it."
    assert schema.inputs[0].description == "from the field list"
    assert schema.outputs[0].description == "the answer"


def test_what_is_returned_becomes_outputs() -> None:
    def check(hint: Any, ports: list[tuple[str, str, bool, bool]], whole: bool) -> None:
        async def action() -> None:
            """Gives."""

        action.__annotations__["return"] = hint
        schema = schema_of(action)
        found = [
            (port.name, port.media_type, port.required, port.stream) for port in schema.outputs
        ]
        assert found == ports, hint
        assert schema.output_to_json_field == ({"output": "$"} if whole else {}), hint

    check(None, [], False)
    check(str, [("output", "text/plain", True, False)], True)
    check(Place, [("output", "application/json", True, False)], True)
    check(AsyncIterator[str], [("output", "text/plain", False, True)], True)
    check(AsyncGenerator[int, None], [("output", "application/json", False, True)], True)
    check(Iterator[int], [("output", "application/json", False, True)], True)
    png = Annotated[bytes, MediaType("image/png")]
    check(png, [("output", "image/png", True, False)], False)

    @dataclass
    class Pair(Outputs):
        words: AsyncIterator[str]
        total: Annotated[int, "how many"]

    ports = [("words", "text/plain", False, True), ("total", "application/json", True, False)]
    check(Pair, ports, False)


def test_options_and_the_context_do_not_become_inputs() -> None:
    async def action(ctx: Context, text: str) -> str:
        """Does it."""
        return text

    schema = schema_of(action, name="other", idempotent=True, headers=["X-Tenant", Header("h")])
    assert (schema.name, schema.idempotent) == ("other", True)
    assert [port.name for port in schema.inputs] == ["text"]
    assert [header.name for header in schema.headers] == ["X-Tenant", "h"]
    assert schema_of(action, description="Said apart.").description == "Said apart."


def test_an_alias_names_the_port() -> None:
    async def action(from_: Annotated[str, Field(alias="from")]) -> None:
        """Does it."""

    assert schema_of(action).inputs[0].name == "from"


def test_a_schema_written_by_hand_is_checked() -> None:
    def check(schema: ActionSchema, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            schema.check()

    two = (Port.text("a"), Port.text("a"))
    check(ActionSchema("x", inputs=two), "two ports are named 'a'")
    check(ActionSchema("x", outputs=[Port("a", autofill=1)]), "autofilled")
    check(ActionSchema("x", output_to_json_field={"a": "$"}), "no output")
    pair = (Port.text("a"), Port.text("b"))
    check(ActionSchema("x", outputs=pair, output_to_json_field={"a": "f", "b": "f"}), "one field")
    check(ActionSchema("x", outputs=pair, output_to_json_field={"a": "f", "b": "$"}), "one field")
    check(ActionSchema("x", inputs=[Port.text("-a")]), "not a name")
