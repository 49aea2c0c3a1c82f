"""Numbers, acknowledgements and the replay buffer.

They are what makes frames survive a broken connection, each once and in order.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from a11_grpc._proto.peer_service_pb2 import Frame
from a11_grpc.session.core.limits import (
    ACK_BYTES,
    ACK_DELAY,
    ACK_FRAMES,
    MAX_UNACKED_BYTES,
    MAX_UNACKED_FRAMES,
)
from a11_grpc.wire.status import Reason, StatusError


class Arrival(Enum):
    """What becomes of a numbered frame."""

    NEW = auto()
    REPEATED = auto()
    GAP = auto()


class Link:
    """Both directions of one side's numbering."""

    def __init__(self) -> None:
        self._next = 1
        self._unacked: deque[tuple[Frame, int]] = deque()
        self._unacked_bytes = 0
        self._replayed = 0  # How many of `_unacked` were sent over this connection.
        self.received = 0
        self._told = 0
        self._untold_frames = 0
        self._untold_bytes = 0
        self.tell_by: float | None = None

    def attach(self, received: int) -> None:
        """Begins a connection: what the other side has is dropped, the rest sent again."""
        self.acknowledged(received)
        self._replayed = 0
        # The opening exchange has told it.
        self._settle(self.received)

    def acknowledged(self, number: int) -> None:
        """Drops what the other side has.

        Raises:
            StatusError: For a number that was never sent.
        """
        if number >= self._next:
            message = f"frame {number} was acknowledged, {self._next - 1} is the last one sent"
            raise StatusError.of(Reason.INVALID_FRAME, message)
        while self._unacked and self._unacked[0][0].number <= number:
            self._unacked_bytes -= self._unacked.popleft()[1]
            self._replayed = max(0, self._replayed - 1)

    def arrived(self, number: int, size: int, now: float) -> Arrival:
        """Takes note of a frame that came."""
        if number > self.received + 1:
            return Arrival.GAP
        self._untold_frames += 1
        self._untold_bytes += size
        if self.tell_by is None:
            self.tell_by = now + ACK_DELAY
        if number <= self.received:
            # Who repeats it does not know that it is here.
            self._told = 0
            return Arrival.REPEATED
        self.received = number
        return Arrival.NEW

    def must_tell(self, now: float) -> bool:
        """Whether the other side must be told now, with a frame of its own."""
        return (
            self._untold_frames >= ACK_FRAMES
            or self._untold_bytes >= ACK_BYTES
            or (self.tell_by is not None and self.tell_by <= now)
        )

    @property
    def has_room(self) -> bool:
        """Whether new frames may be sent."""
        return self._unacked_bytes < MAX_UNACKED_BYTES and len(self._unacked) < MAX_UNACKED_FRAMES

    def replay(self) -> Frame | None:
        """The next frame to send again, if there is one."""
        if self._replayed >= len(self._unacked):
            return None
        frame = self._unacked[self._replayed][0]
        self._replayed += 1
        return self._sealed(frame)

    def send(self, frame: Frame) -> Frame:
        """Numbers a new frame and keeps it. Everything kept must have been sent."""
        frame.number = self._next
        self._next += 1
        size = frame.ByteSize()
        self._unacked.append((frame, size))
        self._unacked_bytes += size
        self._replayed += 1
        return self._sealed(frame)

    def send_bare(self, frame: Frame) -> Frame:
        """A frame without a number, which is never sent again."""
        return self._sealed(frame)

    def _sealed(self, frame: Frame) -> Frame:
        frame.ack = self.received if self._told < self.received else 0
        self._settle(self.received)
        return frame

    def _settle(self, told: int) -> None:
        self._told = told
        self._untold_frames = 0
        self._untold_bytes = 0
        self.tell_by = None

    @property
    def kept_bytes(self) -> int:
        """Bytes kept for a resumption."""
        return self._unacked_bytes

    def clear(self) -> None:
        """Lets go of everything."""
        self._unacked.clear()
        self._unacked_bytes = 0
        self._replayed = 0
