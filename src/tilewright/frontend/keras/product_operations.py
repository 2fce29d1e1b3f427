"""Operations of `keras.ops` that multiply arrays, or make them from a rule: products, differences, ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders.product import broadcast_shape, einsum, matmul
from tilewright.frontend.idioms import (
    broadcast_to,
    cast,
    constant,
    dtype_of,
    index_axis,
    like,
    move_axis,
    product,
    rank_of,
    reshape,
    shape_of,
    transpose,
)
from tilewright.frontend.keras.layer import Operation, as_float, tensors
from tilewright.frontend.keras.registry import operation
from tilewright.frontend.keras.shape_operations import whole_numbers
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


@operation("Matmul")
def convert_matmul(_item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    if dtype_of(left) in ("int8", "uint8"):
        left, right = cast(left, "int32"), cast(right, "int32")
    return matmul(left, right)


@operation("Einsum")
def convert_einsum(_item: Operation, *operands: Any, subscripts: str) -> Expr:
    return einsum(subscripts, tensors(*operands))


@operation("Dot", "Vdot", "Inner")
def convert_dot(item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    if item.class_name == "Vdot":
        return op.sum(op.multiply(*(reshape(one, (product(shape_of(one)),)) for one in (left, right))))
    a, b = rank_of(left), rank_of(right)
    if not a or not b:
        return left * right
    letters = "abcdefghijkl"
    first, second = letters[: a - 1] + "z", letters[a - 1 : a + b - 2]
    other = second[:-1] + "z" + second[-1:] if item.class_name == "Dot" and b > 1 else second + "z"
    return einsum(f"{first},{other}->{first[:-1]}{second}", [left, right])


@operation("Tensordot")
def convert_tensordot(_item: Operation, x1: Any, x2: Any, axes: Any = 2) -> Expr:
    left, right = tensors(x1, x2)
    a, b = rank_of(left), rank_of(right)
    if isinstance(axes, int):
        first, second = list(range(a - axes, a)), list(range(axes))
    else:
        first, second = ([one % rank for one in whole_numbers(part)] for part, rank in zip(axes, (a, b)))
    rows = [axis for axis in range(a) if axis not in first]
    columns = [axis for axis in range(b) if axis not in second]
    inner = product([shape_of(left)[axis] for axis in first])
    x = reshape(transpose(left, (*rows, *first)), (product([shape_of(left)[axis] for axis in rows]), inner))
    y = reshape(transpose(right, (*second, *columns)), (inner, product([shape_of(right)[axis] for axis in columns])))
    return reshape(matmul(x, y), [shape_of(left)[axis] for axis in rows] + [shape_of(right)[axis] for axis in columns])


@operation("Outer", "Kron")
def convert_outer(item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    if item.class_name == "Outer":
        left, right = (reshape(one, (product(shape_of(one)),)) for one in (left, right))
        return op.expand_dims(left, axis=1) * op.expand_dims(right, axis=0)
    rank = max(rank_of(left), rank_of(right))
    left, right = (reshape(one, (*[1] * (rank - rank_of(one)), *shape_of(one))) for one in (left, right))
    a, b = shape_of(left), shape_of(right)
    wide = reshape(left, [n for x in a for n in (x, 1)]) * reshape(right, [n for x in b for n in (1, x)])
    return reshape(wide, [x * y for x, y in zip(a, b)])


@operation("Cross")
def convert_cross(
    item: Operation, x1: Any, x2: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Expr:
    left, right = tensors(x1, x2)
    if axis is not None:
        axisa = axisb = axisc = int(axis)
    left, right = (
        move_axis(left, axisa % rank_of(left), rank_of(left) - 1),
        move_axis(right, axisb % rank_of(right), rank_of(right) - 1),
    )
    if shape_of(left)[-1] != 3 or shape_of(right)[-1] != 3:
        item.unsupported("the cross product of vectors of other than three elements")
    a, b = ([index_axis(part, rank_of(part) - 1, one) for one in range(3)] for part in (left, right))
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    made = op.stack(parts, axis=rank_of(parts[0]))
    return move_axis(made, rank_of(made) - 1, axisc % rank_of(made))


@operation("Diff")
def convert_diff(_item: Operation, a: Any, n: int = 1, axis: int = -1) -> Expr:
    (value,) = tensors(a)
    position = int(axis) % rank_of(value)
    for _ in range(n):
        extent = shape_of(value)[position]
        late, early = (
            op.strided_slice(value, begin=(b,), end=(e,), strides=(1,), axes=(position,))
            for b, e in ((1, extent), (0, extent - 1))
        )
        value = op.not_equal(late, early) if dtype_of(value) == "bool" else late - early
    return value


@operation("Trapezoid")
def convert_trapezoid(_item: Operation, y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Expr:
    value = as_float(y)
    position = int(axis) % rank_of(value)
    extent = shape_of(value)[position]
    late, early = (
        op.strided_slice(value, begin=(b,), end=(e,), strides=(1,), axes=(position,))
        for b, e in ((1, extent), (0, extent - 1))
    )
    step = like(float(dx), value) if x is None else convert_diff(_item, cast(tensors(x)[0], dtype_of(value)), 1, -1)
    if rank_of(step) == 1:
        step = reshape(step, [extent - 1 if one == position else 1 for one in range(rank_of(value))])
    return op.sum((late + early) * 0.5 * step, axis=(position,))


@operation("Vander")
def convert_vander(_item: Operation, x: Any, N: Any = None, increasing: bool = False) -> Expr:
    (value,) = tensors(x)
    count = int(N) if N is not None else shape_of(value)[0]
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    return op.power(op.expand_dims(value, axis=1), constant(powers.copy(), dtype_of(value)))


@operation("UnravelIndex")
def convert_unravel_index(_item: Operation, indices: Any, shape: Sequence[int]) -> list[Expr]:
    (value,) = tensors(indices)
    value = op.where(value < 0, value + math.prod(shape), value)
    parts = []
    for extent in list(shape)[::-1]:
        parts.append(op.floor_mod(value, like(extent, value)))
        value = op.floor_divide(value, like(extent, value))
    return parts[::-1]


@operation("Linspace", "Logspace", "Geomspace")
def convert_linspace(
    item: Operation, start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10,
    retstep: bool = False, dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    first, last = tensors(start, stop, at_least_float=True)
    if item.class_name == "Geomspace":
        first, last = op.log(first), op.log(last)
    parts = max(num - 1, 1) if endpoint else max(num, 1)
    shape = broadcast_shape(shape_of(first), shape_of(last))
    first, last = broadcast_to(first, shape), broadcast_to(last, shape)
    step = (last - first) / parts
    ramp = constant(np.arange(num).reshape(num, *[1] * len(shape)), dtype_of(first))
    made: Expr = op.expand_dims(first, axis=0) + ramp * op.expand_dims(step, axis=0)
    if item.class_name != "Linspace":
        made = op.exp(made) if item.class_name == "Geomspace" else op.power(float(base), made)
    made = move_axis(made, 0, int(axis) % rank_of(made))
    made = cast(made, str(dtype)) if dtype else made
    return [made, step] if retstep else made


@operation("Arange")
def convert_arange(item: Operation, start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Expr:
    values = [one.data.item() if isinstance(one, Constant) else one for one in (start, stop, step)]
    if any(isinstance(one, Expr) for one in values):
        item.unsupported("a range between numbers that are computed")
    begin, end = (0, values[0]) if values[1] is None else values[:2]
    made = np.arange(begin, end, values[2] or 1)
    return constant(made, str(dtype) if dtype else "int32" if made.dtype.kind in "iu" else "float32")


@operation("Full")
def convert_full(_item: Operation, fill_value: Any, shape: Any = None, dtype: Any = None) -> Expr:
    (value,) = tensors(fill_value)
    value = cast(value, str(dtype)) if dtype else value
    return broadcast_to(value, [int(extent) for extent in shape])


@operation("Gcd", "Lcm")
def convert_gcd(item: Operation, x1: Any, x2: Any) -> Expr:
    """Euclid's algorithm, as often as it takes for the largest numbers of the type."""
    left, right = tensors(x1, x2)
    a, b = op.abs(left), op.abs(right)
    zero, one = like(0, left), like(1, left)
    rounds = {"int8": 12, "uint8": 13, "int16": 24, "uint16": 25, "int32": 47, "uint32": 48}.get(dtype_of(left), 93)
    for _ in range(rounds):
        done = op.equal(b, zero)
        a, b = op.where(done, a, b), op.where(done, zero, op.floor_mod(a, op.where(done, one, b)))
    if item.class_name == "Gcd":
        return a
    size = op.abs(left * right)
    return op.where(op.equal(a, zero), zero, op.floor_divide(size, op.where(op.equal(a, zero), one, a)))


@operation("IsIn")
def convert_is_in(_item: Operation, x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Expr:
    left, right = tensors(x1, x2)
    flat = reshape(right, (product(shape_of(right)),))
    found = op.any(op.equal(op.expand_dims(left, axis=rank_of(left)), flat), axis=(rank_of(left),))
    return op.logical_not(found) if invert else found


@operation("ExtractSequences")
def convert_extract_sequences(_item: Operation, x: Any, sequence_length: int, sequence_stride: int) -> Expr:
    (value,) = tensors(x)
    count = (shape_of(value)[-1] - sequence_length) // sequence_stride + 1
    positions = np.arange(count)[:, None] * sequence_stride + np.arange(sequence_length)
    return op.take(value, Constant(positions.astype(np.int32)), axis=rank_of(value) - 1)


@operation("CDist")
def convert_cdist(_item: Operation, x: Any, y: Any) -> Expr:
    left, right = tensors(x, y, at_least_float=True)
    apart = op.expand_dims(left, axis=rank_of(left) - 1) - op.expand_dims(right, axis=rank_of(right) - 2)
    return op.sqrt(op.sum(apart * apart, axis=(-1,)))
