"""The one table of converters: ATen operators to functions.

A converter is a function of one `TorchNode` that returns the Relay expression of the node's output, a list of
them, or None for what gives nothing.
It is registered under the name of an operator, ``aten.add``, for all of its overloads, or under that of one overload,
``aten.max.dim``, which then comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tilewright.frontend.builders.complex_numbers import Complex
from tilewright.relay.ir.expr import Expr
from tilewright.support import plugins

if TYPE_CHECKING:
    from tilewright.frontend.torch.node import TorchNode

Converter = Callable[["TorchNode"], "Expr | Complex | Sequence[Expr | Complex] | None"]

Function = TypeVar("Function", bound=Converter)

_TABLE: dict[str, Converter] = {}
#: Those of operators that read or give complex tensors, which are `Complex` to them.
_COMPLEX: dict[str, Converter] = {}


def converts(*operators: str) -> Callable[[Function], Function]:
    """Register a function as the converter of `operators`, ``aten.add`` or ``aten.max.dim``."""

    def register(function: Function) -> Function:
        for operator in operators:
            _TABLE[operator] = function
            plugins.note("converter", f"torch.{operator}", function)
        return function

    return register


def converts_complex(*operators: str) -> Callable[[Function], Function]:
    """Register a function as the converter of `operators` where something that they read or give is complex."""

    def register(function: Function) -> Function:
        for operator in operators:
            _COMPLEX[operator] = function
            plugins.note("converter", f"torch.{operator} of complex numbers", function)
        return function

    return register


def find_converter(overload: str, of_complex: bool = False) -> Converter | None:
    """The converter of an overload, ``aten.add.Tensor``, or None when there is none."""
    table = _COMPLEX if of_complex else _TABLE
    return table.get(overload) or table.get(overload.rpartition(".")[0])


def supported_operators() -> list[str]:
    """Every operator and overload that has a converter, sorted."""
    return sorted({*_TABLE, *_COMPLEX})
