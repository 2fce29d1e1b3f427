"""Pages of lists: a cursor says behind which item the next one begins."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
from typing import Any

from tilewright.service.api.operation import Parameter
from tilewright.service.api.problems import Problem

LIMIT = Parameter(
    "limit", "query", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}, "items of a page at most"
)
CURSOR = Parameter("cursor", "query", {"type": "string", "maxLength": 200}, "that of the page before")


def cursor_of(value: float, id: str | int) -> str:
    """The cursor of the page behind an item."""
    return base64.urlsafe_b64encode(json.dumps([value, id]).encode()).decode()


def position(cursor: str | None) -> tuple[float, Any] | None:
    """The item that a page begins behind; None for the first page. Raises `Problem`."""
    if cursor is None:
        return None
    try:
        value, id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        text, number = type(id) is str and "\0" not in id, type(id) is int and abs(id) < 2**53
        if type(value) in (int, float) and abs(value) < 2**53 and (text or number):
            return float(value), id
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise Problem(422, "the cursor is none that this service returned")


def text_position(cursor: str | None) -> tuple[float, str] | None:
    """`position` in a list whose items have texts as ids."""
    found = position(cursor)
    if found is not None and not isinstance(found[1], str):
        raise Problem(422, "the cursor is none of this list")
    return found


def time_text(seconds: float | None) -> str | None:
    """A time as RFC 3339 has it, in UTC."""
    if seconds is None:
        return None
    found = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
