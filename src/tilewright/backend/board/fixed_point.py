"""Sums scaled by fixed-point numbers in 64 bits, as TensorFlow Lite defines it, in 32 where nothing can overflow.

Before: %1 = right_shift(add(multiply(cast(%0, "int64"), m), 2^30), 31)
        %2 = right_shift(add(add(%1, c), right_shift(%1, 63)), s); add(cast(%2, "int32"), z)
After:  contrib_fixed_point(%0, m, c + (z << s), s)

A processor has the high half of a product of 32 bits; what follows it needs no other. Values are bounded by the weights
that they are sums of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op import nn
from tilewright.relay.transform.quantize.dot_products import constant_value
from tilewright.relay.transform.simplify.make import is_call
from tilewright.topi.reference.byte_conv import unpacked, unpacked_bias

_LIMIT = 1 << 31


def fixed_point(mod: IRModule) -> IRModule:
    """Rewrite what is bounded; see the module's docstring."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _Rule()))))


class _Rule:
    """The rule of `rewrite`; it remembers the bounds of values."""

    def __init__(self) -> None:
        self.bounds: dict[Expr, int | None] = {}

    def __call__(self, node: Expr) -> Expr | None:
        if is_call(node, "add"):
            return self._with_zero(node)  # type: ignore[arg-type]
        if not is_call(node, "cast") or str(tensor_type_of(node).dtype) != "int32":
            return None
        found = scaled_parts(node.args[0])  # type: ignore[attr-defined]
        if found is None or _channels(found.data, (found.m, found.added, found.exponent)) is None:
            return None
        bound = self.bound(found.data)
        if bound is None or bound >= _LIMIT >> 1 or int(np.abs(found.m).max()) >= _LIMIT:
            return None
        return _call(found)

    def _with_zero(self, node: Call) -> Expr | None:
        """A constant added behind the shift as one added before it."""
        data, other = node.args
        value = constant_value(other)
        if not is_call(data, "nn.contrib_fixed_point") or value is None or value.size != 1:
            return None
        source, m, added, exponent = data.args  # type: ignore[attr-defined]
        shift, before = (np.asarray(part.data).astype(np.int64) for part in (exponent, added))
        total = before + (int(value.reshape(())) << shift)
        bound = self.bound(source)
        if bound is None or bound + int(np.abs(total).max()) + 1 >= _LIMIT:
            return None
        away = bool(data.attrs["away"])  # type: ignore[attr-defined]
        whole = bool(data.attrs["whole"])  # type: ignore[attr-defined]
        return nn.contrib_fixed_point(source, m, Constant(total.astype(np.int32)), exponent, away, whole)

    def bound(self, expr: Expr) -> int | None:
        """The greatest magnitude of int32 or narrower integers; None where it is not known to be less than 2^31."""
        if expr not in self.bounds:
            found = self._bound(expr)
            self.bounds[expr] = found if found is not None and found < _LIMIT else None
        return self.bounds[expr]

    def _bound(self, expr: Expr) -> int | None:
        dtype = tensor_type_of(expr).dtype
        value = constant_value(expr)
        if value is not None:
            return int(np.abs(value.astype(np.int64)).max(initial=0)) if value.dtype.kind in "iub" else None
        if dtype.is_int and dtype.bits <= 16:
            return 1 << dtype.bits
        if not isinstance(expr, Call) or not dtype.is_int:
            return None
        if is_call(expr, "cast", "clip", "nn.relu", "reshape", "transpose"):
            return self.bound(expr.args[0])
        if is_call(expr, "add", "subtract", "nn.bias_add"):
            parts = [self.bound(arg) for arg in expr.args]
            return None if None in parts else sum(part for part in parts if part is not None)
        if is_call(expr, "left_shift"):
            count, part = constant_value(expr.args[1]), self.bound(expr.args[0])
            return None if count is None or part is None else part << int(count.max())
        if is_call(expr, "nn.contrib_fixed_point"):
            part = self.bound(expr.args[0])
            added, exponent = (np.asarray(arg.data).astype(np.int64) for arg in expr.args[2:])  # type: ignore[attr-defined]
            return None if part is None else ((part + int(np.abs(added).max()) + 1) >> int(exponent.min())) + 1
        return _bound_of_product(expr)


