"""Names for functions that are made in a loop or a factory, so that `help` and tracebacks show which one it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Made = TypeVar("_Made", bound=Callable[..., object])


def named(function: _Made, name: str, doc: str | None) -> _Made:
    """`function` itself, under `name` and with the docstring `doc`."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function
