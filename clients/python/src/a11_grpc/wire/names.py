"""Names: the identifiers of nodes, ports, actions, calls and attributes."""

from __future__ import annotations

import re

MAX_NAME_LEN = 255
"""The longest name, in characters."""

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_#-]{0,253}[A-Za-z0-9_])?")


def is_name(text: str) -> bool:
    """Whether it is 1 to 255 of `[A-Za-z0-9_#-]`, first and last one of `[A-Za-z0-9_]`."""
    return _NAME.fullmatch(text) is not None


def is_reserved(name: str) -> bool:
    """Whether it is one of the protocol's own: begins with `__` and is longer than four."""
    return len(name) > 4 and name.startswith("__")


def check_name(text: str, what: str) -> str:
    """The text, if it is a name.

    Raises:
        ValueError: Where it is none; `what` says whose name it was to be.
    """
    if not isinstance(text, str) or not is_name(text):
        raise ValueError(
            f"{what} {str(text)[:64]!r} is not a name: 1 to {MAX_NAME_LEN} characters of "
            "[A-Za-z0-9_#-], the first and last of [A-Za-z0-9_]"
        )
    return text
