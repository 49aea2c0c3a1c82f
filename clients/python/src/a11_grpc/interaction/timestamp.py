"""Timestamps of chunks as text: RFC 3339, years 1 to 9999, to the nanosecond."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

_FORM = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?([Zz]|[+-]\d\d:?\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAST, _MOST = -62_135_596_800, 253_402_300_799


def read_timestamp(text: str) -> Timestamp | None:
    """Reads RFC 3339 with whatever offset; None where it is not, or is out of range."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{form[1]}T{form[2]}+00:00")
    except ValueError:
        return None
    offset = timedelta()
    if form[4] not in "Zz":
        hours, minutes = int(form[4][1:3]), int(form[4][-2:])
        if hours > 23 or minutes > 59:
            return None
        offset = timedelta(hours=hours, minutes=minutes) * (-1 if form[4][0] == "-" else 1)
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - offset // timedelta(seconds=1)
    if not _LEAST <= seconds <= _MOST:
        return None
    return Timestamp(seconds=seconds, nanos=int((form[3] or "0").ljust(9, "0")))


def write_timestamp(timestamp: Timestamp) -> str | None:
    """Writes as Python's `isoformat` does; None out of range.

    No fraction where it is zero, else six digits, or nine where six do not do.
    """
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not (_LEAST <= seconds <= _MOST and 0 <= nanos < 1_000_000_000):
        return None
    moment = _EPOCH + timedelta(seconds=seconds)
    text = moment.strftime("%Y").rjust(4, "0") + moment.strftime("-%m-%dT%H:%M:%S")
    if nanos and nanos % 1000 == 0:
        text += f".{nanos // 1000:06}"
    elif nanos:
        text += f".{nanos:09}"
    return text + "+00:00"
