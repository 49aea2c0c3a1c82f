"""How fast a session is, beside a bare grpc.aio echo of the same bytes in the same run.

`A11_SERVER=target/release/a11-grpc python clients/python/benches/session.py`: calls a second at 1
and 64 in flight, and fragments of 16 B and 64 KiB echoed. Each goes from here to the service, to an
action hosted here, and back: two hops a way. The bare echo has one.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.server import serving

import a11_grpc

CALLS = 2000
SMALL, SMALL_COUNT = b"x" * 16, 50_000
LARGE, LARGE_COUNT = b"x" * (64 * 1024), 2000

REGISTRY = a11_grpc.Registry()


@REGISTRY.action
async def bench_echo(blobs: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What comes."""
    async for blob in blobs:
        yield blob


@REGISTRY.action
async def bench_call(text: str) -> str:
    """What was said."""
    return text


class Bare(grpc.GenericRpcHandler):
    """An echo of bytes, with nothing around them."""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Both methods."""

        async def one(request: bytes, _: object) -> bytes:
            return request

        async def many(requests: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request

        if details.method == "/bare/One":
            return grpc.unary_unary_rpc_method_handler(one)
        return grpc.stream_stream_rpc_method_handler(many)


async def main() -> None:
    """Runs all, and prints a line each."""
    bare = aio.server()
    bare.add_generic_rpc_handlers((Bare(),))
    port = bare.add_insecure_port("127.0.0.1:0")
    await bare.start()
    async with (
        serving() as server,
        a11_grpc.connect(server.address, registry=REGISTRY),
        a11_grpc.connect(server.address) as client,
        aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        one: Any = channel.unary_unary("/bare/One")
        for in_flight in (1, 64):
            await rate(
                f"calls, {in_flight} in flight",
                lambda: client.call("bench_call", text="x"),
                in_flight,
            )
            await rate(f"bare calls, {in_flight} in flight", lambda: one(b"x"), in_flight)
        for data, count in ((SMALL, SMALL_COUNT), (LARGE, LARGE_COUNT)):
            await echo(client, data, count)
            await bare_echo(channel, data, count)
    await bare.stop(None)


async def rate(what: str, call: Callable[[], Awaitable[object]], in_flight: int) -> None:
    """Calls a second."""

    async def worker(count: int) -> None:
        for _ in range(count):
            await call()

    await worker(50)
    began = time.perf_counter()
    await asyncio.gather(*(worker(CALLS // in_flight) for _ in range(in_flight)))
    took = time.perf_counter() - began
    print(f"{what:32} {CALLS // in_flight * in_flight / took:10,.0f} /s")


async def echo(client: a11_grpc.Client, data: bytes, count: int) -> None:
    """Fragments a second, there and back."""
    blobs = (data for _ in range(count))
    began = time.perf_counter()
    received = 0
    async for _ in client.stream("bench_echo", blobs=blobs):
        received += 1
    assert received == count
    report(f"fragments of {len(data):,} B", data, count, time.perf_counter() - began)


async def bare_echo(channel: aio.Channel, data: bytes, count: int) -> None:
    """Messages a second, there and back, one message a fragment."""
    stream: Any = channel.stream_stream("/bare/Many")()

    async def write() -> None:
        for _ in range(count):
            await stream.write(data)
        await stream.done_writing()

    began = time.perf_counter()
    writing = asyncio.ensure_future(write())
    for _ in range(count):
        await stream.read()
    await writing
    report(f"bare messages of {len(data):,} B", data, count, time.perf_counter() - began)


def report(what: str, data: bytes, count: int, took: float) -> None:
    """Prints a line."""
    mib = len(data) * count / took / (1 << 20)
    print(f"{what:32} {count / took:10,.0f} /s {mib:8,.1f} MiB/s")


if __name__ == "__main__":
    asyncio.run(main())
