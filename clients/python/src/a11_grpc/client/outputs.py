"""The outputs of a call of a turn, as the value they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc.schema import WHOLE, ActionSchema, Port
from a11_grpc.wire.chunk import OCTETS, Chunk
from a11_grpc.wire.values import Decoder

WHOLE_ID = "_"
"""The fragment id of a port that is the whole result."""


class FieldReader:
    """The fragments of one field of a result, in order."""

    def __init__(self) -> None:
        self._decoder = Decoder(OCTETS)
        self.chunks: list[Chunk] = []
        self.had_end = False

    def add(self, fragment: NodeFragment) -> bool:
        """Adds a fragment; whether it carries a value."""
        if fragment.HasField("node_ref"):
            # The service ends its call with UNKNOWN_NODE.
            return False
        chunk = self._decoder.chunk(fragment)
        if chunk is None:
            self.had_end = True
            return False
        self.chunks.append(chunk)
        return True

    def latest(self) -> Any:
        """The value of the latest chunk; the chunk itself where it is only a part of one."""
        chunk = self.chunks[-1]
        try:
            return self._decoder.value(chunk)
        except ValueError:
            return chunk

    def value(self, port: Port | None) -> Any:
        """The value of the field; a list for a stream."""
        is_stream = port.stream if port else self.had_end or len(self.chunks) > 1
        if is_stream:
            return [self._decoder.value(chunk) for chunk in self.chunks]
        return self._decoder.joined(self.chunks)


def result_outputs(
    fragments: Iterable[NodeFragment], schema: ActionSchema | None
) -> dict[str, Any]:
    """The outputs in a result, by name; by field, where the schema is not known."""
    readers: dict[str, FieldReader] = {}
    for fragment in fragments:
        readers.setdefault(fragment.id, FieldReader()).add(fragment)
    ports = _ports(schema) if schema is not None else {}
    outputs: dict[str, Any] = {}
    for field, port in ports.items():
        reader = readers.pop(field, None)
        if reader is not None:
            outputs[port.name] = reader.value(port)
        else:
            outputs[port.name] = [] if port.stream else None
    outputs.update({field: reader.value(None) for field, reader in readers.items()})
    return outputs


def result_value(outputs: Mapping[str, Any], schema: ActionSchema | None) -> Any:
    """What `Client.call` answers for these outputs."""
    if schema is None:
        return next(iter(outputs.values())) if len(outputs) == 1 else dict(outputs) or None
    whole = next((name for name, to in schema.output_to_json_field.items() if to == WHOLE), None)
    if whole is not None or len(schema.outputs) == 1:
        return outputs.get(schema.outputs[0].name if whole is None else whole)
    return dict(outputs) or None


def _ports(schema: ActionSchema) -> dict[str, Port]:
    """Field → the port whose values stand there."""
    mapping = schema.output_to_json_field
    if not mapping:
        return {port.name: port for port in schema.outputs}
    fields = {}
    for port in schema.outputs:
        field = mapping.get(port.name)
        if field is not None:
            fields[WHOLE_ID if field == WHOLE else field] = port
    return fields
