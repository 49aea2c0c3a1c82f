"""What an action is: its name, what it takes and what it gives."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from a11_grpc._proto import action_pb2 as pb
from a11_grpc.wire.chunk import JSON, TEXT, Kind, kind_of
from a11_grpc.wire.names import check_name

WHOLE = "$"
"""What an output is mapped to, to be the whole result."""


@dataclass(frozen=True, slots=True)
class Port:
    """One port of an action.

    `json_schema` is the JSON Schema of one value; None: any value of the media type. A `stream`
    port carries any number of values, another exactly one. `required`: an input must be given, an
    output is always written. `autofill` is the value of an input that callers neither see nor
    write; it is for actions hosted here.
    """

    name: str
    media_type: str = JSON
    description: str = ""
    required: bool = False
    stream: bool = False
    json_schema: Mapping[str, Any] | None = None
    autofill: object | None = None

    @classmethod
    def text(
        cls, name: str, description: str = "", *, required: bool = False, stream: bool = False
    ) -> Port:
        """A port of plain text."""
        return cls(name, TEXT, description, required, stream, {"type": "string"})

    @property
    def kind(self) -> Kind:
        """How its values look."""
        return kind_of(self.media_type)


@dataclass(frozen=True, slots=True)
class Header:
    """A header that an action reads beside `x-a11-*` and `x-otel-*`."""

    name: str
    description: str = ""
    default: bytes | None = None


@dataclass(frozen=True, slots=True)
class ActionSchema:
    """A description of one action.

    `output_to_json_field` maps output ports to fields of the result document: empty, every port
    stands under its own name; `{port: "$"}` makes that port the whole result. `runnable`: there is
    a handler for it where it was listed.
    """

    name: str
    description: str = ""
    inputs: Sequence[Port] = ()
    outputs: Sequence[Port] = ()
    headers: Sequence[Header] = ()
    output_to_json_field: Mapping[str, str] = field(default_factory=dict)
    idempotent: bool = False
    runnable: bool = True

    def input(self, name: str) -> Port | None:
        """The input of that name."""
        return next((port for port in self.inputs if port.name == name), None)

    def output(self, name: str) -> Port | None:
        """The output of that name."""
        return next((port for port in self.outputs if port.name == name), None)

    def check(self) -> None:
        """Checks what can be checked here; the service checks the rest.

        Raises:
            ValueError: Names the action and what is wrong with it.
        """
        check_name(self.name, "action")
        for ports in (self.inputs, self.outputs):
            names = [check_name(port.name, f"action {self.name!r}: port") for port in ports]
            for name in names:
                if names.count(name) > 1:
                    raise ValueError(f"action {self.name!r}: two ports are named {name!r}")
        if not isinstance(self.description, str):
            raise ValueError(f"action {self.name!r}: its description is no text")
        for header in self.headers:
            if not isinstance(header.name, str) or not _HEADER.fullmatch(header.name):
                raise ValueError(f"action {self.name!r}: {header.name!r} is no header's name")
        for port in self.outputs:
            if port.autofill is not None:
                raise ValueError(f"action {self.name!r}: output {port.name!r} cannot be autofilled")
        fields = list(self.output_to_json_field.values())
        for output in self.output_to_json_field:
            if self.output(output) is None:
                raise ValueError(f"action {self.name!r}: {output!r} is mapped and no output")
        if len(set(fields)) < len(fields) or (WHOLE in fields and len(fields) > 1):
            raise ValueError(f"action {self.name!r}: two outputs are mapped to one field")


_HEADER = re.compile(r"[0-9A-Za-z_.-]+")


def schema_to_proto(schema: ActionSchema) -> pb.ActionSchema:
    """Writes a schema for publication: inputs that are filled here are left out."""
    return pb.ActionSchema(
        name=schema.name,
        description=schema.description,
        inputs=[_port_to_proto(port) for port in schema.inputs if port.autofill is None],
        outputs=[_port_to_proto(port) for port in schema.outputs],
        headers=[
            pb.HeaderSchema(
                name=header.name.lower(),
                description=header.description,
                default_value=header.default,
            )
            for header in schema.headers
        ],
        output_to_json_field=dict(schema.output_to_json_field),
        idempotent=schema.idempotent,
        runnable=schema.runnable,
    )


def schema_from_proto(message: pb.ActionSchema) -> ActionSchema:
    """Reads a schema."""
    headers = []
    for header in message.headers:
        default = header.default_value if header.HasField("default_value") else None
        headers.append(Header(header.name, header.description, default))
    return ActionSchema(
        message.name,
        message.description,
        tuple(_port_from_proto(port) for port in message.inputs),
        tuple(_port_from_proto(port) for port in message.outputs),
        tuple(headers),
        dict(message.output_to_json_field),
        message.idempotent,
        message.runnable,
    )


def _port_to_proto(port: Port) -> pb.PortSchema:
    text = ""
    if port.json_schema is not None:
        text = json.dumps(port.json_schema, ensure_ascii=False, separators=(",", ":"))
    return pb.PortSchema(
        name=port.name,
        media_type=port.media_type,
        description=port.description,
        required=port.required,
        unary=not port.stream,
        json_schema=text,
    )


def _port_from_proto(message: pb.PortSchema) -> Port:
    return Port(
        message.name,
        message.media_type,
        message.description,
        message.required,
        not message.unary,
        json.loads(message.json_schema) if message.json_schema else None,
    )
