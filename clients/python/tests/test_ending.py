"""Sessions that the service ends: what ran is over at once, and waits for no grace period."""

from __future__ import annotations

import asyncio
import signal

import pytest
from support.acceptor import Acceptor, accepting
from support.proxy import proxying
from support.server import serving

import a11_grpc
from a11_grpc import ActionSchema, Client, Code, Context, Reason, Registry, Status, StatusError
from a11_grpc._proto.peer_service_pb2 import CallFrame
from a11_grpc.client.call import Call
from a11_grpc.session.core import NewCall

SHUTTING_DOWN = Status.of(Reason.SHUTTING_DOWN, "the service is shutting down")
LOST = "the session ended: the service is shutting down"
AT_ONCE = 10.0
"""Far below the grace period of 60 s, whatever else the machine does, in seconds."""


async def under_way(client: Client, acceptor: Acceptor) -> Call:
    """A call that the service has got and does not answer."""
    session = await client._parts.keeper.session()
    call = Call(session, ActionSchema("never"), NewCall("never", "c"))
    await acceptor.came("call")
    return call


async def is_lost(call: Call, message: str) -> None:
    async with asyncio.timeout(AT_ONCE):
        with pytest.raises(StatusError) as caught:
            await call.result()
    status = caught.value.status
    assert (status.code, status.reason) == (Code.UNAVAILABLE, Reason.PEER_LOST)
    assert status.message == message


async def test_an_end_frame_ends_the_calls_of_both_sides_at_once() -> None:
    began, stopped = asyncio.Event(), asyncio.Event()
    registry = Registry()

    async def wait(_: Context) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    registry.register(ActionSchema("wait"), wait)
    async with (
        accepting() as acceptor,
        a11_grpc.connect(acceptor.address, registry=registry) as client,
    ):
        call = await under_way(client, acceptor)
        await acceptor.begin(CallFrame(id="h", action="wait", only_listed_inputs=True))
        async with asyncio.timeout(AT_ONCE):
            await began.wait()
            acceptor.refusal = SHUTTING_DOWN
            # The stream stays as it is: nothing waits for its end.
            await acceptor.end(SHUTTING_DOWN)
            await stopped.wait()
        await is_lost(call, LOST)
        assert client.session_id is None


async def test_a_session_is_not_resumed_with_a_service_that_is_shutting_down() -> None:
    """Its connection broke before the end of the session could be told."""
    async with accepting() as acceptor:
        port = int(acceptor.address.rpartition(":")[2])
        async with proxying(port) as proxy, a11_grpc.connect(proxy.address) as client:
            call = await under_way(client, acceptor)
            acceptor.refusal = SHUTTING_DOWN
            assert proxy.cut() > 0
            await is_lost(call, SHUTTING_DOWN.message)
            assert client.session_id is None


async def test_a_service_that_stops_ends_the_sessions_of_callers_and_hosts() -> None:
    registry = Registry()

    @registry.action
    async def nothing() -> None: ...

    async with (
        serving() as server,
        a11_grpc.connect(server.address, registry=registry) as host,
        a11_grpc.connect(server.address) as caller,
        asyncio.timeout(AT_ONCE),
    ):
        await caller.call("nothing")
        sessions = [client._parts.keeper.current for client in (caller, host)]
        server.process.send_signal(signal.SIGTERM)
        for session in sessions:
            assert session is not None
            await session.over.wait()
            assert session.core.ending == SHUTTING_DOWN
        assert await server.process.wait() == 0


async def test_calls_that_outlive_the_shutdown_time_end_unavailable_when_it_is_up() -> None:
    began = asyncio.Event()
    registry = Registry()

    @registry.action
    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    async with (
        serving(["--shutdown-timeout", "1s"]) as server,
        a11_grpc.connect(server.address, registry=registry),
        a11_grpc.connect(server.address) as caller,
    ):
        call = await caller.start("endless")
        await began.wait()
        server.process.send_signal(signal.SIGTERM)
        await is_lost(call, LOST)


async def test_a_service_that_stops_lets_calls_end_and_then_the_session() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    registry = Registry()

    @registry.action
    async def patient() -> str:
        began.set()
        await go_on.wait()
        return "done"

    async with (
        serving() as server,
        a11_grpc.connect(server.address, registry=registry) as host,
        a11_grpc.connect(server.address) as caller,
        asyncio.timeout(AT_ONCE),
    ):
        call = asyncio.ensure_future(caller.call("patient"))
        await began.wait()
        sessions = [client._parts.keeper.current for client in (caller, host)]
        server.process.send_signal(signal.SIGTERM)
        go_on.set()
        assert await call == "done"
        for session in sessions:
            assert session is not None
            await session.over.wait()
            assert session.core.ending == SHUTTING_DOWN
        assert await server.process.wait() == 0
