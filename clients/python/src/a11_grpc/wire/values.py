"""Values of a port and the chunks that carry them.

`application/json` and `*+json` ⇄ JSON values, `text/*` ⇄ `str`, all else ⇄ `Chunk`. A `Chunk` may
be given anywhere, `bytes` where the port is none of text and JSON, and on these two whatever has a
JSON form: models, dates, UUIDs, enums.
"""

from __future__ import annotations

from collections.abc import Iterable

from a11_grpc._proto.chunk_pb2 import Chunk as ChunkMessage
from a11_grpc._proto.chunk_pb2 import ChunkMetadata, NodeFragment
from a11_grpc.wire.chunk import (
    NULL_CHUNK,
    OCTETS,
    Chunk,
    Kind,
    chunk_from_proto,
    chunk_to_proto,
    kind_of,
)
from a11_grpc.wire.json import as_text, dump_json, load_json
from a11_grpc.wire.status import Reason, StatusError

MAX_PIECE_BYTES = 4 << 20
"""How much of a single value shares a fragment: a frame has room for 16 MiB, as a rule."""


class UnfitError(ValueError):
    """Why a value is none of its port's."""


class Encoder:
    """Makes the fragments of one node, in order: the media type is said once."""

    __slots__ = ("_id", "_kind", "_media_type", "_said")

    def __init__(self, id: str, media_type: str) -> None:
        self._id = id
        self._media_type = media_type
        self._kind = kind_of(media_type)
        self._said = ""

    def fragment(self, value: object, *, final: bool) -> NodeFragment:
        """A value as a fragment.

        Raises:
            UnfitError: Where it is none of the port's media type.
        """
        return NodeFragment(id=self._id, chunk=self._chunk(value), continued=not final)

    def whole(self, value: object) -> list[NodeFragment]:
        """The one value of the node, to its end: a fragment, or several where it is large.

        Raises:
            UnfitError: Where it is none of the port's media type.
        """
        whole = self.fragment(value, final=True)
        data = whole.chunk.data
        if len(data) <= MAX_PIECE_BYTES:
            return [whole]
        pieces = []
        at = 0
        while at < len(data):
            end = min(at + MAX_PIECE_BYTES, len(data))
            if self._kind in (Kind.TEXT, Kind.JSON):
                end = _before_letter(data, end)
            piece = NodeFragment(id=self._id, chunk=ChunkMessage(data=data[at:end]))
            piece.continued = end < len(data)
            pieces.append(piece)
            at = end
        pieces[0].chunk.metadata.CopyFrom(whole.chunk.metadata)
        return pieces

    def end(self) -> NodeFragment:
        """The fragment that ends the node and carries no value."""
        return NodeFragment(id=self._id, chunk=NULL_CHUNK, continued=False)

    def _chunk(self, value: object) -> ChunkMessage:
        if isinstance(value, Chunk):
            self._said = value.media_type
            try:
                return chunk_to_proto(value)
            except TypeError as error:
                raise UnfitError(f"a Chunk's data is bytes: {error}") from error
        data = self._bytes(value)
        if self._said == self._media_type:
            return ChunkMessage(data=data)
        self._said = self._media_type
        return ChunkMessage(metadata=ChunkMetadata(media_type=self._media_type), data=data)

    def _bytes(self, value: object) -> bytes:
        kind = self._kind
        if kind is Kind.JSON:
            try:
                return dump_json(value)
            except ValueError as error:
                raise UnfitError(str(error)) from error
        if kind is Kind.TEXT:
            text = as_text(value)
            if text is None:
                raise UnfitError(f"expected text, got {type(value).__name__}")
            try:
                return text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise UnfitError("a lone surrogate has no place in a text") from error
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        raise UnfitError(f"expected bytes or a Chunk, got {type(value).__name__}")


def _before_letter(data: bytes, place: int) -> int:
    """The place before the letter that a place is within; UTF-8 has at most three such bytes."""
    for at in range(place, max(place - 4, 0), -1):
        if at == len(data) or data[at] & 0xC0 != 0x80:
            return at
    return place


class Decoder:
    """Reads the values of one node: a stream's one by one, or all as one value."""

    __slots__ = ("_media_type", "_port_type")

    def __init__(self, media_type: str) -> None:
        self._port_type = media_type
        self._media_type = media_type

    def chunk(self, fragment: NodeFragment) -> Chunk | None:
        """The chunk of a fragment, with its media type; None for one without a value.

        Raises:
            StatusError: UNIMPLEMENTED for one that says which node the value is in.
        """
        if fragment.HasField("node_ref"):
            message = f"the value is in node {fragment.node_ref.id!r}, where nobody goes"
            raise StatusError.of(Reason.UNSUPPORTED, message)
        return self._chunk(fragment.chunk)

    def _chunk(self, message: ChunkMessage) -> Chunk | None:
        said = message.metadata.media_type
        if not said:
            said = self._media_type
        elif said == OCTETS and not message.data and not message.ref:
            return None
        else:
            self._media_type = said
        return chunk_from_proto(message, said)

    def value(self, chunk: Chunk) -> object:
        """What a chunk stands for on this port.

        Raises:
            ValueError: Where its bytes are not what its media type says.
        """
        if chunk.ref is not None:
            return chunk
        kind = kind_of(chunk.media_type)
        if kind is Kind.TEXT:
            return chunk.data.decode("utf-8")
        if kind is Kind.JSON:
            return load_json(chunk.data)
        return chunk

    def joined(self, chunks: Iterable[Chunk]) -> object | None:
        """One value out of all the chunks of a node; None where there is no chunk."""
        parts = list(chunks)
        if not parts:
            return None
        if len(parts) == 1:
            return self.value(parts[0])
        first = parts[0]
        data = b"".join(part.data for part in parts)
        return self.value(Chunk(first.media_type, data, None, first.attributes, first.timestamp))
