"""A real server: the program itself, on a port of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
"""The repository."""

SHARED = Path(os.environ.get("A11_SHARED", ROOT.parent / "shared"))
"""Where the recorded cases are, if they are there at all."""

START_SECONDS = 30.0


def program() -> Path:
    """The server's program: `A11_SERVER`, or what cargo built."""
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "a11-grpc"
    path = Path(os.environ.get("A11_SERVER", built))
    if not path.exists():
        raise FileNotFoundError(f"{path}: build it with cargo, or name it with A11_SERVER")
    return path


class Server:
    """A server under way."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self.process = process
        self.address = address

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def resident_bytes(self) -> int:
        """How much memory it has."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def serving(arguments: Sequence[str] = (), port: int = 0) -> AsyncIterator[Server]:
    """A server for the length of a block."""
    process = await asyncio.create_subprocess_exec(
        *(str(program()), "serve", "--listen", f"127.0.0.1:{port}", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stderr is not None
    said: list[str] = []
    draining = None
    try:
        async with asyncio.timeout(START_SECONDS):
            address = None
            while address is None:
                line = (await process.stderr.readline()).decode()
                if not line:
                    raise RuntimeError(f"the server ended: {''.join(said)}")
                said.append(line)
                found = re.search(r"listening on (127\.0\.0\.1:\d+)", line)
                address = found[1] if found else None
        # What it says later must not fill the pipe.
        draining = asyncio.ensure_future(process.stderr.read())
        yield Server(process, address)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()
        if draining is not None:
            await draining
