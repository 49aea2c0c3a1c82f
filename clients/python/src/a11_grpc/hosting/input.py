"""An input of a call that runs here, as it comes."""

from __future__ import annotations

from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc.schema import Port
from a11_grpc.session.inbox import Inbox
from a11_grpc.session.session import Channel
from a11_grpc.wire.chunk import Chunk
from a11_grpc.wire.status import OK, Reason, Status, StatusError
from a11_grpc.wire.values import Decoder, Encoder


class Input:
    """The node of one input port."""

    __slots__ = ("_channel", "_decoder", "_ended", "_failure", "_inbox", "_is_final", "port")

    def __init__(self, port: Port, channel: Channel) -> None:
        self.port = port
        self._channel = channel
        self._decoder = Decoder(port.media_type)
        self._inbox: Inbox[NodeFragment | Status] = Inbox()
        self._ended = False
        self._is_final = False
        self._failure: StatusError | None = None
        if port.autofill is not None:
            self._fill(port.autofill)

    def _fill(self, value: object) -> None:
        encoder = Encoder(self.port.name, self.port.media_type)
        values = value if self.port.stream and isinstance(value, (list, tuple)) else [value]
        for item in values:
            self._inbox.put(encoder.fragment(item, final=False))
        self._inbox.put(encoder.end())

    def put(self, item: NodeFragment | Status) -> None:
        """A piece came, or the node was closed."""
        if self.port.autofill is None:
            self._inbox.put(item)

    async def next_chunk(self) -> Chunk | None:
        """The next chunk with a value; None at the end.

        Raises:
            StatusError: What the node failed with; NOT_FOUND for a piece that says where its value
                is, where nobody goes.
        """
        while not self._ended:
            item = await self._inbox.take()
            if isinstance(item, Status):
                self._ended = True
                if item is not OK and not item.is_ok:
                    self._failure = StatusError(item)
                break
            self._channel.consume(item)
            if not item.continued:
                self._ended = self._is_final = True
            self._check_here(item)
            chunk = self._decoder.chunk(item)
            if chunk is not None:
                return chunk
        if self._failure is not None:
            raise self._failure
        return None

    def _check_here(self, fragment: NodeFragment) -> None:
        place = ""
        if fragment.HasField("node_ref"):
            place = f"in node {fragment.node_ref.id!r}"
        elif fragment.chunk.ref:
            place = f"at {fragment.chunk.ref!r}"
        if place:
            message = f"input {self.port.name!r}: the value is {place}, which is not held here"
            raise StatusError.of(Reason.UNKNOWN_NODE, message)

    async def whole(self) -> Chunk | None:
        """All of it as one chunk; None where there is no value.

        Raises:
            StatusError: What the node failed with; FAILED_PRECONDITION for a part of a value.
        """
        first = await self.next_chunk()
        if first is None or self._is_final:
            return first
        parts = [first]
        while (chunk := await self.next_chunk()) is not None:
            parts.append(chunk)
        if not self._is_final:
            message = f"input {self.port.name!r} was closed without a final fragment"
            raise StatusError.of(Reason.NOT_FINAL, message)
        if len(parts) == 1:
            return first
        data = b"".join(part.data for part in parts)
        return Chunk(first.media_type, data, None, first.attributes, first.timestamp)

    def value(self, chunk: Chunk) -> object:
        """What a chunk of it stands for.

        Raises:
            StatusError: INVALID_ARGUMENT where its bytes are not what its media type says.
        """
        try:
            return self._decoder.value(chunk)
        except ValueError as error:
            message = f"input {self.port.name!r}: {error}"
            raise StatusError.of(Reason.INVALID_INPUT, message) from error
