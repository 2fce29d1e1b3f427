"""The records of a `with applied(database):` block, used by compilations that pass none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.records.database import Database

_CURRENT: ContextVar[Database | None] = ContextVar("tilewright_records", default=None)


@contextmanager
def applied(records: Database | None) -> Iterator[None]:
    """Compile with `records` within the block; None: without records."""
    token = _CURRENT.set(records)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def records_in_force() -> Database | None:
    """The records of the innermost block."""
    return _CURRENT.get()
