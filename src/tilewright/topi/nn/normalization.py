"""Normalizations: layer, group (and instance), batch in its inference form, local response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.elemwise import in_float32
from tilewright.topi.util import accumulator_dtype, extents, normalize_axis


def _statistics(
    shape: Sequence[int],
    ranges: Sequence[tuple[int, str]],
    read: Callable[..., Any],
    count: Any,
    epsilon: float,
    prefix: str,
) -> tuple[Tensor, Tensor]:
    """(mean, 1 / sqrt(variance + epsilon)) of `read(outer, inner)` over `ranges`; the variance in a second pass.

    `count`, the number of elements read, is a number or an expression of symbolic sizes.
    """

    def share(dtype: Any) -> Any:
        if isinstance(count, int):
            return tir.const(1.0 / count, dtype)
        return tir.div(tir.const(1.0, dtype), count.astype(dtype))

    def reduced(source: Callable[..., Any], name: str) -> Tensor:
        axes = [te.reduce_axis((0, size), name=label) for size, label in ranges]
        return te.compute(
            shape, lambda *i: te.sum(source(i, [a.var for a in axes]), axis=axes), name=name, tag=tag.COMM_REDUCE
        )

    total = reduced(read, f"{prefix}_sum")
    mean = te.compute(shape, lambda *i: total(*i) * share(total.dtype), name=f"{prefix}_mean", tag=tag.ELEMWISE)

    def squared(i: Any, k: Any) -> Any:
        centred = read(i, k) - mean(*i)
        return centred * centred

    squares = reduced(squared, f"{prefix}_squares")

    def scale(*i: Any) -> Any:
        variance = squares(*i) * share(squares.dtype)
        return tir.const(1.0, squares.dtype) / tir.sqrt(variance + tir.const(epsilon, squares.dtype))

    return mean, te.compute(shape, scale, name=f"{prefix}_scale", tag=tag.ELEMWISE)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta along `axis`.

    Stages: layer_norm_sum, _mean, _squares, _scale (one value a row), layer_norm.
    """
    at, wide = normalize_axis(axis, x.ndim), accumulator_dtype(x.dtype)
    shape = extents(x)
    rows = [s for d, s in enumerate(shape) if d != at]

    def read(i: Any, k: Any) -> Any:
        return x(*i[:at], k[0], *i[at:]).astype(wide)

    mean, scale = _statistics(rows, [(shape[at], "k")], read, shape[at], epsilon, "layer_norm")

    def body(*i: Any) -> Any:
        row = [index for d, index in enumerate(i) if d != at]
        normal = (x(*i).astype(wide) - mean(*row)) * scale(*row)
        return (normal * gamma(i[at]).astype(wide) + beta(i[at]).astype(wide)).astype(x.dtype)

    return te.compute(shape, body, name="layer_norm", tag=tag.LAYER_NORM, attrs={"axis": at})


def group_norm(x: Tensor, gamma: Tensor, beta: Tensor, num_groups: int, axis: int = 1, epsilon: float = 1e-5) -> Tensor:
    """Normalization of every part of `axis` (`num_groups` parts) over all axes but the batch, 0.

    Stages: group_norm_sum, _mean, _squares, _scale ([N, groups]), group_norm. With as many groups as channels this is
    instance normalization.
    """
    at, wide = normalize_axis(axis, x.ndim), accumulator_dtype(x.dtype)
    shape = extents(x)
    part = shape[at] // num_groups
    ranges = [(part if d == at else s, f"k{d}") for d, s in enumerate(shape) if d]
    count: Any = 1
    for size, _ in ranges:
        count *= size

    def read(i: Any, k: Any) -> Any:
        where = [i[0], *k]
        where[at] = i[1] * part + where[at]
        return x(*where).astype(wide)

    mean, scale = _statistics((shape[0], num_groups), ranges, read, count, epsilon, "group_norm")

    def body(*i: Any) -> Any:
        group = i[at] // part
        normal = (x(*i).astype(wide) - mean(i[0], group)) * scale(i[0], group)
        return (normal * gamma(i[at]).astype(wide) + beta(i[at]).astype(wide)).astype(x.dtype)

    return te.compute(shape, body, name="group_norm", tag=tag.GROUP_NORM, attrs={"axis": at})


def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Inference form: (x - mean) / sqrt(variance + epsilon) * gamma + beta per element of `axis`.

    Normally folded into scale and shift before it comes here.
    """
    at = normalize_axis(axis, x.ndim)

    def normalized(value: Any, scale: Any, shift: Any, centre: Any, spread: Any) -> Any:
        return (value - centre) * (scale / tir.sqrt(spread + tir.const(epsilon, value.dtype))) + shift

    def body(*i: Any) -> Any:
        c = i[at]
        return in_float32(normalized, x(*i), gamma(c), beta(c), mean(c), variance(c))

    return te.compute(x.shape, body, name="batch_norm", tag=tag.BROADCAST)


def lrn(x: Tensor, size: int, axis: int, alpha: float, beta: float, bias: float) -> Tensor:
    """x / (bias + alpha / size * sum of squares over `size` neighbours along `axis`) ** beta."""
    at, shape, wide = normalize_axis(axis, x.ndim), extents(x), accumulator_dtype(x.dtype)
    before = (size - 1) // 2
    k = te.reduce_axis((0, size), name="k")

    def square(*i: Any) -> Any:
        where = i[at] + k - before
        inside = tir.all(where >= 0, where < shape[at])
        value = tir.if_then_else(inside, x(*i[:at], where, *i[at + 1 :]), tir.const(0, x.dtype)).astype(wide)
        return te.sum(value * value, axis=k)

    squares = te.compute(shape, square, name="lrn_squares", tag=tag.COMM_REDUCE)

    def body(*i: Any) -> Any:
        base = tir.const(bias, wide) + tir.const(alpha / size, wide) * squares(*i)
        return (x(*i).astype(wide) / tir.power(base, tir.const(beta, wide))).astype(x.dtype)

    return te.compute(shape, body, name="lrn", tag=tag.ELEMWISE)
