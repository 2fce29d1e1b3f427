"""The table of a format's converters: an operator to the function that converts it.

    converts = Converters("caffe")

    @converts("ELU")
    def convert_elu(x: Expr, alpha: float = 1.0) -> Expr: ...

A converter returns the expression of a node's result, or a list of them. Its parameters are the inputs and attributes
of the operator (`signature.py`), or one, the node. An operator whose meaning changed has an entry for each meaning: the
one of the highest version `since` that a model's version reaches applies. Operators of other domains than the format's
own, and custom ones, are registered as such: `@converts("Mine", domain="com.example")`, `@converts("Mine",
custom=True)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from tilewright.frontend.graph_node import NodeInputs
from tilewright.frontend.signature import apply
from tilewright.relay.ir.expr import Expr
from tilewright.support import plugins

#: A function of a node or of its inputs and attributes; what it returns is an expression or a list of them.
Converter = Callable[..., Any]

Function = TypeVar("Function", bound=Converter)


class Converters:
    """The converters of one format, called `name`; calling it makes the decorator that enters one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._table: dict[tuple[str, str], list[tuple[int, Converter]]] = {}

    def __call__(
        self, *operators: str, since: int = 1, domain: str = "", custom: bool = False
    ) -> Callable[[Function], Function]:
        """Register a function as the converter of `operators`; the last one registered for a version holds."""
        domain = _domain(domain, custom)

        def register(function: Function) -> Function:
            for operator in operators:
                entries = self._table.setdefault((domain, operator), [])
                entries.append((since, function))
                entries.sort(key=lambda entry: entry[0])
                plugins.note(f"{self._name} converter", f"{domain}.{operator} {since}", function)
            return function

        return register

    def functions(self, table: Mapping[str, Converter], since: int = 1, domain: str = "") -> None:
        """Register functions whose own signatures are the schemas of operators; names are separated by spaces."""
        for operators, function in table.items():
            self(*operators.split(), since=since, domain=domain)(function)

    def unary(self, table: Mapping[str, Callable[[Expr], Expr]]) -> None:
        """Register functions of the one input, which formats of named inputs call `x`."""
        self.functions({operator: _of_inputs(function, "x") for operator, function in table.items()})

    def binary(self, table: Mapping[str, Callable[[Expr, Expr], Expr]]) -> None:
        """Register functions of the two inputs, which formats of named inputs call `x` and `y`."""
        self.functions({operator: _of_inputs(function, "xy") for operator, function in table.items()})

    def typed(self, table: Mapping[str, Callable[..., Any]]) -> None:
        """Register functions of the inputs in the element type that the operator computes in, and of attributes."""
        self.functions({operator: partial(_of_typed, function) for operator, function in table.items()})

    def schemas(self, table: Mapping[str, Callable[..., Any]]) -> None:
        """Register functions whose parameters are inputs or, with a default, attributes of its type."""
        self.functions({operator: partial(_of_inferred, function) for operator, function in table.items()})

    def find(
        self, operator: str, version: int | None = None, domain: str = "", custom: bool = False
    ) -> Converter | None:
        """The converter of an operator at a version, by default the newest; None where there is none."""
        entries = self._table.get((_domain(domain, custom), operator), ())
        found = [function for since, function in entries if version is None or since <= version]
        return found[-1] if found else None

    def supported(self) -> list[str]:
        """The operators of the format's own domain that have a converter, sorted."""
        return sorted(operator for domain, operator in self._table if not domain)

    def entries(self) -> list[tuple[str, str, int]]:
        """Every (domain, operator, first version) that has a converter, sorted."""
        return sorted((domain, operator, found[0][0]) for (domain, operator), found in self._table.items())


def _domain(domain: str, custom: bool) -> str:
    return "custom" if custom else domain


def _of_inputs(function: Callable[..., Expr], names: str) -> Converter:
    def convert(node: NodeInputs) -> Expr:
        return function(*[node.operand(name, index, optional=False) for index, name in enumerate(names)])

    return convert


def _of_typed(function: Callable[..., Any], node: Any) -> Any:
    return apply(function, node, typed=True)


def _of_inferred(function: Callable[..., Any], node: Any) -> Any:
    return apply(function, node, inferred=True)


def import_families(package: str, names: str) -> None:
    """Import modules of a package, whose converters that registers; `names` are separated by spaces."""
    for name in names.split():
        import_module(f"{package}.{name}")
