"""What happened in a session, for its driver. Events come in the order they happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from a11_grpc._proto.action_pb2 import ActionSchema, LogEntry
from a11_grpc._proto.chunk_pb2 import NodeFragment
from a11_grpc._proto.peer_service_pb2 import CallFrame, RefusedAction
from a11_grpc.wire.status import Status


@dataclass(frozen=True, slots=True)
class Publish:
    """The other side hosts these actions; answer with `Core.answer_publish`."""

    actions: Sequence[ActionSchema]


@dataclass(frozen=True, slots=True)
class Published:
    """The other side answered a publication of ours."""

    refused: Sequence[RefusedAction]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The other side takes these actions back."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Called:
    """The other side calls. Ends with `Core.finish`, or `Cancelled` when the session ends."""

    frame: CallFrame


@dataclass(frozen=True, slots=True)
class Fragments:
    """Pieces of the nodes of a call, within their credit, which `Core.consume` gives back."""

    call: int
    fragments: Sequence[NodeFragment]


@dataclass(frozen=True, slots=True)
class Closed:
    """A node ended beside its final fragment."""

    call: int
    id: str
    status: Status


@dataclass(frozen=True, slots=True)
class Logged:
    """A call of ours narrated; `displaced` entries were lost before this one."""

    call: int
    entry: LogEntry
    displaced: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A call that runs here should end. It still has to be finished."""

    call: int
    status: Status


@dataclass(frozen=True, slots=True)
class Finished:
    """A call of ours ended. Nothing more comes of it."""

    call: int
    status: Status


@dataclass(frozen=True, slots=True)
class Writable:
    """A node that was full takes pieces again."""

    call: int
    id: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection is broken: it is given up."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The session is over. The last event."""

    status: Status


Event = (
    Publish
    | Published
    | Withdraw
    | Called
    | Fragments
    | Closed
    | Logged
    | Cancelled
    | Finished
    | Writable
    | Disconnected
    | Ended
)
"""Something for the driver to act on."""
