"""What is an argument and what is as good as none."""

from __future__ import annotations

from typing import Any

from a11_grpc import ActionSchema, Port
from a11_grpc.client.arguments import given_arguments


def test_none_is_a_value_where_the_schema_has_null_and_no_argument_elsewhere() -> None:
    def check(schema: Any, expected: bool) -> None:
        action = ActionSchema("a", inputs=[Port("x", json_schema=schema)])
        given = given_arguments(action, {"x": None}, are_all=True)
        assert given == ({"x": None} if expected else {}), schema

    schema: Any
    for schema in (
        None,
        {},
        True,
        {"description": "Anything."},
        {"type": "null"},
        {"type": ["integer", "null"]},
        {"enum": [1, None]},
        {"const": None},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        {"not": {"type": "integer"}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": ["object", "null"]}}},
    ):
        check(schema, True)
    for schema in (
        False,
        {"type": "integer"},
        {"type": ["integer", "string"]},
        {"enum": [1]},
        {"const": 1},
        {"anyOf": [{"type": "integer"}, {"const": "a"}], "description": "Either."},
        {"allOf": [{}, {"type": "object"}]},
        {"not": {}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
        {"$ref": "https://example.com/a"},
    ):
        check(schema, False)
