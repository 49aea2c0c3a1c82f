"""A TCP proxy whose connections can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """Passes bytes on, until it is told to cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._stranded: set[asyncio.StreamWriter] = set()
        self.address = ""
        self.accepted = 0
        self.is_refusing = False

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    def cut(self) -> int:
        """Breaks every connection, as a network does: with a reset. How many there were."""
        count = 0
        for writer in [*self._writers]:
            writer.transport.abort()
            count += 1
        self._writers.clear()
        return count

    def strand(self) -> int:
        """Breaks the clients' side of every connection alone, which the server does not notice."""
        clients, self._clients = self._clients, set()
        self._stranded |= clients
        for writer in clients:
            writer.transport.abort()
        return len(clients)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            writer.transport.abort()
            return
        try:
            onward, back = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        self._clients.add(writer)
        self.accepted += 1  # From now on it can be cut.
        for source, target in ((reader, back), (onward, writer)):
            task = asyncio.ensure_future(self._pass(source, target, (writer, back)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        client = both[0]
        try:
            while data := await source.read(64 * 1024):
                if client not in self._stranded:
                    target.write(data)
                    await target.drain()
        except (ConnectionError, OSError):
            pass
        finally:
            self._clients.discard(client)
            gone = (client,) if client in self._stranded and target is not client else both
            for writer in gone:
                self._writers.discard(writer)
                writer.transport.abort()

    async def close(self) -> None:
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxying(port: int) -> AsyncIterator[Proxy]:
    """A proxy to a port of this machine, for the length of a block."""
    proxy = Proxy(port)
    server = await proxy.start()
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()
