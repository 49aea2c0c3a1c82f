"""The log entries of a call that wait to be sent. They never make it wait: the oldest go."""

from __future__ import annotations

from collections import deque

from a11_grpc._proto.action_pb2 import LogEntry
from a11_grpc.session.core.limits import MAX_WAITING_LOG_BYTES

_FIXED_BYTES = 64  # Counted for every entry, so that empty ones are bounded too.


class Narration:
    """What waits, by age."""

    __slots__ = ("_displaced", "_entries", "waiting_bytes")

    def __init__(self) -> None:
        self._entries: deque[LogEntry] = deque()
        self.waiting_bytes = 0
        self._displaced = 0

    def add(self, entry: LogEntry) -> None:
        """Adds an entry; past the bound the oldest is displaced."""
        self.waiting_bytes += _size(entry)
        self._entries.append(entry)
        while self.waiting_bytes > MAX_WAITING_LOG_BYTES and len(self._entries) > 1:
            self.waiting_bytes -= _size(self._entries.popleft())
            self._displaced += 1

    def take(self) -> tuple[LogEntry, int] | None:
        """The oldest entry, and how many were lost before it."""
        if not self._entries:
            return None
        entry = self._entries.popleft()
        self.waiting_bytes -= _size(entry)
        displaced, self._displaced = self._displaced, 0
        return entry, displaced

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._entries

    def clear(self) -> None:
        """Lets go of what waits."""
        self._entries.clear()
        self.waiting_bytes = 0


def _size(entry: LogEntry) -> int:
    return _FIXED_BYTES + len(entry.text.encode()) + len(entry.channel)
