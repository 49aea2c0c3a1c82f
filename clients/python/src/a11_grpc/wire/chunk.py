"""Chunks: bytes of a media type, or the name of a place where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from a11_grpc._proto import chunk_pb2

TEXT = "text/plain"
"""The media type of plain text."""
JSON = "application/json"
"""The media type of JSON."""
OCTETS = "application/octet-stream"
"""The media type of bytes that nothing more is known about."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes and what they are; with `ref`, the place where the bytes are instead."""

    media_type: str
    data: bytes = b""
    ref: str | None = None
    attributes: Mapping[str, bytes] = field(default_factory=dict)
    timestamp: datetime | None = None

    @property
    def is_null(self) -> bool:
        """Whether it carries no value: `application/octet-stream` without bytes."""
        return self.media_type == OCTETS and not self.data and self.ref is None

    @property
    def text(self) -> str:
        """The bytes as text.

        Raises:
            UnicodeDecodeError: Where they are no UTF-8.
        """
        return self.data.decode("utf-8")

    def __repr__(self) -> str:
        what = f"ref={self.ref!r}" if self.ref is not None else f"{len(self.data)} bytes"
        return f"Chunk({self.media_type!r}, {what})"


class Kind(Enum):
    """How the bytes of a media type are shown as a value."""

    TEXT = "text"
    """`text/*`: a string."""
    JSON = "json"
    """`application/json` and `*+json`: the value itself."""
    MEDIA = "media"
    """`image/*` and `audio/*`: a chunk."""
    BYTES = "bytes"
    """Anything else: a chunk."""


def kind_of(media_type: str) -> Kind:
    """The kind of a media type."""
    kind = _KINDS.get(media_type)
    return _kind_of(media_type) if kind is None else kind


def _kind_of(media_type: str) -> Kind:
    essence = media_type.split(";")[0].strip().lower()
    top, _, subtype = essence.partition("/")
    if top == "text":
        return Kind.TEXT
    if top in ("image", "audio"):
        return Kind.MEDIA
    if subtype == "json" or subtype.endswith("+json"):
        return Kind.JSON
    return Kind.BYTES


_KINDS = {TEXT: Kind.TEXT, JSON: Kind.JSON, OCTETS: Kind.BYTES}


def chunk_to_proto(chunk: Chunk) -> chunk_pb2.Chunk:
    """Writes a chunk."""
    if not chunk.attributes and chunk.timestamp is None and chunk.ref is None:
        metadata = chunk_pb2.ChunkMetadata(media_type=chunk.media_type)
        return chunk_pb2.Chunk(metadata=metadata, data=chunk.data)
    message = chunk_pb2.Chunk()
    message.metadata.media_type = chunk.media_type
    if chunk.timestamp is not None:
        message.metadata.timestamp.FromDatetime(chunk.timestamp)
    for name, value in chunk.attributes.items():
        message.metadata.attributes[name] = value
    if chunk.ref is not None:
        message.ref = chunk.ref
    else:
        message.data = chunk.data
    return message


def chunk_from_proto(message: chunk_pb2.Chunk, media_type: str = OCTETS) -> Chunk:
    """Reads a chunk, whose media type is `media_type` where it says none."""
    if not message.HasField("metadata"):
        return Chunk(media_type, message.data, message.ref or None)
    metadata = message.metadata
    timestamp = None
    if metadata.HasField("timestamp"):
        timestamp = metadata.timestamp.ToDatetime(tzinfo=UTC)
    return Chunk(
        metadata.media_type or media_type,
        message.data,
        message.ref or None,
        dict(metadata.attributes) if metadata.attributes else {},
        timestamp,
    )


NULL_CHUNK = chunk_pb2.Chunk(metadata=chunk_pb2.ChunkMetadata(media_type=OCTETS), data=b"")
"""The chunk that carries no value; not to be changed."""
