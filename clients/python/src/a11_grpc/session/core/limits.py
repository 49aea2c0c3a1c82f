"""The bounds of a session: what each side can take, and what is kept for it."""

from __future__ import annotations

from dataclasses import dataclass

from a11_grpc._proto import peer_service_pb2 as pb
from a11_grpc.wire.status import Reason, StatusError

DEFAULT_NODE_WINDOW_BYTES = 256 * 1024
"""Bytes of a node that may be under way, unless the reader says otherwise."""
DEFAULT_MAX_CALLS = 1024
"""Calls of one side that run at once, unless the other side says otherwise."""
DEFAULT_MAX_FRAME_BYTES = 16 << 20
"""The largest frame, unless the receiver says otherwise."""
DEFAULT_GRACE = 60.0
"""How long a session is kept without a connection, in seconds."""

MAX_CALL_NODES = 256
"""Nodes that one side writes in one call."""
MAX_WAITING_CONTROL = 4096
"""Control frames that wait to be sent; past it the other side does not read."""
MAX_UNACKED_FRAMES = 16_384
"""Frames that were sent and not acknowledged; further ones wait."""
MAX_UNACKED_BYTES = 16 << 20
"""Bytes that were sent and not acknowledged; past it nothing new is sent."""
MAX_WAITING_NODE_BYTES = 64 * 1024
"""Bytes of a node that wait for credit; past it its writer waits."""
MAX_WAITING_LOG_BYTES = 64 * 1024
"""Bytes of a call's log entries that wait to be sent; past it the oldest go."""
GATHERED_BYTES = 32 * 1024
"""How much of small fragments one frame gathers."""
GATHERED_FRAGMENTS = 256
"""How many small fragments one frame gathers."""

ACK_DELAY = 0.025
"""Acknowledged at the latest after this many seconds …"""
ACK_FRAMES = 32
"""… or this many frames …"""
ACK_BYTES = 64 * 1024
"""… or this many bytes."""

PING_AFTER = 20.0
"""When nothing came for this many seconds, the other side is asked."""
BROKEN_AFTER = 40.0
"""When nothing came for this many seconds, the connection is broken."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one side can take."""

    node_window_bytes: int = DEFAULT_NODE_WINDOW_BYTES
    max_calls: int = DEFAULT_MAX_CALLS
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES

    @classmethod
    def from_proto(cls, message: pb.SessionLimits) -> Limits:
        """Reads limits; 0 means the default.

        Raises:
            StatusError: INVALID_ARGUMENT for one that is out of its range.
        """
        limits = cls(
            message.node_window_bytes or DEFAULT_NODE_WINDOW_BYTES,
            message.max_calls or DEFAULT_MAX_CALLS,
            message.max_frame_bytes or DEFAULT_MAX_FRAME_BYTES,
        )
        _check("node_window_bytes", limits.node_window_bytes, 4096, 16 << 20)
        _check("max_frame_bytes", limits.max_frame_bytes, 256 * 1024, (1 << 32) - 1)
        return limits

    def to_proto(self) -> pb.SessionLimits:
        """Writes them."""
        return pb.SessionLimits(
            node_window_bytes=self.node_window_bytes,
            max_calls=self.max_calls,
            max_frame_bytes=self.max_frame_bytes,
        )


def _check(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        message = f"limits.{what}: {value} is not within {least} and {most}"
        raise StatusError.of(Reason.INVALID_FRAME, message)
