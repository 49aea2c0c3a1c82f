"""JSON as the service takes it: no NaN, no lone surrogates, no nesting without end."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

JsonValue = Any
"""A JSON value: None, bool, int, float, str, a list or a dict of them."""


class JsonError(ValueError):
    """Why a value has no JSON form, or a text is no JSON."""


def dump_json(value: object) -> bytes:
    """A value as JSON: plain values, dataclasses, pydantic models, dates and the like.

    Raises:
        JsonError: Where it has no JSON form: NaN and infinity, lone surrogates, strange types.
    """
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
        )
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonError("a lone surrogate has no place in a text") from error
    except RecursionError as error:
        raise JsonError("nested too deep") from error
    except (TypeError, ValueError) as error:
        raise JsonError(str(error)) from error


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
    if isinstance(value, BaseModel):
        return value.model_dump(mode="python", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    return to_jsonable_python(value, by_alias=True, bytes_mode="base64")


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
