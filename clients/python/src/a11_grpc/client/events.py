"""What happens in a call, as its caller sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from a11_grpc._proto.action_pb2 import LogEntry, LogLevel
from a11_grpc.wire.status import Status


@dataclass(frozen=True, slots=True)
class Output:
    """A value that the action put out: one of a stream port, the one of another."""

    port: str
    value: Any


@dataclass(frozen=True, slots=True)
class Log:
    """A piece of narration. `level` is debug, info, warn or error."""

    text: str
    level: str = "info"
    channel: str = ""
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """How the call ended. Last, and always there."""

    status: Status


Event = Output | Log | Finished
"""What happens in a call."""


_LEVELS = {
    LogLevel.LOG_LEVEL_DEBUG: "debug",
    LogLevel.LOG_LEVEL_WARN: "warn",
    LogLevel.LOG_LEVEL_ERROR: "error",
}


def log_from_proto(entry: LogEntry) -> Log:
    """Reads a log entry."""
    level = _LEVELS.get(entry.level, "info")
    return Log(entry.text, level, entry.channel, entry.internal)
