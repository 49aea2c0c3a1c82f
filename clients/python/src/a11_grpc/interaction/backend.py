"""The providers whose message shapes the service knows."""

from __future__ import annotations

from enum import StrEnum

from a11_grpc._proto import interaction_pb2 as pb
from a11_grpc.wire.status import Reason, StatusError


class Backend(StrEnum):
    """A model provider's native message shape."""

    CLAUDE = "claude"
    CLAUDE_CODE = "claude_code"
    CODEX = "codex"
    GEMINI = "gemini"
    GPT = "gpt"
    OLLAMA = "ollama"
    VLLM = "vllm"


def backend_to_proto(backend: Backend | str | None) -> pb.Backend.ValueType:
    """The number of a backend; None is unspecified. `openai`, `anthropic` and `google` are gpt,
    claude and gemini.

    Raises:
        StatusError: INVALID_ARGUMENT for a name that is none.
    """
    if backend is None:
        return pb.BACKEND_UNSPECIFIED
    try:
        named = Backend(_MAKERS.get(backend, backend))
        return pb.Backend.Value(f"BACKEND_{named.name}")
    except ValueError as error:
        known = ", ".join(Backend)
        message = f"there is no backend {str(backend)!r}; there are: {known}"
        raise StatusError.of(Reason.INVALID_REQUEST, message) from error


def backend_from_proto(number: int) -> Backend | None:
    """The backend of a number; None for one that is unspecified or unknown."""
    return _BACKENDS.get(number)


_MAKERS = {"openai": "gpt", "anthropic": "claude", "google": "gemini"}
"""What people call a shape by, beside its name."""

_BACKENDS = {
    int(number): Backend[name.removeprefix("BACKEND_")]
    for name, number in pb.Backend.items()
    if name.removeprefix("BACKEND_") in Backend.__members__
}
