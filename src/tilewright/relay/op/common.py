"""Shared parts of the operator files: building calls, and the type rules most operators have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.attributes import complete
from tilewright.relay.ir.expr import Attrs, Call, Expr, Tuple, const, element_type
from tilewright.relay.ir.registry import Compute, get
from tilewright.relay.ir.type import Dim, TensorType, TupleType, Type
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.unknown_sizes import UnknownSize
from tilewright.support.dtype import DType
from tilewright.topi.shapes import conv_output, equal, may_hold, smaller
from tilewright.topi.util import per_axis, sides

Types = Sequence[Type]


def call(name: str, *args: Any, **attrs: Any) -> Call:
    """A call of the operator `name`; Python numbers among `args` become constants of the other arguments' dtype.

    Raises TypeMismatchError where the operator does not take the attributes.
    """
    op = get(name)
    complete_attrs = complete(name, op.attributes, attrs)
    if all(isinstance(arg, Expr) for arg in args):
        return Call(op, args, complete_attrs)
    dtype = next((d for d in map(element_type, args) if d is not None), None)
    return Call(op, [_expr(arg, dtype) for arg in args], complete_attrs)


def _expr(value: Any, dtype: DType | None) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(item, Expr) for item in value):
        return Tuple([_expr(item, dtype) for item in value])
    return const(value, None if isinstance(value, np.ndarray) else dtype)


def window_attrs(
    strides: int | Sequence[int], padding: int | Sequence[int], dilation: int | Sequence[int], axes: int = 2
) -> dict[str, tuple[int, ...]]:
    """Attributes of a window that moves along `axes` axes, as operators hold them: one number an axis, two for padding.

    `padding` becomes (before …, after …), along two axes (top, left, bottom, right).
    """
    return {
        "strides": per_axis(strides, axes),
        "padding": sides(padding, axes),
        "dilation": per_axis(dilation, axes),
    }


def tensor(type_: Type) -> TensorType:
    """`type_` if it is a tensor. Raises TypeMismatchError."""
    if not isinstance(type_, TensorType):
        raise TypeMismatchError(f"a tensor is needed, not {type_}")
    return type_


def dims(expr: Expr) -> tuple[Any, ...]:
    """The shape of a tensor-valued `expr`, derived if need be: ints and symbolic sizes. Raises TypeMismatchError."""
    return tensor_type_of(expr).shape


def tensors(types: Types) -> list[TensorType]:
    """All of `types` as tensors."""
    return [tensor(t) for t in types]


def tuple_of_tensors(type_: Type) -> list[TensorType]:
    """The fields of a tuple of one or more tensors. Raises TypeMismatchError."""
    if not isinstance(type_, TupleType) or not type_.fields:
        raise TypeMismatchError(f"a tuple of tensors is needed, not {type_}")
    return [tensor(field) for field in type_.fields]


def require(condition: Any, message: str) -> None:
    """Raise TypeMismatchError with `message` unless `condition`; one on symbolic sizes only if it is known to fail.

    A run checks what is not known (`assumptions.py`).
    """
    if not may_hold(condition):
        raise TypeMismatchError(message)


def require_float(type_: TensorType) -> None:
    """The operator is defined on floating point only."""
    require(type_.dtype.is_float, f"it needs a floating point tensor, not {type_.dtype}; cast it first")


def require_number(type_: TensorType) -> None:
    """The operator computes with or orders numbers: bools and types that are only moved and cast are refused."""
    dtype = type_.dtype
    require(not (dtype.is_bool or dtype.is_narrow), f"it needs a numeric tensor, not {dtype}; cast it first")


def require_order(type_: TensorType) -> None:
    """The operator orders elements: types that are only moved and cast are refused."""
    require(not type_.dtype.is_narrow, f"it needs a numeric or bool tensor, not {type_.dtype}; cast it first")


def require_same_dtype(*types: TensorType) -> None:
    """All operands have one element type."""
    different = len({t.dtype for t in types}) > 1
    require(not different, f"the dtypes {', '.join(t.dtype for t in types)} differ; cast one of the operands")


def require_factors(left: TensorType, right: TensorType, out_dtype: str) -> None:
    """Check the operands of a sum of products: one element type, or integers of any two where `out_dtype` is given."""
    if not (out_dtype and left.dtype.is_int and right.dtype.is_int):
        require_same_dtype(left, right)


def check_axis(axis: int, ndim: int) -> int:
    """`axis` counted from the front. Raises TypeMismatchError."""
    require(-ndim <= axis < ndim, f"axis {axis} is out of range for {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


def broadcast_shapes(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """NumPy's common shape. Raises TypeMismatchError.

    Symbolic sizes that differ are taken to be equal, which is checked at run time; one beside a number other than 1 is
    taken to be that number. A size of which nothing is known is taken to be any other but 1.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    full = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    try:
        return tuple([_common_dim(dims) for dims in zip(*full)])
    except ValueError:
        listed = " and ".join(str(shape) for shape in shapes)
        raise TypeMismatchError(f"the shapes {listed} do not broadcast") from None


def _common_dim(dims: Sequence[Dim]) -> Dim:
    numbers = {dim for dim in dims if isinstance(dim, int) and dim != 1}
    if len(numbers) > 1:
        raise ValueError
    if numbers:
        return numbers.pop()
    symbolic = [dim for dim in dims if not isinstance(dim, int)]
    return next((dim for dim in symbolic if not isinstance(dim, UnknownSize)), symbolic[0] if symbolic else 1)


def same_dim(a: Dim, b: Dim) -> bool:
    """True unless the two sizes are known to differ."""
    return a is b or may_hold(equal(a, b))


def at_most(a: Dim, b: Dim) -> bool:
    """True unless the size `a` is known to be larger than `b`."""
    return may_hold(a <= b)


def divides(size: Dim, parts: int) -> bool:
    """True unless `size` is known not to be a multiple of `parts`."""
    return may_hold(equal(size % parts, 0))


def require_positions(sizes: Sequence[Dim], count: Dim) -> None:
    """Refuse to read `count` elements, or write them, on axes of `sizes` of which one is empty; none may always be."""
    message = f"an axis of size 0 has no positions, and {count} are requested"
    require(all(at_most(smaller(count, 1), size) for size in sizes), message)


def known_size(size: Dim, what: str) -> int:
    """`size` where it must be known when compiling. Raises TypeMismatchError."""
    require(isinstance(size, int), f"{what} must be known, not {size}")
    assert isinstance(size, int)
    return size


def windows_along(sizes: Sequence[Dim], kernel: Sequence[int], attrs: Attrs, dilation: Sequence[int]) -> list[Dim]:
    """The number of kernel positions along height and width; strides and padding (top, left, bottom, right) are in
    `attrs`.

    Raises TypeMismatchError where it is known to fit nowhere.
    """
    pads, strides = attrs["padding"], attrs["strides"]
    found = [conv_output(sizes[i], kernel[i], strides[i], pads[i], pads[i + 2], dilation[i]) for i in range(2)]
    message = f"the kernel {kernel[0]}x{kernel[1]} is larger than the padded data {sizes[0]}x{sizes[1]}, padding {pads}"
    require(all(at_most(1, extent) for extent in found), message)
    return found


def same_types(a: TensorType, b: TensorType) -> bool:
    """True unless the two are known to differ."""
    return a.dtype == b.dtype and same_dims(a.shape, b.shape)


def same_dims(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """True unless the two shapes are known to differ."""
    return len(a) == len(b) and all(map(same_dim, a, b))


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
