"""Whether calls keep their rate, and memory its bounds, while something else stands still."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.server import Server

MIB = 1 << 20
PATIENCE = 15.0
"""How long a busy machine may take to have a quiet moment, in seconds."""


class Memory:
    """How much the service and this process have grown since it was made."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._before = self._resident()

    @property
    def grown(self) -> int:
        """Bytes, of the one or the other, whichever has grown more."""
        pairs = zip(self._resident(), self._before, strict=True)
        return max(now - before for now, before in pairs)

    def _resident(self) -> tuple[int, int]:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return self._server.resident_bytes(), int(pages) * os.sysconf("SC_PAGE_SIZE")


async def keep_their_rate(seconds: Callable[[], Awaitable[float]], alone: float) -> None:
    """Within twice the time; the machine has other things to do, so the best of many counts."""
    patience = time.monotonic() + PATIENCE
    best = min([await seconds() for _ in range(4)])
    while best >= 2 * alone:
        assert time.monotonic() < patience, f"it takes {best:.3f} s, and {alone:.3f} s alone"
        best = min(best, await seconds())
