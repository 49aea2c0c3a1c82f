"""What a client and its copies with other options share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grpc import aio

from a11_grpc.client.address import Address
from a11_grpc.client.events import Log
from a11_grpc.client.gate import Gate
from a11_grpc.client.schemas import Schemas
from a11_grpc.hosting.host import Host
from a11_grpc.hosting.registry import Registry
from a11_grpc.session.connection import Metadata
from a11_grpc.session.keeper import Keeper, OnRefused
from a11_grpc.wire.status import Code, StatusError

if TYPE_CHECKING:
    from a11_grpc.client.client import Client


@dataclass(frozen=True, slots=True)
class Options:
    """What goes with calls beside their arguments."""

    timeout: float | None = None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    on_log: Callable[[Log], None] | None = None
    port: str | None = None


class Parts:
    """The connection, the session, what is hosted and what is known of the service."""

    def __init__(
        self,
        address: Address,
        channel: aio.Channel,
        metadata: Metadata,
        name: str,
        on_refused: OnRefused | None,
    ) -> None:
        self.address = address
        self.gate = Gate(channel)
        self.channel = channel = self.gate.methods
        self.metadata = metadata
        self.schemas = Schemas(channel, metadata)
        self.host = Host(self)
        self.keeper = Keeper(
            channel,
            metadata,
            name,
            self.host.called,
            self.host.published,
            self.schemas.forget,
            on_refused,
        )
        self.doubted: set[str] = set()
        """Keys of `action_configs` that were warned of."""
        self.looked_up: set[str] = set()
        """Patterns of `tools` that matched something, or were warned of."""
        self._loop = asyncio.get_running_loop()
        self._publishing: set[asyncio.Task[None]] = set()

    def client_for(self, headers: Mapping[str, bytes], timeout: float | None) -> Client:
        """A client whose calls have these headers and this much time."""
        from a11_grpc.client.client import Client

        return Client(self, Options(timeout, headers))

    async def add(self, registry: Registry) -> None:
        """Hosts a registry, and waits until it is served."""
        self.host.add(registry, self._changed)
        await self.keeper.publish()

    def _changed(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._publish_soon)

    def _publish_soon(self) -> None:
        task = asyncio.ensure_future(self._publish())
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _publish(self) -> None:
        try:
            await self.keeper.publish()
        except StatusError as error:
            # A session that is opened later publishes all there is; a closed client nothing.
            if error.code not in (Code.UNAVAILABLE, Code.CANCELLED):
                raise

    async def close(self) -> None:
        """Ends everything."""
        for task in [*self._publishing]:
            task.cancel()
        await self.keeper.close()
        await self.host.close()
        await self.gate.close()
