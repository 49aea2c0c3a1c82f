"""Base64 as the service has it: written standard and padded, junk refused."""

from __future__ import annotations

import base64
import binascii
import re

_STANDARD = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def encode_base64(data: bytes) -> str:
    """Writes bytes."""
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str, *, url_safe: bool) -> bytes:
    """Reads standard base64, padded or not; with `url_safe` either alphabet, not both at once.

    Raises:
        ValueError: For anything else.
    """
    if not _STANDARD.fullmatch(text):
        if not (url_safe and _URL_SAFE.fullmatch(text)):
            raise ValueError("not base64")
        text = text.translate(_TO_STANDARD)
    bare = text.rstrip("=")
    if len(bare) < len(text) and len(text) % 4:
        raise ValueError("not base64: wrong padding")
    try:
        data = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error
    if encode_base64(data).rstrip("=") != bare:
        raise ValueError("not base64: bits beyond the last byte")
    return data


_TO_STANDARD = str.maketrans("-_", "+/")
