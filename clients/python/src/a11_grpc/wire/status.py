"""How something ended: code, reason, message, and the exception that carries them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

import grpc

from a11_grpc._proto import rpc_status_pb2, status_pb2

ERROR_DOMAIN = "a11"
"""The domain of the `google.rpc.ErrorInfo` that carries a reason."""

MAX_MESSAGE_BYTES = 4096
"""The longest message put on the wire."""

MAX_DETAILS_BYTES = 4096
"""How many bytes of details go on the wire with a status."""


class Code(IntEnum):
    """The canonical codes of gRPC."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Reason(StrEnum):
    """Why something failed, for programs to branch on beside the code."""

    UNSPECIFIED = "UNSPECIFIED"
    HANDLER_FAILED = "HANDLER_FAILED"
    HANDLER_PANICKED = "HANDLER_PANICKED"
    INVALID_OUTPUT = "INVALID_OUTPUT"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_PATTERN = "INVALID_PATTERN"
    DUPLICATE_CALL = "DUPLICATE_CALL"
    INVALID_INPUT = "INVALID_INPUT"
    MISSING_INPUT = "MISSING_INPUT"
    UNDECLARED_INPUT = "UNDECLARED_INPUT"
    AUTOFILLED_INPUT = "AUTOFILLED_INPUT"
    UNKNOWN_REPLY = "UNKNOWN_REPLY"
    NOT_ALLOWED = "NOT_ALLOWED"
    UNKNOWN_ACTION = "UNKNOWN_ACTION"
    NO_HANDLER = "NO_HANDLER"
    DEADLINE = "DEADLINE"
    CANCELLED = "CANCELLED"
    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE"
    TOO_DEEP = "TOO_DEEP"
    SEQ_CONFLICT = "SEQ_CONFLICT"
    PAST_FINAL = "PAST_FINAL"
    GAP = "GAP"
    NOT_FINAL = "NOT_FINAL"
    NODE_FULL = "NODE_FULL"
    NODE_CLOSED = "NODE_CLOSED"
    UNKNOWN_NODE = "UNKNOWN_NODE"
    TRIMMED = "TRIMMED"
    NO_SENDER = "NO_SENDER"
    UNKNOWN_SESSION = "UNKNOWN_SESSION"
    UNSUPPORTED_PEER = "UNSUPPORTED_PEER"
    UNSUPPORTED = "UNSUPPORTED"
    NAME_TAKEN = "NAME_TAKEN"
    SHUTTING_DOWN = "SHUTTING_DOWN"
    PEER_LOST = "PEER_LOST"
    INVALID_FRAME = "INVALID_FRAME"
    SESSION_LIMIT = "SESSION_LIMIT"
    SESSION_RESUMED = "SESSION_RESUMED"
    PEER_NOT_PERMITTED = "PEER_NOT_PERMITTED"
    UNKNOWN_CONVERSATION = "UNKNOWN_CONVERSATION"
    UNKNOWN_INTERACTION = "UNKNOWN_INTERACTION"
    INTERACTION_CONFLICT = "INTERACTION_CONFLICT"
    MISSING_PREVIOUS = "MISSING_PREVIOUS"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    RECORD_BROKEN = "RECORD_BROKEN"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    LEASE_LOST = "LEASE_LOST"
    HISTORY_TOO_LARGE = "HISTORY_TOO_LARGE"


# The reasons that this package itself gives, and the code that each always has.
_CODES = {
    Reason.INVALID_OUTPUT: Code.INTERNAL,
    Reason.INVALID_REQUEST: Code.INVALID_ARGUMENT,
    Reason.INVALID_INPUT: Code.INVALID_ARGUMENT,
    Reason.MISSING_INPUT: Code.INVALID_ARGUMENT,
    Reason.UNDECLARED_INPUT: Code.INVALID_ARGUMENT,
    Reason.AUTOFILLED_INPUT: Code.INVALID_ARGUMENT,
    Reason.INVALID_FRAME: Code.INVALID_ARGUMENT,
    Reason.UNKNOWN_REPLY: Code.INVALID_ARGUMENT,
    Reason.UNKNOWN_ACTION: Code.NOT_FOUND,
    Reason.DEADLINE: Code.DEADLINE_EXCEEDED,
    Reason.CANCELLED: Code.CANCELLED,
    Reason.NOT_FINAL: Code.FAILED_PRECONDITION,
    Reason.NODE_CLOSED: Code.FAILED_PRECONDITION,
    Reason.SESSION_LIMIT: Code.RESOURCE_EXHAUSTED,
    Reason.UNKNOWN_SESSION: Code.UNAVAILABLE,
    Reason.PEER_LOST: Code.UNAVAILABLE,
    Reason.SHUTTING_DOWN: Code.UNAVAILABLE,
    Reason.UNSUPPORTED: Code.UNIMPLEMENTED,
    Reason.RECORD_BROKEN: Code.DATA_LOSS,
}


