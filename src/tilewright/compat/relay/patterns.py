"""`relay.op.contrib.register`: tables of patterns for `relay.transform.MergeComposite`, by code generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TABLES: dict[str, Callable[[], Any]] = {}


def register_pattern_table(compiler: str, table: Callable[[], Any] | None = None) -> Any:
    """Register a function that returns the pattern table of a code generator; a decorator without `table`."""

    def register(function: Callable[[], Any]) -> Any:
        _TABLES[compiler] = function
        return function()

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> Any:
    """The pattern table of a code generator, or None."""
    return _TABLES[compiler]() if compiler in _TABLES else None
