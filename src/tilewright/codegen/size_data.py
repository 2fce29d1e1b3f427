"""Sizes as plain data, for what the run time computes from the shapes it meets (`runtime.shape_program`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.tir import expr as e

_OPERATORS: dict[type, str] = {
    e.Add: "+", e.Sub: "-", e.Mul: "*", e.FloorDiv: "//", e.FloorMod: "%", e.Min: "min", e.Max: "max",
    e.LT: "<", e.LE: "<=", e.EQ: "==", e.NE: "!=", e.And: "and", e.Or: "or",
}  # fmt: skip


def size_data(size: int | e.Expr, names: Mapping[Any, str]) -> Any:
    """`size` as a number, the name of a variable, or (operator, a, b).

    Raises `UnsupportedError` for an expression that the run time cannot compute.
    """
    if isinstance(size, int):
        return size
    if isinstance(size, e.IntImm):
        return int(size.value)
    if isinstance(size, e.Call) and size.op == "likely":
        return size_data(size.args[0], names)
    if isinstance(size, e.Cast):
        return size_data(size.value, names)
    if isinstance(size, e.Var) and size in names:
        return names[size]
    if isinstance(size, e.GT | e.GE):
        return ("<" if type(size) is e.GT else "<=", size_data(size.b, names), size_data(size.a, names))
    if type(size) in _OPERATORS:
        return (_OPERATORS[type(size)], size_data(size.a, names), size_data(size.b, names))  # type: ignore[attr-defined]
    if isinstance(size, e.Select):
        return ("select", *[size_data(part, names) for part in size.fields()])
    raise UnsupportedError(f"the size {size} depends on more than the dimensions known: {', '.join(names.values())}")
