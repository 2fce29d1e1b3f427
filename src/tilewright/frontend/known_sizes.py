"""Sizes that a graph computes of the shapes of its tensors, followed through its calls while they are symbolic.

reshape(x, stack(shape_of(x)[0], -1))  with x: (n, 2, 4)   ->   the numbers (n, -1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.idioms import shape_of
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import as_dim

#: Calls followed at most, one within the other.
_MOST_DEPTH = 64

Numbers = np.ndarray[Any, Any]

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b, "floor_mod": lambda a, b: a % b,
}  # fmt: skip


def known_sizes(value: Expr, depth: int = 0) -> Numbers | None:
    """The whole numbers of a tensor as an array of objects, symbolic ones as expressions; None where a run decides."""
    if isinstance(value, Constant):
        return value.data.astype(object) if value.data.dtype.kind in "iu" else None
    if not isinstance(value, Call) or not isinstance(value.op, Op) or depth > _MOST_DEPTH:
        return None
    name, attrs = value.op.name, value.attrs
    if name == "shape_of":
        return _objects(shape_of(value.args[0]))
    args = value.args[0].fields if len(value.args) == 1 and isinstance(value.args[0], Tuple) else value.args
    parts = [known_sizes(arg, depth + 1) for arg in args]
    if any(part is None for part in parts) or not parts:
        return None
    found = [part for part in parts if part is not None]
    if name in _BINARY:
        return _simplified(_BINARY[name](*found)) if name in _BINARY and _safe(name, found[1]) else None
    if name == "cast" and str(attrs["dtype"]) in ("int32", "int64"):
        return found[0]
    if name == "stack":
        return np.stack(found, int(attrs["axis"]))
    if name == "concatenate":
        return np.concatenate(found, int(attrs["axis"]))
    if name in ("squeeze", "expand_dims", "reshape"):
        shape = shape_of(value)
        return found[0].reshape(shape) if all(isinstance(extent, int) for extent in shape) else None
    return _sliced(found[0], attrs) if name == "strided_slice" else None


def _safe(name: str, divisor: Numbers) -> bool:
    """True where nothing is divided by what may be 0."""
    return name not in ("floor_divide", "floor_mod") or all(isinstance(n, int) and n > 0 for n in divisor.reshape(-1))


def _sliced(data: Numbers, attrs: Any) -> Numbers | None:
    index: list[slice] = [slice(None)] * data.ndim
    axes = attrs["axes"] if attrs["axes"] is not None else range(len(attrs["begin"]))
    strides = attrs["strides"] or (1,) * len(attrs["begin"])
    for axis, begin, end, stride in zip(axes, attrs["begin"], attrs["end"], strides):
        if not all(isinstance(number, int) for number in (begin, end, stride)):
            return None
        index[int(axis)] = slice(begin, end, stride)
    return data[tuple(index)]


def _objects(numbers: Any) -> Numbers:
    found = np.empty(len(numbers), object)
    for position, number in enumerate(numbers):
        found[position] = number
    return found


def _simplified(numbers: Any) -> Numbers:
    array = np.asarray(numbers, object)
    return _objects([as_dim(number) for number in array.reshape(-1)]).reshape(array.shape)