@dataclass(frozen=True, slots=True)
class Status:
    """How something ended; `details` are facts for programs, each one JSON value as text."""

    code: Code = Code.OK
    reason: Reason = Reason.UNSPECIFIED
    message: str = ""
    details: tuple[str, ...] = ()

    @classmethod
    def of(cls, reason: Reason, message: str) -> Status:
        """A failure whose code follows from the reason."""
        return cls(_CODES.get(reason, Code.UNKNOWN), reason, message)

    @property
    def is_ok(self) -> bool:
        """Whether it means success."""
        return self.code is Code.OK

    def raise_if_failed(self) -> None:
        """Raises a `StatusError` unless it is OK."""
        if self.code is not Code.OK:
            raise StatusError(self)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name


OK = Status()
"""The status that means success."""


class StatusError(Exception):
    """What failed, with the status that happened.

    A handler raises `StatusError(Code.NOT_FOUND, "no such order")` to end its call with that
    status; the code's name will do. Callers branch on `code` and `reason`, never on the text.
    """

    def __init__(
        self,
        status: Status | Code | str,
        message: str = "",
        *,
        reason: Reason = Reason.UNSPECIFIED,
        details: tuple[str, ...] = (),
    ) -> None:
        if isinstance(status, str):
            status = Code[status]
        if not isinstance(status, Status):
            status = Status(Code(status), reason, message, details)
        super().__init__(str(status))
        self.status = status

    @classmethod
    def of(cls, reason: Reason, message: str) -> StatusError:
        """A failure whose code follows from the reason."""
        return cls(Status.of(reason, message))

    @property
    def code(self) -> Code:
        """The canonical code."""
        return self.status.code

    @property
    def reason(self) -> Reason:
        """Why, for programs."""
        return self.status.reason

    @property
    def message(self) -> str:
        """Why, for people."""
        return self.status.message

    @property
    def details(self) -> tuple[str, ...]:
        """Further facts, each one JSON value as text."""
        return self.status.details

    @property
    def is_of_connection(self) -> bool:
        """Whether nobody answered, as far as is known: what a service says has a reason."""
        return self.code is Code.UNAVAILABLE and self.reason is Reason.UNSPECIFIED

    def __reduce__(self) -> tuple[type[StatusError], tuple[Status]]:
        return (StatusError, (self.status,))


class ConnectError(StatusError):
    """There is no connection: the address is none, or nobody answers there."""


def status_from_proto(message: status_pb2.Status) -> Status:
    """Reads a status; an unknown code is UNKNOWN, an unknown reason unspecified."""
    if not message.code and not message.message and not message.reason:
        return OK
    code = Code(message.code) if message.code in _KNOWN_CODES else Code.UNKNOWN
    return Status(code, reason_from_number(message.reason), message.message, tuple(message.details))


def status_to_proto(status: Status) -> status_pb2.Status:
    """Writes a status, its message and details cut to what the wire takes."""
    message = status_pb2.Status(code=int(status.code), message=_cut(status.message))
    message.reason = status_pb2.Reason.Value(f"REASON_{status.reason.value}")
    room = MAX_DETAILS_BYTES
    for detail in status.details:
        size = len(detail.encode("utf-8", "replace"))
        if size <= room:
            room -= size
            message.details.append(detail)
    return message


def error_from_grpc(error: grpc.RpcError) -> StatusError:
    """The same failure as our own exception, with the reason out of its details."""
    value = error.code().value
    code = Code(value[0]) if isinstance(value, tuple) else Code.UNKNOWN
    reason = Reason.UNSPECIFIED
    trailers: Any = error.trailing_metadata()
    for key, data in trailers or ():
        if key == "grpc-status-details-bin" and isinstance(data, bytes):
            reason = _reason_in(data)
    return StatusError(Status(code, reason, error.details() or ""))


def _reason_in(data: bytes) -> Reason:
    try:
        rich = rpc_status_pb2.RpcStatus.FromString(data)
        for detail in rich.details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                info = rpc_status_pb2.ErrorInfo.FromString(detail.value)
                if info.domain == ERROR_DOMAIN and info.reason in Reason.__members__:
                    return Reason(info.reason)
    except Exception:  # Whatever a foreign server put there: the code stands.
        return Reason.UNSPECIFIED
    return Reason.UNSPECIFIED


_KNOWN_CODES = frozenset(int(code) for code in Code)
_REASONS: dict[int, Reason] = {
    int(number): Reason(name.removeprefix("REASON_"))
    for name, number in status_pb2.Reason.items()
    if name.removeprefix("REASON_") in Reason.__members__
}


def reason_from_number(number: int) -> Reason:
    """The reason of a number; one that is unknown is unspecified."""
    return _REASONS.get(number, Reason.UNSPECIFIED)


def _cut(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_MESSAGE_BYTES:
        return text if text.isascii() else data.decode("utf-8")
    notice = f"… [cut, {len(data)} bytes in all]"
    room = MAX_MESSAGE_BYTES - len(notice.encode())
    return data[:room].decode("utf-8", "ignore") + notice
