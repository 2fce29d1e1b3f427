"""What the operator files share: building calls, and the type rules most operators have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.errors import TypeMismatchError
from tilewright.relay.expr import Attrs, Call, Expr, Tuple, const, element_type
from tilewright.relay.op.registry import Compute, get
from tilewright.relay.type import TensorType, TupleType, Type
from tilewright.support.dtype import DType

Types = Sequence[Type]


def call(name: str, *args: Any, **attrs: Any) -> Call:
    """A call of the operator `name`; Python numbers among `args` become constants of the other arguments' dtype."""
    if all(isinstance(arg, Expr) for arg in args):
        return Call(get(name), args, attrs)
    dtype = next((d for d in map(element_type, args) if d is not None), None)
    return Call(get(name), [_expr(arg, dtype) for arg in args], attrs)


def _expr(value: Any, dtype: DType | None) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(item, Expr) for item in value):
        return Tuple([_expr(item, dtype) for item in value])
    return const(value, None if isinstance(value, np.ndarray) else dtype)


def tensor(type_: Type) -> TensorType:
    """`type_` if it is a tensor. Raises TypeMismatchError."""
    if not isinstance(type_, TensorType):
        raise TypeMismatchError(f"a tensor is needed, not {type_}")
    return type_


def tensors(types: Types) -> list[TensorType]:
    """All of `types` as tensors."""
    return [tensor(t) for t in types]


def tuple_of_tensors(type_: Type) -> list[TensorType]:
    """The fields of a tuple of one or more tensors. Raises TypeMismatchError."""
    if not isinstance(type_, TupleType) or not type_.fields:
        raise TypeMismatchError(f"a tuple of tensors is needed, not {type_}")
    return [tensor(field) for field in type_.fields]


def require(condition: bool, message: str) -> None:
    """Raise TypeMismatchError with `message` unless `condition`."""
    if not condition:
        raise TypeMismatchError(message)


def require_float(type_: TensorType) -> None:
    """The operator is defined on floating point only."""
    require(type_.dtype.is_float, f"it needs a floating point tensor, not {type_.dtype}; cast it first")


def require_same_dtype(*types: TensorType) -> None:
    """All operands have one element type."""
    different = len({t.dtype for t in types}) > 1
    require(not different, f"the dtypes {', '.join(t.dtype for t in types)} differ; cast one of the operands")


def check_axis(axis: int, ndim: int) -> int:
    """`axis` counted from the front. Raises TypeMismatchError."""
    require(-ndim <= axis < ndim, f"axis {axis} is out of range for {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's common shape. Raises TypeMismatchError."""
    try:
        return tuple(int(size) for size in np.broadcast_shapes(*shapes))
    except ValueError:
        listed = " and ".join(str(shape) for shape in shapes)
        raise TypeMismatchError(f"the shapes {listed} do not broadcast") from None


# ------------------------------------------------------------------------------------------------- type rules
def same_as_input(types: Types, _attrs: Attrs) -> Type:
    """The result has the type of the first input."""
    return tensor(types[0])


def same_as_float_input(types: Types, _attrs: Attrs) -> Type:
    """The result has the type of the first input, which is floating point."""
    first = tensor(types[0])
    require_float(first)
    return first


def to_bool(types: Types, _attrs: Attrs) -> Type:
    """bool, in the shape of the first input."""
    return TensorType(tensor(types[0]).shape, "bool")


# ---------------------------------------------------------------------------------------------------- computes
def one(function: Callable[..., te.Tensor]) -> Compute:
    """A compute from a topi function that takes the inputs and nothing else."""
    return lambda _attrs, inputs, _out: [function(*inputs)]


def with_attrs(function: Callable[..., te.Tensor], *names: str) -> Compute:
    """A compute from a topi function that takes the inputs and then the named attributes as keywords."""
    return lambda attrs, inputs, _out: [function(*inputs, **{name: attrs[name] for name in names})]
