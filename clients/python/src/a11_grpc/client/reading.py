"""An output of a call as it comes: fragments in, values out."""

from __future__ import annotations

from collections import deque

from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc.client.events import Event, Output
from a11_grpc.schema import Port
from a11_grpc.wire.chunk import Chunk
from a11_grpc.wire.values import Decoder


class Reading:
    """The values of one output: a stream's one by one, another's once it is whole."""

    __slots__ = ("_decoder", "_ended", "_parts", "name", "stream")

    def __init__(self, port: Port) -> None:
        self.name = port.name
        self.stream = port.stream
        self._decoder = Decoder(port.media_type)
        self._parts: list[Chunk] = []
        self._ended = False

    def add(self, fragment: NodeFragment, events: deque[Event]) -> None:
        """Takes a piece; values go to `events`.

        Raises:
            ValueError: Where its bytes are not what its media type says.
            StatusError: UNIMPLEMENTED where it says which node they are in.
        """
        chunk = self._decoder.chunk(fragment)
        if chunk is not None:
            if self.stream:
                events.append(Output(self.name, self._decoder.value(chunk)))
            else:
                self._parts.append(chunk)
        if not fragment.continued:
            self.close(events)

    def close(self, events: deque[Event]) -> None:
        """Nothing more comes; raises as `add`."""
        if self._ended:
            return
        self._ended = True
        if self._parts:
            parts, self._parts = self._parts, []
            events.append(Output(self.name, self._decoder.joined(parts)))
