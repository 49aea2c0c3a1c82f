"""Sessions over connections that break, and services that go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from support.proxy import Proxy, proxying
from support.server import Server, serving

import a11_grpc
from a11_grpc import Client, Code, Reason, Registry, StatusError

CUTS = 100


async def echo(values: AsyncIterator[int]) -> AsyncIterator[int]:
    """What comes."""
    async for value in values:
        yield value


def registry_of(name: str) -> Registry:
    registry = Registry()
    registry.action(name=name)(echo)
    return registry


class Echoing:
    """A call that streams both ways, a fragment after the other, until it is told to stop."""

    def __init__(self, client: Client, action: str) -> None:
        self.client = client
        self.action = action
        self.sent = 0
        self.received: list[int] = []
        self.stop = False
        self._progress = asyncio.Event()

    async def numbers(self) -> AsyncIterator[int]:
        while not self.stop:
            yield self.sent
            self.sent += 1
            # Some way ahead of what comes back, so that both directions are busy.
            while self.sent - len(self.received) > 50 and not self.stop:
                self._progress.clear()
                await self._progress.wait()

    async def run(self) -> None:
        async for value in self.client.stream(self.action, values=self.numbers()):
            self.received.append(value)
            self._progress.set()

    async def progress(self, count: int) -> None:
        """Waits until so many more have come back."""
        goal = len(self.received) + count
        while len(self.received) < goal:
            self._progress.clear()
            await self._progress.wait()

    def end(self) -> None:
        self.stop = True
        self._progress.set()


async def test_a_hundred_cuts_lose_and_repeat_nothing(server: Server) -> None:
    """Both the caller's and the host's connection are cut, while calls stream both ways."""
    async with (
        proxying(server.port) as calling,
        proxying(server.port) as hosting,
        a11_grpc.connect(hosting.address, registry=registry_of("r_echo")) as host,
        a11_grpc.connect(calling.address) as caller,
    ):
        streams = [Echoing(caller, "r_echo") for _ in range(3)]
        streams.append(Echoing(host, "r_echo"))
        async with asyncio.timeout(90), asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(stream.run())
            cuts = 0
            while cuts < CUTS:
                await asyncio.gather(*(stream.progress(2) for stream in streams))
                proxy: Proxy = (calling, hosting)[cuts % 2]
                assert proxy.cut() > 0
                cuts += 1
            await asyncio.gather(*(stream.progress(2) for stream in streams))
            for stream in streams:
                stream.end()
        for stream in streams:
            assert stream.received == list(range(stream.sent))
        assert calling.accepted > CUTS // 4
        sessions = (host.session_id, caller.session_id)
        assert None not in sessions


async def test_a_session_goes_on_under_its_id(server: Server) -> None:
    async with (
        proxying(server.port) as proxy,
        a11_grpc.connect(proxy.address, registry=registry_of("r_same")) as client,
    ):
        session = client.session_id
        assert await client.call("r_same", values=[1]) == [1]
        proxy.cut()
        assert await client.call("r_same", values=[2]) == [2]
        assert client.session_id == session


async def test_a_service_that_was_started_anew_gets_a_new_session() -> None:
    async with serving() as first:
        port = first.port
        client = await a11_grpc.connect(first.address, registry=registry_of("r_anew"))
        assert await client.call("r_anew", values=[1]) == [1]
        session = client.session_id
        call = await client.start("r_anew")
    async with client, asyncio.timeout(60), serving(port=port) as second:
        assert second.port == port
        with pytest.raises(StatusError) as caught:
            await call.result()
        assert (caught.value.code, caught.value.reason) == (
            Code.UNAVAILABLE,
            Reason.PEER_LOST,
        )
        # What is hosted is published again by itself.
        async with a11_grpc.connect(second.address) as other:
            while not await other.actions("r_anew"):
                await asyncio.sleep(0.01)
            assert await other.call("r_anew", values=[2]) == [2]
        assert client.session_id != session


async def test_without_anything_hosted_a_new_session_is_opened_at_the_next_call() -> None:
    async with serving() as first:
        port = first.port
        client = await a11_grpc.connect(first.address)
        assert client.session_id is None
        await client.open_session()
    async with client, asyncio.timeout(60):
        with pytest.raises(StatusError) as caught:
            await client.call("http_fetch", url="x")
        assert caught.value.code is Code.UNAVAILABLE
        async with serving(port=port):
            while True:
                try:
                    await client.call("http_fetch", url="not a url")
                except StatusError as error:
                    if error.code is not Code.UNAVAILABLE:
                        break
                await asyncio.sleep(0.01)


async def test_an_address_where_nobody_answers_is_named_with_the_cause() -> None:
    async with proxying(1) as proxy:
        address = proxy.address
    with pytest.raises(a11_grpc.ConnectError) as caught:
        await a11_grpc.connect(address)
    assert caught.value.code is Code.UNAVAILABLE
    assert f"cannot reach the server at http://{address}" in caught.value.message
    assert "refused" in caught.value.message.lower()


async def test_addresses_are_read_in_three_forms_and_nothing_else() -> None:
    from a11_grpc.client.address import Address

    def check(url: str, expected: str) -> None:
        assert Address(url).url == expected, url

    check("127.0.0.1:50051", "http://127.0.0.1:50051")
    check("[::1]:50051", "http://[::1]:50051")
    check(" http://tools.example:8080/ ", "http://tools.example:8080")
    check("https://tools.example", "https://tools.example:443")
    check("http://localhost", "http://localhost:80")
    for url in [
        "",
        "localhost",
        "ftp://x:1",
        "http://x:1/path",
        "http://u:p@x:1",
        "http://x:99999",
    ]:
        with pytest.raises(a11_grpc.ConnectError) as caught:
            await a11_grpc.connect(url)
        assert caught.value.code is Code.INVALID_ARGUMENT
        assert repr(url) in caught.value.message
