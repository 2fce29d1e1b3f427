"""Records in force: `with applied(database):` compiles models with them that are given none of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.records.database import Database

_CURRENT: ContextVar[Database | None] = ContextVar("tilewright_records", default=None)


@contextmanager
def applied(records: Database | None) -> Iterator[None]:
    """Within the block, `records` are those that compilation uses; None: none."""
    token = _CURRENT.set(records)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def records_in_force() -> Database | None:
    """The records of the innermost block."""
    return _CURRENT.get()
