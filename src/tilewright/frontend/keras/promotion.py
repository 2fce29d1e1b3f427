"""The element types in which `keras.ops` computes: the lattice of JAX, Python's numbers being of any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.idioms import cast, constant, dtype_of, is_float
from tilewright.relay.ir.expr import Constant, Expr

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def promote(*dtypes: str) -> str:
    """The type of a result of operands of these types."""
    kinds = set(dtypes)
    floats = [name for name in _FLOATS if name in kinds]
    if floats:
        return "float32" if floats == ["float16", "bfloat16"] else floats[-1]
    kinds.discard("bool")
    if not kinds:
        return "bool"
    signed = [name for name in _SIGNED if name in kinds]
    unsigned = [name for name in _UNSIGNED if name in kinds]
    if not signed or not unsigned:
        return (signed or unsigned)[-1]
    wider = _UNSIGNED.index(unsigned[-1]) + 1
    if wider == len(_SIGNED):
        return "float32"
    return _SIGNED[max(wider, _SIGNED.index(signed[-1]))]


def _python_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int32" if isinstance(value, int) else "float32"


def tensors(*values: Any, at_least_float: bool = False) -> list[Expr]:
    """Operands, tensors or Python's numbers, in the type that they are computed in."""
    arrays = [Constant(np.asarray(value)) if isinstance(value, list | tuple) else value for value in values]
    known = [dtype_of(value) for value in arrays if isinstance(value, Expr)]
    dtype = promote(*known) if known else promote(*[_python_kind(value) for value in arrays])
    if known and not is_float(dtype):
        weak = {_python_kind(value) for value in arrays if not isinstance(value, Expr)}
        if "float32" in weak:
            dtype = "float32"
        elif "int32" in weak and dtype == "bool":
            dtype = "int32"
    if at_least_float and not is_float(dtype):
        dtype = "float32"
    return [cast(value, dtype) if isinstance(value, Expr) else constant(value, dtype) for value in arrays]


def as_float(value: Any) -> Expr:
    """A tensor of floats: whole numbers become float32."""
    (made,) = tensors(value, at_least_float=True)
    return made


def on_floats(function: Callable[[Expr], Expr]) -> Callable[[Any, Any], Expr]:
    """The converter of an operation of one argument that computes in floats."""

    def convert(_operation: Any, x: Any) -> Expr:
        return function(as_float(x))

    return convert
