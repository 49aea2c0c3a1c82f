"""What callers give beside arguments, checked: names, patterns, metadata, times."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from a11_grpc.wire.status import Reason, StatusError

MOST_SECONDS = 10.0**8
"""The longest time that means anything: three years, as good as for ever."""

_KEY = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")

Pairs = list[tuple[str, str | bytes]]
"""Metadata as gRPC takes it."""


def name_of(action: object) -> str:
    """The name of an action.

    Raises:
        StatusError: INVALID_ARGUMENT for what is no text.
    """
    if isinstance(action, str):
        return action
    raise _invalid(f"an action's name is a text, not {type(action).__name__}")


def patterns_of(what: str, given: str | Iterable[str] | None) -> list[str]:
    """Regular expressions: one, or several.

    Raises:
        StatusError: INVALID_ARGUMENT, where they are no texts.
    """
    if isinstance(given, str):
        return [given]
    try:
        patterns = list(given or ())
    except TypeError as error:
        raise _invalid(f"{what}: a pattern or a list of them, not {given!r}") from error
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise _invalid(f"{what}: a pattern is a text, not {type(pattern).__name__}")
    return patterns


def seconds_of(timeout: float | None) -> float | None:
    """A time in seconds.

    Raises:
        StatusError: INVALID_ARGUMENT for what is no number.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or math.isnan(timeout):
        raise _invalid(f"timeout: a number of seconds, not {timeout!r}")
    return min(float(timeout), MOST_SECONDS)


def metadata_of(given: Mapping[str, str] | Sequence[tuple[str, str | bytes]] | None) -> Pairs:
    """Metadata for every request, its names in lower case.

    Raises:
        StatusError: INVALID_ARGUMENT, naming what gRPC does not take.
    """
    items = given.items() if isinstance(given, Mapping) else given or ()
    try:
        pairs = [(key, value) for key, value in items]
    except (TypeError, ValueError) as error:
        raise _invalid("metadata: a dict, or pairs of a name and a value") from error
    return [pair_of("metadata", key, value) for key, value in pairs]


def pair_of(what: str, key: str, value: str | bytes) -> tuple[str, str | bytes]:
    """A name and its value, as gRPC takes them.

    Raises:
        StatusError: INVALID_ARGUMENT, naming what it does not take.
    """
    name = key.lower() if isinstance(key, str) else ""
    if not _KEY.fullmatch(name):
        raise _invalid(f"{what}: {key!r} is no name: letters, digits, `-`, `_` and `.`")
    if name.endswith("-bin"):
        return name, value.encode() if isinstance(value, str) else bytes(value)
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if not isinstance(text, str) or not _VALUE.fullmatch(text):
        raise _invalid(
            f"{what} {key!r}: here a value is printable ASCII; one whose name ends with -bin is "
            "any bytes"
        )
    return name, text


def _invalid(message: str) -> StatusError:
    return StatusError.of(Reason.INVALID_REQUEST, message)
