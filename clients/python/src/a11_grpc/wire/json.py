"""JSON as the service takes it: no NaN, no lone surrogates, no nesting without end."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_jsonable_python

JsonValue = Any
"""A JSON value: None, bool, int, float, str, a list or a dict of them."""


class JsonError(ValueError):
    """Why a value has no JSON form, or a text is no JSON."""


def dump_json(value: object) -> bytes:
    """A value as JSON: plain values, and what pydantic has a JSON form for.

    Those are its models, dataclasses, dates, UUIDs, decimals, enums, paths, sets and the like.

    Raises:
        JsonError: Where it has no JSON form: NaN and infinity, lone surrogates, bytes, strange
            types, whole numbers of more than 4300 digits.
    """
    try:
        try:
            text = _ENCODER.encode(value)
        except TypeError:
            # A key that is no string, in all likelihood: a date, a UUID.
            text = _ENCODER.encode(_jsonable(value))
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonError("a lone surrogate has no place in a text") from error
    except RecursionError as error:
        raise JsonError("nested too deep") from error
    except UnicodeDecodeError as error:
        raise JsonError("bytes have no place in JSON") from error
    except (TypeError, ValueError) as error:
        raise JsonError(_reason(error)) from error


def as_text(value: object) -> str | None:
    """The JSON form of a date, a UUID, a path and the like, where that is a string."""
    if isinstance(value, (str, bytes, bytearray, memoryview, dict, list)):
        return value if isinstance(value, str) else None
    try:
        form = _jsonable(value)
    except ValueError:
        return None
    return form if isinstance(form, str) else None


def load_json(data: bytes | str) -> JsonValue:
    """Reads JSON.

    Raises:
        JsonError: Where it is none, NaN and infinity included.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return _DECODER.decode(text)
    except RecursionError as error:
        raise JsonError("nested too deep") from error
    except ValueError as error:
        raise JsonError(f"not JSON: {error}") from error


def _plain(value: object) -> object:
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise JsonError("bytes have no place in JSON: give them as base64 text, or on a port")
    return _jsonable(value)


def _jsonable(value: object) -> Any:
    # NaN stays what it is, for the encoder to refuse, where pydantic would say null.
    return to_jsonable_python(value, by_alias=True, inf_nan_mode="constants")


def _reason(error: Exception) -> str:
    text = str(error)
    if text.startswith("Out of range float"):
        return "NaN and infinity have no place in JSON"
    return text


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
)
