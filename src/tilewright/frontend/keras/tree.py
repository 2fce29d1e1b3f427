"""Lists, tuples and dictionaries of values, as arguments and results of layers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.relay.ir.expr import Expr


def flatten(value: Any) -> list[Any]:
    """The leaves in order; those of a dictionary by its sorted keys."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flatten(item)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    return [value]


def map_tensors(value: Any, function: Callable[[Expr], Any]) -> Any:
    """The same structure with `function` of each expression; other leaves stay."""
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(item, function) for item in value)
    if isinstance(value, dict):
        return {key: map_tensors(item, function) for key, item in value.items()}
    return function(value) if isinstance(value, Expr) else value
