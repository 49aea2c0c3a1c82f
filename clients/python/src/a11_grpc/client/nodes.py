"""Reading and writing single nodes, apart from calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from grpc import aio

from a11_grpc._proto.chunk_pb2 import NodeFragment, NodeFragments
from a11_grpc._proto.node_service_pb2 import ReadNodeRequest, WriteNodeRequest, WriteNodeStart
from a11_grpc._proto.node_service_pb2_grpc import NodeServiceStub
from a11_grpc.session.connection import Metadata
from a11_grpc.session.core import cost
from a11_grpc.wire.chunk import JSON
from a11_grpc.wire.names import check_name
from a11_grpc.wire.status import (
    OK,
    Code,
    Reason,
    Status,
    StatusError,
    error_from_grpc,
    status_from_proto,
    status_to_proto,
)
from a11_grpc.wire.values import Decoder, Encoder, UnfitError

BATCH_BYTES = 256 * 1024
"""How much is written before it is made sure of: what is kept to be written again."""
BATCH_FRAGMENTS = 1024
"""The same, in fragments."""
ATTEMPTS = 12
"""How often a connection that breaks is made again, with nothing got over it in between."""
LEAST_PAUSE, MOST_PAUSE = 0.05, 2.0
"""How long to wait before it, in seconds: doubled from the least to the most."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which node: of a session, without one of our own; or of a run."""

    id: str
    session: str = ""
    run: str = ""


class Nodes:
    """The nodes of the service."""

    def __init__(
        self, channel: aio.Channel, metadata: Metadata, own: Callable[[], Awaitable[str]]
    ) -> None:
        self._service = NodeServiceStub(channel)
        self._metadata = tuple(metadata)
        self._own = own

    async def read(self, place: Place, offset: int) -> AsyncGenerator[Any, None]:
        """The values from a place on, as they are written."""
        session = await self._session(place)
        decoder = Decoder(JSON)
        failures = 0
        while True:
            request = ReadNodeRequest(session=session, run=place.run, id=place.id, offset=offset)
            rpc = self._service.ReadNode(request, metadata=self._metadata)
            try:
                async for message in rpc:
                    failures = 0
                    if message.HasField("end"):
                        status_from_proto(message.end).raise_if_failed()
                        return
                    for fragment in message.fragments.fragments:
                        offset = fragment.seq + 1
                        chunk = decoder.chunk(fragment)
                        if chunk is not None:
                            yield decoder.value(chunk)
                error = StatusError(Code.UNAVAILABLE, "the stream ended before the node did")
            except aio.AioRpcError as failure:
                error = error_from_grpc(failure)
            finally:
                rpc.cancel()
            failures = await _again(error, failures)

    def writer(self, place: Place, media_type: str) -> NodeWriter:
        """Writes a node."""
        try:
            check_name(place.id, "node")
        except ValueError as error:
            raise StatusError.of(Reason.INVALID_REQUEST, str(error)) from error
        return NodeWriter(self, place, media_type)

    async def _session(self, place: Place) -> str:
        return "" if place.run else place.session or await self._own()

    async def send(self, place: Place, fragments: list[NodeFragment], close: Status | None) -> None:
        """Writes fragments, until the service has them."""
        start = WriteNodeStart(session=await self._session(place), run=place.run, id=place.id)
        messages = [WriteNodeRequest(start=start)]
        messages.append(WriteNodeRequest(fragments=NodeFragments(fragments=fragments)))
        if close is not None:
            messages.append(WriteNodeRequest(close=status_to_proto(close)))
        failures = 0
        while True:
            try:
                await self._service.WriteNode(iter(messages), metadata=self._metadata)
                return
            except aio.AioRpcError as failure:
                error = error_from_grpc(failure)
                # The close may have arrived before the connection broke.
                if error.reason is Reason.NODE_CLOSED and failures and close is not None:
                    return
            failures = await _again(error, failures)


class NodeWriter:
    """Writes one node, in order. What was written is kept until the service has it."""

    def __init__(self, nodes: Nodes, place: Place, media_type: str) -> None:
        self._nodes = nodes
        self._place = place
        self._id = place.id
        self._encoder = Encoder(place.id, media_type)
        self._waiting: list[NodeFragment] = []
        self._bytes = 0
        self._sending = asyncio.Lock()
        self._flushing: asyncio.Task[None] | None = None
        self._seq = 0
        self._ended = False

    def __repr__(self) -> str:
        return f"<NodeWriter of {self._id!r}, {'ended' if self._ended else 'open'}>"

    async def write(self, value: Any) -> None:
        """Writes a value, by the node's media type, or a `Chunk`.

        It is sent at once, and waited for where much is under way; `flush` waits in any case.

        Raises:
            StatusError: INVALID_ARGUMENT for a value that does not fit; what the service says.
        """
        if self._ended:
            raise StatusError.of(Reason.NODE_CLOSED, f"node {self._id!r} has ended")
        try:
            fragment = self._encoder.fragment(value, final=False)
        except UnfitError as error:
            message = f"node {self._id!r}: {error}"
            raise StatusError.of(Reason.INVALID_INPUT, message) from error
        self._add(fragment)
        if self._bytes >= BATCH_BYTES or len(self._waiting) >= BATCH_FRAGMENTS:
            await self.flush()
        elif self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush_aside())

    async def _flush_aside(self) -> None:
        # Whoever writes on sends it again, and hears of it then.
        with suppress(StatusError):
            while self._waiting:
                await self.flush()

    async def flush(self) -> None:
        """Waits until the service has everything that was written."""
        await self._send(None)

    async def finish(self) -> None:
        """Ends the node."""
        if not self._ended:
            self._ended = True
            self._add(self._encoder.end())
            await self._send(None)

    async def fail(self, status: Status | StatusError = OK) -> None:
        """Fails the node: every reader gets the status; without one it is closed, unfinished."""
        if not self._ended:
            self._ended = True
            await self._send(status.status if isinstance(status, StatusError) else status)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.finish()
        elif isinstance(error, StatusError):
            await self.fail(error)
        else:
            await self.fail(Status(Code.INTERNAL, Reason.HANDLER_FAILED, f"{kind}: {error}"))

    def _add(self, fragment: NodeFragment) -> None:
        fragment.seq = self._seq
        self._seq += 1
        self._bytes += cost(fragment)
        self._waiting.append(fragment)

    async def _send(self, close: Status | None) -> None:
        async with self._sending:
            sent = [*self._waiting]
            if sent or close is not None:
                await self._nodes.send(self._place, sent, close)
                del self._waiting[: len(sent)]
                self._bytes -= sum(map(cost, sent))


async def _again(error: StatusError, failures: int) -> int:
    """Waits before another attempt; raises where none would help."""
    broken = error.code is Code.UNAVAILABLE and error.reason is Reason.UNSPECIFIED
    # What gRPC says of a write that failed, whatever the status that came.
    hidden = error.code is Code.INTERNAL and error.message == "Internal error from Core"
    if not (broken or hidden):
        raise error
    if failures >= ATTEMPTS:
        raise error
    await asyncio.sleep(min(LEAST_PAUSE * 2**failures, MOST_PAUSE))
    return failures + 1
