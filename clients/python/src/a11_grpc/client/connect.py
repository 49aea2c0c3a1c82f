"""How a client is made."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn

import grpc

from a11_grpc.client.address import Address, reach
from a11_grpc.client.client import Client
from a11_grpc.client.given import metadata_of
from a11_grpc.client.parts import Options, Parts
from a11_grpc.hosting.registry import Registry
from a11_grpc.wire.status import Status


class Connecting:
    """A client in the making: `async with connect(url) as client`, or `await connect(url)`."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._client: Client | None = None

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"connect() has to be awaited before .{name}: client = await connect(url), or "
            "async with connect(url) as client"
        )

    def __await__(self) -> Generator[Any, None, Client]:
        client: Client = yield from self._make().__await__()
        return client

    async def __aenter__(self) -> Client:
        self._client = await self
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.close()


def connect(
    url: str,
    *,
    name: str = "",
    metadata: Mapping[str, str] | Sequence[tuple[str, str | bytes]] | None = None,
    registry: Registry | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    on_refused: Callable[[str, Status], None] | None = None,
) -> Connecting:
    """Connects to a service.

    Args:
        url: `http://HOST[:PORT]`, `https://HOST[:PORT]` or, without TLS, `HOST:PORT`.
        name: Who this program is, for people and logs.
        metadata: Sent with every request, such as an `authorization`.
        registry: Actions to host from the start.
        credentials: For https, and refused without it: other than the web's root certificates,
            such as `grpc.ssl_channel_credentials(pem)` for an authority of one's own.
        on_refused: Is told of each hosted action that the service does not serve, when it is
            published: its name, and why. Without it a warning is logged.

    Raises (when awaited):
        ConnectError: Where the address is none, or nobody answers there within 10 s; says so
            where TLS is spoken on one side alone, or the certificate is not trusted.
        StatusError: What the service refuses the session with, where a registry is given.
    """

    async def make() -> Client:
        address = Address(url)
        pairs = metadata_of(metadata)
        channel = address.channel(credentials)
        parts = Parts(address, channel, pairs, name, on_refused)
        client = Client(parts, Options())
        try:
            await reach(channel, address, parts.metadata)
            if registry is not None:
                await client.host(registry)
        except BaseException:
            await parts.close()
            raise
        return client

    return Connecting(make)
