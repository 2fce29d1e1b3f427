"""The table of a format's converters: an operator to the function that converts it.

    converts = Converters("caffe")

    @converts("Convolution", "Deconvolution")
    def convert_convolution(node): ...

A converter is a function of one node that returns the expression of its result, or a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tilewright.relay.ir.expr import Expr
from tilewright.support import plugins

Converter = Callable[[Any], "Expr | Sequence[Expr]"]

Function = TypeVar("Function", bound=Callable[..., Any])


class Converters:
    """The converters of one format, called `name`; calling it makes the decorator that enters one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._table: dict[str, Converter] = {}

    def __call__(self, *operators: str) -> Callable[[Function], Function]:
        """Register a function as the converter of `operators`; the last one registered holds."""

        def register(function: Function) -> Function:
            for operator in operators:
                self._table[operator] = function
                plugins.note(f"{self._name} converter", operator, function)
            return function

        return register

    def find(self, operator: str) -> Converter | None:
        """The converter of an operator, or None where there is none."""
        return self._table.get(operator)

    def supported(self) -> list[str]:
        """The operators that have a converter, sorted."""
        return sorted(self._table)
