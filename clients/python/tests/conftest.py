"""What every test may ask for: the address of a server, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.server import ROOT, Server, serving

import a11_grpc


@pytest_asyncio.fixture(scope="session")
async def server() -> AsyncIterator[Server]:
    """One server for all tests that need no other."""
    config = str(ROOT / "examples" / "actions.toml")
    async with serving(["--config", config]) as server:
        yield server


@pytest.fixture
def address(server: Server) -> str:
    return server.address


@pytest_asyncio.fixture
async def client(address: str) -> AsyncIterator[a11_grpc.Client]:
    async with a11_grpc.connect(address, name="test") as client:
        yield client


@pytest_asyncio.fixture
async def storing(tmp_path: Path) -> AsyncIterator[a11_grpc.Client]:
    """A client of a server with a store of its own."""
    async with (
        serving(["--store", str(tmp_path / "store.db")]) as server,
        a11_grpc.connect(server.address) as client,
    ):
        yield client
