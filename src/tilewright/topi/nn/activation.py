"""Activations."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.elemwise import in_float32, unary
from tilewright.topi.util import extents, normalize_axis


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return unary(x, lambda v: tir.maximum(v, tir.const(0, x.dtype)), "relu")


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """x where positive, alpha * x elsewhere."""

    def body(v: Any) -> Any:
        return tir.select(v > tir.const(0, v.dtype), v, v * tir.const(alpha, v.dtype))

    return unary(x, lambda v: in_float32(body, v), "leaky_relu")


def _per_channel(values: Tensor, indices: Any, axis: int) -> Any:
    """The value of the channel of element `indices`: `values` is [C], [1], or [C/b, b] for data blocked by channels."""
    if values.ndim == 2:
        return values(indices[axis], indices[-1])
    return values(0 if extents(values) == (1,) else indices[axis])


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """x where positive, slope[channel] * x elsewhere; channels along `axis`, a single slope serves all."""
    at = normalize_axis(axis, x.ndim)

    def body(*i: Any) -> Any:
        v = x(*i)
        return tir.select(v > tir.const(0, x.dtype), v, v * _per_channel(slope, i, at))

    return te.compute(x.shape, body, name="T_prelu", tag=tag.BROADCAST)


def bias_add(x: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """x + bias[channel], channels along `axis`; for data blocked by channels `bias` is [C/b, b]."""
    at = normalize_axis(axis, x.ndim)
    return te.compute(x.shape, lambda *i: x(*i) + _per_channel(bias, i, at), name="T_bias_add", tag=tag.BROADCAST)
