"""The nodes of a call: one that this side writes, and one that it reads."""

from __future__ import annotations

from collections import deque

from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc.session.core.cost import cost
from a11_grpc.session.core.limits import MAX_WAITING_NODE_BYTES
from a11_grpc.wire.status import Reason, Status, StatusError


class Outgoing:
    """A node that this side writes: what waits for credit, and how it ends."""

    __slots__ = (
        "_closing",
        "_credit",
        "_ended",
        "_sent",
        "awaited",
        "id",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, id: str, window: int) -> None:
        self.id = id
        self.waiting: deque[tuple[NodeFragment, int]] = deque()
        self.waiting_bytes = 0
        self._sent = 0
        self._credit = window
        self._closing: Status | None = None  # To be told once everything before it has left.
        self._ended = False
        self.awaited = False  # Its writer waits.

    @property
    def has_room(self) -> bool:
        """Whether its writer may go on."""
        return self.waiting_bytes < MAX_WAITING_NODE_BYTES

    def write(self, fragment: NodeFragment, size: int) -> None:
        """Adds a piece. After the end there is none."""
        if self._ended:
            return
        if not fragment.continued:
            self._ended = True
        self.waiting_bytes += size
        self.waiting.append((fragment, size))

    def close(self, status: Status) -> None:
        """Ends it beside its final fragment."""
        if not self._ended:
            self._ended = True
            self._closing = status

    def grant(self, credit: int) -> None:
        """The other side takes this much since the beginning."""
        self._credit = max(self._credit, credit)

    @property
    def is_ready(self) -> bool:
        """Whether something can leave now."""
        return self._sent < self._credit if self.waiting else self._closing is not None

    @property
    def is_drained(self) -> bool:
        """Whether all of it has left."""
        return not self.waiting and self._closing is None

    def take(self, most: int | None) -> tuple[NodeFragment, int] | None:
        """The next piece that credit allows, if it costs no more than `most`."""
        if not self.waiting or self._sent >= self._credit:
            return None
        size = self.waiting[0][1]
        if most is not None and size > most:
            return None
        self.waiting_bytes -= size
        self._sent += size
        return self.waiting.popleft()

    def take_end(self) -> Status | None:
        """The end that is to be told, once everything before it has left."""
        if self.waiting:
            return None
        closing, self._closing = self._closing, None
        return closing

    def clear(self) -> None:
        """Lets go of what waits."""
        self.waiting.clear()
        self.waiting_bytes = 0
        self._closing = None
        self._ended = True


class Incoming:
    """A node that this side reads: what may still come, and what was consumed."""

    __slots__ = ("_consumed", "_ended", "_received", "_window", "granted", "id", "untold")

    def __init__(self, id: str, window: int) -> None:
        self.id = id
        self._window = window
        self._received = 0
        self._consumed = 0
        self.granted = window
        self._ended = False
        self.untold = False  # The credit is to be told.

    def arrived(self, fragment: NodeFragment) -> None:
        """Counts a piece that came.

        Raises:
            StatusError: Where the credit was used up before it.
        """
        if self._received >= self.granted:
            message = f"node {self.id!r} was written past its credit of {self.granted} bytes"
            raise StatusError.of(Reason.INVALID_FRAME, message)
        self._received += cost(fragment)
        if not fragment.continued and not fragment.HasField("seq"):
            self._ended = True

    def close(self) -> None:
        """Nothing more comes."""
        self._ended = True

    def consume(self, size: int) -> bool:
        """Counts what the reader took; True where the credit is now to be told."""
        self._consumed = min(self._consumed + size, self._received)
        due = self._consumed + self._window
        if self._ended or due < self.granted + self._window // 2:
            return False
        self.granted = due
        told, self.untold = self.untold, True
        return not told

    @property
    def held_bytes(self) -> int:
        """What came and was not consumed."""
        return self._received - self._consumed
