"""Moves the frames of a session over one gRPC stream, and makes such a stream."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import Any

import grpc
from grpc import aio

from a11_grpc._proto.peer_service_pb2 import (
    Frame,
    OpenedFrame,
    OpenFrame,
    OpenSessionRequest,
    OpenSessionResponse,
)
from a11_grpc.session.session import Session, now
from a11_grpc.wire.status import Code, Reason, StatusError, error_from_grpc, status_from_proto

log = logging.getLogger("a11_grpc.session")

Metadata = Sequence[tuple[str, str | bytes]]
"""Request metadata: lower-case names and their values."""

OPEN_TIMEOUT = 10.0
"""How long the service may take to answer `open`, in seconds."""
FAREWELL = 2.0
"""How long the other side may take to hear that the session is over, in seconds."""

_METHOD = "/a11.v1.PeerService/OpenSession"
_connections = itertools.count(1)

Stream = Any  # grpc.aio.StreamStreamCall[OpenSessionRequest, OpenSessionResponse]


class Dialled:
    """A stream whose opening exchange is over."""

    def __init__(self, stream: Stream, opened: OpenedFrame) -> None:
        self.stream = stream
        self.opened = opened


async def dial(channel: aio.Channel, open: OpenFrame, metadata: Metadata) -> Dialled:
    """Opens or resumes a session.

    Raises:
        StatusError: What the service refuses it with; UNAVAILABLE where it cannot be reached.
    """
    method = channel.stream_stream(
        _METHOD,
        request_serializer=OpenSessionRequest.SerializeToString,
        response_deserializer=OpenSessionResponse.FromString,
    )
    stream: Stream = method(metadata=tuple(metadata))
    try:
        async with asyncio.timeout(OPEN_TIMEOUT):
            await stream.write(OpenSessionRequest(frame=Frame(open=open)))
            answer = await stream.read()
    except TimeoutError as error:
        stream.cancel()
        raise StatusError(Code.UNAVAILABLE, "the service did not answer `open`") from error
    except aio.AioRpcError as error:
        raise error_from_grpc(error) from error
    except asyncio.InvalidStateError as error:
        raise StatusError(Code.UNAVAILABLE, "the stream ended before `opened`") from error
    except BaseException:
        stream.cancel()
        raise
    if answer is aio.EOF:
        raise StatusError(Code.UNAVAILABLE, "the stream ended before `opened`")
    if answer.frame.WhichOneof("body") == "opened":
        return Dialled(stream, answer.frame.opened)
    stream.cancel()
    if answer.frame.WhichOneof("body") == "end":
        raise StatusError(status_from_proto(answer.frame.end.status))
    raise StatusError.of(Reason.INVALID_FRAME, "the first frame of the service is not `opened`")


async def run(session: Session, dialled: Dialled) -> None:
    """Runs a connection of a session until it breaks, or the session ends.

    Reading never waits for writing: a peer that does not read holds up what is sent to it and
    nothing else.
    """
    connection = next(_connections)
    stream = dialled.stream
    session.core.attach(connection, dialled.opened.received, now())
    session.changed()
    reading = asyncio.ensure_future(_read(session, connection, stream))
    writing = asyncio.ensure_future(_write(session, connection, stream))
    tasks = (reading, writing)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        session.core.detach(connection, now())
        if session.core.is_over and not reading.done():
            # Letting go of both directions at once would take the end back.
            await asyncio.wait((reading,), timeout=FAREWELL)
    finally:
        for task in tasks:
            task.cancel()
        stream.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        session.core.detach(connection, now())
        session.changed()
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("session %s: the connection failed", session.id, exc_info=error)


async def _read(session: Session, connection: int, stream: Stream) -> None:
    try:
        while (message := await stream.read()) is not aio.EOF:
            session.handle_frame(connection, message.frame)
            if not session.core.is_attached(connection) and not session.core.is_over:
                return
    except (aio.AioRpcError, asyncio.InvalidStateError) as error:
        log.debug("session %s: the connection broke: %s", session.id, error)


async def _write(session: Session, connection: int, stream: Stream) -> None:
    try:
        while session.core.is_attached(connection):
            frame = session.poll_frame(connection)
            if frame is not None:
                await stream.write(OpenSessionRequest(frame=frame))
            elif session.core.is_closed:
                await stream.done_writing()
                return
            else:
                session.still()
                await session.pulse()
    except (aio.AioRpcError, asyncio.InvalidStateError, grpc.RpcError) as error:
        log.debug("session %s: the connection broke: %s", session.id, error)
