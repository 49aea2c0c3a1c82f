"""Several outputs of one function."""

from __future__ import annotations


class Outputs:
    """The base of a dataclass whose every field is an output of its own.

    A field annotated `AsyncIterator[T]` is a stream. Others are one value each; None writes
    nothing where the field's type takes None only by default.
    """
