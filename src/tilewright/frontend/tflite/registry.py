"""The one table of converters: a TFLite operator to the function that converts it.

A converter is a function of one `Node` that returns the Relay expression of the operator's output, or a list of them.
Builtin operators go by the name that the schema gives them; a custom operator by its own, with `custom=True`:

    @converts("MyOperator", custom=True)
    def convert_mine(node): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tilewright.relay.ir.expr import Expr
from tilewright.support import plugins

if TYPE_CHECKING:
    from tilewright.frontend.tflite.node import Node

Converter = Callable[["Node"], "Expr | Sequence[Expr]"]

Function = TypeVar("Function", bound=Converter)

_TABLE: dict[tuple[bool, str], Converter] = {}


def converts(*operators: str, custom: bool = False) -> Callable[[Function], Function]:
    """Register a function as the converter of `operators`, builtin ones or custom ones."""

    def register(function: Function) -> Function:
        for operator in operators:
            _TABLE[custom, operator] = function
            plugins.note("tflite converter", operator, function)
        return function

    return register


def find_converter(operator: str, custom: bool) -> Converter | None:
    """The converter of a builtin or custom operator, or None when there is none."""
    return _TABLE.get((custom, operator))


def supported_operators() -> list[str]:
    """The builtin operators that have a converter, sorted."""
    return sorted(name for custom, name in _TABLE if not custom)
