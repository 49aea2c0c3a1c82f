"""One call of a session, from either side: its nodes, its narration, its end."""

from __future__ import annotations

from enum import Enum, auto

from a11_grpc.session.core.limits import MAX_CALL_NODES
from a11_grpc.session.core.narration import Narration
from a11_grpc.session.core.node import Incoming, Outgoing
from a11_grpc.wire.status import Reason, Status, StatusError


class Role(Enum):
    """Which side of the call this is."""

    CALLER = auto()
    """It writes the inputs and reads the outputs."""
    HOST = auto()
    """It runs the action."""


class Call:
    """A call that has begun and not ended."""

    __slots__ = (
        "ending",
        "first_served",
        "incoming",
        "is_lined_up",
        "narration",
        "outgoing",
        "role",
    )

    def __init__(self, role: Role) -> None:
        self.role = role
        self.outgoing: dict[str, Outgoing] = {}
        self.incoming: dict[str, Incoming] = {}
        self.narration = Narration()
        self.ending: Status | None = None  # To be told once everything before it has left.
        self.is_lined_up = False
        self.first_served = 0  # Which node is served first, so that none starves another.

    def outgoing_node(self, id: str, window: int) -> Outgoing:
        """The node that this side writes, made when it is first named."""
        node = self.outgoing.get(id)
        if node is None:
            _check_room(len(self.outgoing))
            node = self.outgoing[id] = Outgoing(id, window)
        return node

    def incoming_node(self, id: str, window: int) -> Incoming:
        """The node that this side reads, made when it is first named."""
        node = self.incoming.get(id)
        if node is None:
            _check_room(len(self.incoming))
            node = self.incoming[id] = Incoming(id, window)
        return node

    @property
    def is_ready(self) -> bool:
        """Whether something can leave now."""
        if not self.narration.is_empty:
            return True
        return any(node.is_ready for node in self.outgoing.values()) or self.can_end

    @property
    def can_end(self) -> bool:
        """Whether its status may leave: after all that went well, else after what credit allows."""
        if self.role is Role.CALLER or self.ending is None or not self.narration.is_empty:
            return False
        if self.ending.is_ok:
            return all(node.is_drained for node in self.outgoing.values())
        return not any(node.is_ready for node in self.outgoing.values())

    def clear(self) -> None:
        """Lets go of everything that waits."""
        for node in self.outgoing.values():
            node.clear()
        self.narration.clear()


def _check_room(nodes: int) -> None:
    if nodes >= MAX_CALL_NODES:
        message = f"a call has at most {MAX_CALL_NODES} nodes a direction"
        raise StatusError.of(Reason.INVALID_FRAME, message)
