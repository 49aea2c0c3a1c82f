"""The service's side of a session by hand, for frames that the real one never sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio

from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc._proto.peer_service_pb2 import (
    CallFrame,
    EndFrame,
    FragmentsFrame,
    Frame,
    OpenedFrame,
    OpenSessionResponse,
)
from a11_grpc._proto.peer_service_pb2_grpc import (
    PeerServiceServicer,
    add_PeerServiceServicer_to_server,
)
from a11_grpc.wire.status import Status, status_from_proto, status_to_proto


class Acceptor(PeerServiceServicer):
    """Calls what the client that attaches hosts, and answers none of its calls."""

    def __init__(self) -> None:
        self.address = ""
        self.refusal: Status | None = None
        """What `open` is answered with."""
        self._stream: Any = None
        self._sent = 0
        self._calls = 0
        self._came: asyncio.Queue[Frame] = asyncio.Queue()

    async def OpenSession(  # type: ignore[override]  # noqa: N802
        self, request_iterator: object, context: Any
    ) -> None:
        self._stream = context
        await context.read()
        if self.refusal is not None:
            await self.end(self.refusal)
            return
        opened = OpenedFrame(session="by_hand", resume_token=b"token")
        await context.write(OpenSessionResponse(frame=Frame(opened=opened)))
        while (message := await context.read()) is not aio.EOF:
            self._came.put_nowait(message.frame)

    async def call(self, frame: CallFrame, inputs: Sequence[NodeFragment]) -> Status:
        """Makes a call and writes its inputs; how it ended."""
        await self.begin(frame, inputs)
        while True:
            came = await self.came("status")
            if came.status.call == frame.call:
                return status_from_proto(came.status.status)

    async def begin(self, frame: CallFrame, inputs: Sequence[NodeFragment] = ()) -> None:
        """The same, without waiting for its end."""
        self._calls += 1
        frame.call = 2 * self._calls
        await self._send(Frame(call=frame))
        if inputs:
            fragments = FragmentsFrame(call=frame.call, fragments=inputs)
            await self._send(Frame(fragments=fragments))

    async def came(self, kind: str) -> Frame:
        """The next frame of a kind; those before it are dropped."""
        async with asyncio.timeout(20):
            while True:
                frame = await self._came.get()
                if frame.WhichOneof("body") == kind:
                    return frame

    async def end(self, status: Status) -> None:
        """Ends the session, and leaves its stream open."""
        end = EndFrame(status=status_to_proto(status))
        await self._stream.write(OpenSessionResponse(frame=Frame(end=end)))

    async def _send(self, frame: Frame) -> None:
        self._sent += 1
        frame.number = self._sent
        await self._stream.write(OpenSessionResponse(frame=frame))


@asynccontextmanager
async def accepting() -> AsyncIterator[Acceptor]:
    """An acceptor for the length of a block."""
    acceptor, server = Acceptor(), aio.server()
    add_PeerServiceServicer_to_server(acceptor, server)
    acceptor.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield acceptor
    finally:
        await server.stop(None)