@dataclass(frozen=True)
class Scaled:
    """(data * m + 2^30 >> 31, plus `added`, less 1 of negative ones where `away`) >> exponent.

    With `whole`, nothing is taken where the exponent is 0.
    """

    data: Expr
    m: np.ndarray
    added: np.ndarray
    exponent: np.ndarray
    away: bool
    whole: bool = False


def scaled_parts(expr: Expr) -> Scaled | None:
    """The parts of a scaled sum in 64 bits."""
    high, added, exponent, away, whole = expr, np.zeros((), np.int64), np.zeros((), np.int64), False, False
    if is_call(expr, "right_shift") and is_call(expr.args[0], "add"):  # type: ignore[attr-defined]
        total, count = expr.args  # type: ignore[attr-defined]
        inner, sign = total.args
        shift = constant_value(count)
        if shift is None:
            return None
        if is_call(sign, "multiply"):
            whole, sign = _takes_none_of_zero(sign.args[1], shift), sign.args[0]
            if not whole:
                return None
        if is_call(inner, "add") and is_call(sign, "right_shift") and sign.args[0] is inner.args[0]:
            half, bits = constant_value(inner.args[1]), constant_value(sign.args[1])
            if half is None or bits is None or bits.min() != 63:
                return None
            high, added, exponent, away = inner.args[0], half, shift, True
    if not is_call(high, "right_shift") or not is_call(high.args[0], "add"):  # type: ignore[attr-defined]
        return None
    rounded, count = high.args  # type: ignore[attr-defined]
    product, half = rounded.args
    values = [constant_value(part) for part in (count, half)]
    if any(value is None for value in values) or values[0].max() != 31 or values[1].max() != 1 << 30:  # type: ignore[union-attr]
        return None
    if not is_call(product, "multiply") or not is_call(product.args[0], "cast"):
        return None
    m, data = constant_value(product.args[1]), product.args[0].args[0]
    if m is None or str(tensor_type_of(data).dtype) != "int32" or (values[0].min(), values[1].min()) != (31, 1 << 30):  # type: ignore[union-attr]
        return None
    return Scaled(data, m, np.asarray(added), np.asarray(exponent), away, whole)


def _takes_none_of_zero(factor: Expr, exponent: np.ndarray) -> bool:
    """True for a factor of signs that is 0 where the exponent is, and 1 elsewhere."""
    value = constant_value(factor)
    return value is not None and value.shape == exponent.shape and bool((value == (exponent > 0)).all())


def _channels(data: Expr, values: tuple[np.ndarray, ...]) -> int | None:
    """The number of values along the last axis of `data` that `values` broadcast to, 1 for one; None for others."""
    last = tensor_type_of(data).shape[-1] if tensor_type_of(data).shape else 1
    for value in values:
        if value.size != 1 and (value.shape[-1] != value.size or value.size != last):
            return None
    return max(value.size for value in values)


def _call(found: Scaled) -> Call:
    size = _channels(found.data, (found.m, found.added, found.exponent))
    assert size is not None

    def along(part: np.ndarray) -> Constant:
        return Constant(np.broadcast_to(part.reshape(-1), size).astype(np.int32))

    return nn.contrib_fixed_point(
        found.data, along(found.m), along(found.added), along(found.exponent), found.away, found.whole
    )


def _bound_of_product(expr: Call) -> int | None:
    """The greatest magnitude of sums of products of bytes with constant weights."""
    if not is_call(expr, "nn.contrib_conv2d_bytes", "nn.contrib_dense_bytes", "nn.contrib_depthwise_bytes"):
        return None
    weight, bias = (np.asarray(arg.data) for arg in expr.args[1:])  # type: ignore[attr-defined]
    if is_call(expr, "nn.contrib_depthwise_bytes"):
        sums, base = np.abs(weight.astype(np.int64)).sum(axis=(0, 1)), bias.astype(np.int64)
    else:
        plain = unpacked(weight, expr.attrs["form"])
        sums, base = np.abs(plain.astype(np.int64)).sum(axis=1), unpacked_bias(plain, bias, expr.attrs["form"])
    return int((128 * sums + np.abs(base)).max())
