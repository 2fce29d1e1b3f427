"""Operations of `keras.ops` that multiply arrays, or make them from a rule: products, differences, ranges."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders.product import broadcast_shape, einsum, kron, matmul
from tilewright.frontend.keras.layer import Axis, FloatTensor, Operation, Tensor, tensors, whole_numbers
from tilewright.frontend.keras.registry import operation, operations
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

operations("Tensor", {
    "Vdot": lambda x1, x2: op.sum(idioms.as_vector(x1) * idioms.as_vector(x2)),
    "Kron": kron, "Outer": lambda x1, x2: op.expand_dims(idioms.as_vector(x1), axis=1) * idioms.as_vector(x2),
})  # fmt: skip


@operation("Matmul")
def convert_matmul(x1: Tensor, x2: Tensor) -> Expr:
    if idioms.dtype_of(x1) in ("int8", "uint8"):
        x1, x2 = idioms.cast(x1, "int32"), idioms.cast(x2, "int32")
    return matmul(x1, x2)


@operation("Einsum")
def convert_einsum(*operands: Any, subscripts: str) -> Expr:
    return einsum(subscripts, tensors(*operands))


@operation("Dot", "Inner")
def convert_dot(item: Operation, x1: Tensor, x2: Tensor) -> Expr:
    a, b = idioms.rank_of(x1), idioms.rank_of(x2)
    if not a or not b:
        return x1 * x2
    letters = "abcdefghijkl"
    first, second = letters[: a - 1] + "z", letters[a - 1 : a + b - 2]
    other = second[:-1] + "z" + second[-1:] if item.class_name == "Dot" and b > 1 else second + "z"
    return einsum(f"{first},{other}->{first[:-1]}{second}", [x1, x2])


@operation("Tensordot")
def convert_tensordot(x1: Tensor, x2: Tensor, axes: Any = 2) -> Expr:
    a, b = idioms.rank_of(x1), idioms.rank_of(x2)
    if isinstance(axes, int):
        first, second = list(range(a - axes, a)), list(range(axes))
    else:
        first, second = ([one % rank for one in whole_numbers(part)] for part, rank in zip(axes, (a, b)))
    summed = dict(zip(second, first))
    left, right = range(a), [summed.get(axis, a + axis) for axis in range(b)]
    x, y, made = (
        "".join(string.ascii_letters[axis] for axis in axes)
        for axes in (left, right, [axis for axis in (*left, *right) if (axis in left) != (axis in right)])
    )
    return einsum(f"{x},{y}->{made}", [x1, x2])


@operation("Cross")
def convert_cross(
    item: Operation, x1: Tensor, x2: Tensor, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Expr:
    if axis is not None:
        axisa = axisb = axisc = int(axis)
    x1, x2 = (
        idioms.move_axis(x1, axisa % idioms.rank_of(x1), idioms.rank_of(x1) - 1),
        idioms.move_axis(x2, axisb % idioms.rank_of(x2), idioms.rank_of(x2) - 1),
    )
    if idioms.shape_of(x1)[-1] != 3 or idioms.shape_of(x2)[-1] != 3:
        item.unsupported("the cross product of vectors of other than three elements")
    a, b = ([idioms.index_axis(part, idioms.rank_of(part) - 1, one) for one in range(3)] for part in (x1, x2))
    parts = [a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    made = op.stack(parts, axis=idioms.rank_of(parts[0]))
    return idioms.move_axis(made, idioms.rank_of(made) - 1, axisc % idioms.rank_of(made))


@operation("Diff")
def convert_diff(a: Expr, n: int = 1, axis: Axis = -1) -> Expr:
    for _ in range(n):
        early, late = _neighbours(a, axis)
        a = op.not_equal(late, early) if idioms.dtype_of(a) == "bool" else late - early
    return a


def _neighbours(value: Expr, axis: int) -> tuple[Expr, Expr]:
    """The elements of an axis but the last, and those but the first."""
    extent = idioms.shape_of(value)[axis]
    return idioms.slice_axis(value, axis, 0, extent - 1), idioms.slice_axis(value, axis, 1, extent)


@operation("Trapezoid")
def convert_trapezoid(y: FloatTensor, x: Any = None, dx: float = 1.0, axis: Axis = -1) -> Expr:
    early, late = _neighbours(y, axis)
    if x is None:
        return op.sum((late + early) * 0.5 * float(dx), axis=(axis,))
    points = idioms.cast(tensors(x)[0], idioms.dtype_of(y))
    step = convert_diff(points, 1, idioms.rank_of(points) - 1)
    step = idioms.on_axis(step, axis, idioms.rank_of(y)) if idioms.rank_of(step) == 1 else step
    return op.sum((late + early) * 0.5 * step, axis=(axis,))


@operation("Vander")
def convert_vander(x: Expr, N: Any = None, increasing: bool = False) -> Expr:
    count = int(N) if N is not None else idioms.shape_of(x)[0]
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    return op.power(op.expand_dims(x, axis=1), idioms.constant(powers.copy(), idioms.dtype_of(x)))


@operation("UnravelIndex")
def convert_unravel_index(indices: Expr, shape: Sequence[int]) -> list[Expr]:
    indices = op.where(indices < 0, indices + math.prod(shape), indices)
    parts = []
    for extent in list(shape)[::-1]:
        parts.append(op.floor_mod(indices, idioms.like(extent, indices)))
        indices = op.floor_divide(indices, idioms.like(extent, indices))
    return parts[::-1]


@operation("Linspace", "Logspace", "Geomspace")
def convert_linspace(
    item: Operation, start: FloatTensor, stop: FloatTensor, num: int = 50, endpoint: bool = True, base: float = 10,
    retstep: bool = False, dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    if item.class_name == "Geomspace":
        start, stop = op.log(start), op.log(stop)
    parts = max(num - 1, 1) if endpoint else max(num, 1)
    shape = broadcast_shape(idioms.shape_of(start), idioms.shape_of(stop))
    start, stop = idioms.broadcast_to(start, shape), idioms.broadcast_to(stop, shape)
    step = (stop - start) / parts
    ramp = idioms.constant(np.arange(num).reshape(num, *[1] * len(shape)), idioms.dtype_of(start))
    made: Expr = op.expand_dims(start, axis=0) + ramp * op.expand_dims(step, axis=0)
    if item.class_name != "Linspace":
        made = op.exp(made) if item.class_name == "Geomspace" else op.power(float(base), made)
    made = idioms.move_axis(made, 0, int(axis) % idioms.rank_of(made))
    made = idioms.cast(made, str(dtype)) if dtype else made
    return [made, step] if retstep else made


@operation("Arange")
def convert_arange(item: Operation, start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Expr:
    values = [one.data.item() if isinstance(one, Constant) else one for one in (start, stop, step)]
    if any(isinstance(one, Expr) for one in values):
        item.unsupported("a range between numbers that are computed")
    begin, end = (0, values[0]) if values[1] is None else values[:2]
    made = np.arange(begin, end, values[2] or 1)
    return idioms.constant(made, str(dtype) if dtype else "int32" if made.dtype.kind in "iu" else "float32")


@operation("Full")
def convert_full(fill_value: Expr, shape: Any = None, dtype: Any = None) -> Expr:
    fill_value = idioms.cast(fill_value, str(dtype)) if dtype else fill_value
    return idioms.broadcast_to(fill_value, [int(extent) for extent in shape])


@operation("Gcd", "Lcm")
def convert_gcd(item: Operation, x1: Tensor, x2: Tensor) -> Expr:
    """Euclid's algorithm, as often as it takes for the largest numbers of the type."""
    a, b = op.abs(x1), op.abs(x2)
    zero, one = idioms.like(0, x1), idioms.like(1, x1)
    rounds = {"int8": 12, "uint8": 13, "int16": 24, "uint16": 25, "int32": 47, "uint32": 48}.get(
        idioms.dtype_of(x1), 93
    )
    for _ in range(rounds):
        done = op.equal(b, zero)
        a, b = op.where(done, a, b), op.where(done, zero, op.floor_mod(a, op.where(done, one, b)))
    if item.class_name == "Gcd":
        return a
    size = op.abs(x1 * x2)
    return op.where(op.equal(a, zero), zero, op.floor_divide(size, op.where(op.equal(a, zero), one, a)))


@operation("IsIn")
def convert_is_in(x1: Tensor, x2: Tensor, assume_unique: bool = False, invert: bool = False) -> Expr:
    flat = idioms.as_vector(x2)
    found = op.any(op.equal(op.expand_dims(x1, axis=idioms.rank_of(x1)), flat), axis=(idioms.rank_of(x1),))
    return op.logical_not(found) if invert else found


@operation("ExtractSequences")
def convert_extract_sequences(x: Expr, sequence_length: int, sequence_stride: int) -> Expr:
    count = (idioms.shape_of(x)[-1] - sequence_length) // sequence_stride + 1
    positions = np.arange(count)[:, None] * sequence_stride + np.arange(sequence_length)
    return op.take(x, Constant(positions.astype(np.int32)), axis=idioms.rank_of(x) - 1)


@operation("CDist")
def convert_cdist(x: FloatTensor, y: FloatTensor) -> Expr:
    apart = op.expand_dims(x, axis=idioms.rank_of(x) - 1) - op.expand_dims(y, axis=idioms.rank_of(y) - 2)
    return op.sqrt(op.sum(apart * apart, axis=(-1,)))
