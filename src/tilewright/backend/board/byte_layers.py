"""Products of bytes, and additions, that become bytes again by a fixed-point scale, as one operator each.

Before: %0 = nn.contrib_fixed_point(nn.contrib_conv2d_bytes(%x, w, b), m, c, s); cast(clip(%0, -128, 127), "int8")
After:  nn.contrib_conv2d_scaled(%x, w', (b, m, -s))
Before: cast(nn.contrib_conv2d_bytes(%x, w, b), "float32")
After:  cast(nn.contrib_conv2d_sums(%x, w', b'), "float32")

Numbers are the same. A scale with one rounding is in 64 bits before, and 32 after: what it drops is behind its point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilewright.backend.board.fixed_point import scaled_parts
from tilewright.relay.ir.expr import Call, Constant, Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op import nn
from tilewright.relay.op.transform import reshape
from tilewright.relay.transform.quantize.dot_products import constant_value
from tilewright.relay.transform.simplify.make import is_call
from tilewright.topi.reference.byte_conv import unpacked, unpacked_bias
from tilewright.topi.reference.byte_layers import AWAY, LANES, ONCE, WORDS, packed_rows, packed_scale, packed_taps

#: Taps of a depthwise window that a kernel writes out, at most.
_MOST_TAPS = 32
_WORD = 32


def byte_layers(mod: IRModule) -> IRModule:
    """Rewrite what the kernels compute; see the module's docstring."""
    for rule in (_rule, _sums):
        mod = infer_type(infer_type(mod).map_functions(partial(_rewritten, rule)))
    return mod


def _rewritten(rule: Callable[[Expr], Expr | None], func: Function) -> Function:
    return func.with_body(rewrite(func.body, rule))


@dataclass(frozen=True)
class _Scaled:
    """clip(`data` * m / 2^(31 + shift) + zero, low, high), one `m` and `shift` or those of each channel."""

    data: Expr
    m: np.ndarray
    shift: np.ndarray
    rounding: str
    zero: int = 0
    low: int = 0
    high: int = 0

    @property
    def attrs(self) -> dict[str, object]:
        """The attributes of operators that stand for it, beside factors."""
        return {"rounding": self.rounding, "zero": self.zero, "low": self.low, "high": self.high}


def _rule(node: Expr) -> Expr | None:
    if not is_call(node, "cast") or str(tensor_type_of(node).dtype) != "int8":
        return None
    (clipped,) = node.args  # type: ignore[attr-defined]
    if not is_call(clipped, "clip"):
        return None
    found = _scale(clipped.args[0])
    if found is None:
        return None
    low, high = (int(clipped.attrs[name]) for name in ("a_min", "a_max"))
    found = _Scaled(found.data, found.m, found.shift, found.rounding, found.zero, max(low, -128), min(high, 127))
    if is_call(found.data, "nn.contrib_conv2d_bytes", "nn.contrib_dense_bytes"):
        return _product(found)
    if is_call(found.data, "nn.contrib_depthwise_bytes"):
        return _depthwise(found)
    return _sum(found) if is_call(found.data, "add") else None


def _scale(expr: Expr) -> _Scaled | None:
    """A scaled sum of int32, with or without a zero point added."""
    if is_call(expr, "nn.contrib_fixed_point"):
        data, *parts = expr.args  # type: ignore[attr-defined]
        m, added, shift = (np.asarray(part.data).astype(np.int64) for part in parts)
        beyond = added - (1 << shift >> 1)
        zeros = beyond >> shift
        if (zeros << shift != beyond).any() or len(set(zeros.tolist())) != 1:
            return None
        return _Scaled(data, m, shift, AWAY, int(zeros[0])) if _is_away(expr.attrs, shift) else None  # type: ignore[attr-defined]
    zero = 0
    if is_call(expr, "add"):
        expr, value = expr.args[0], constant_value(expr.args[1])  # type: ignore[attr-defined]
        if value is None or value.size != 1:
            return None
        zero = int(value.reshape(-1)[0])
    if not is_call(expr, "cast") or str(tensor_type_of(expr).dtype) != "int32":
        return None
    (wide,) = expr.args  # type: ignore[attr-defined]
    found = _twice(wide) or _once(wide)
    fits = found is not None and found.m.min() >= 0 and found.m.max() < 1 << 31
    return _Scaled(found.data, found.m, found.shift, found.rounding, zero) if fits and found is not None else None


def _twice(expr: Expr) -> _Scaled | None:
    """A scale in 64 bits that is rounded to the high half, and again."""
    found = scaled_parts(expr)
    if found is None:
        return None
    m, half, shift = (part.reshape(-1).astype(np.int64) for part in (found.m, found.added, found.exponent))
    away = _is_away({"away": found.away, "whole": found.whole}, shift)
    return _Scaled(found.data, m, shift, AWAY) if away and (half == 1 << shift >> 1).all() else None


def _is_away(attrs: Mapping[str, Any], shift: np.ndarray) -> bool:
    """True if halves are rounded away from zero wherever a shift drops some, and nothing is taken elsewhere."""
    return bool((shift == 0).all() if not attrs["away"] else attrs["whole"] or (shift > 0).all())


def _once(expr: Expr) -> _Scaled | None:
    """A scale in 64 bits that is rounded once, by more than a word."""
    if not is_call(expr, "right_shift") or not is_call(expr.args[0], "add"):  # type: ignore[attr-defined]
        return None
    total, count = expr.args  # type: ignore[attr-defined]
    product, half = total.args
    if not is_call(product, "multiply") or not is_call(product.args[0], "cast"):
        return None
    data, values = product.args[0].args[0], [constant_value(part) for part in (product.args[1], half, count)]
    if str(tensor_type_of(data).dtype) != "int32" or any(value is None for value in values):
        return None
    m, half, count = (value.reshape(-1).astype(np.int64) for value in values if value is not None)
    if count.min() <= _WORD or count.max() >= 2 * _WORD - 1 or (half != 1 << (count - 1)).any():
        return None
    return _Scaled(data, m, count - _WORD, ONCE)


def _packed_scale(found: _Scaled, bias: np.ndarray, lanes: int) -> Constant | None:
    """The biases, multipliers and shifts of all channels; None where there are not as many."""
    if any(part.size not in (1, bias.size) for part in (found.m, found.shift)):
        return None
    m, shift = (np.broadcast_to(part.reshape(-1), bias.size) for part in (found.m, found.shift))
    return Constant(packed_scale(bias, m, shift, lanes))


def _sums(node: Expr) -> Expr | None:
    """A product that no scale makes bytes of."""
    if not is_call(node, "nn.contrib_conv2d_bytes", "nn.contrib_dense_bytes"):
        return None
    assert isinstance(node, Call)
    parts = _Rows.of(node)
    if parts is None:
        return None
    made = nn.contrib_conv2d_sums(parts.image, parts.weights, parts.packed_bias(), **parts.window)
    return parts.shaped(node, made)


@dataclass(frozen=True)
class _Rows:
    """A product as a convolution of one image: packed weights, the bias of each channel, the window's attributes."""

    image: Expr
    weights: Constant
    bias: np.ndarray
    window: Mapping[str, Any]

    @staticmethod
    def of(call: Call) -> _Rows | None:
        """Those of a product of bytes; None for several images."""
        data, weight, bias = call.args
        assert isinstance(weight, Constant) and isinstance(bias, Constant)
        plain, shape = unpacked(weight.data, call.attrs["form"]), tensor_type_of(data).shape
        total, channels, image = unpacked_bias(plain, bias.data, call.attrs["form"]), len(plain), data
        if is_call(call, "nn.contrib_dense_bytes"):
            window: dict[str, Any] = {"kernel_size": (1, 1), "strides": (1, 1), "padding": (0,) * 4, "pad_value": 0}
            rows, image = plain[:, : shape[1]], reshape(data, (1, 1, *shape))
        else:
            window = {name: call.attrs[name] for name in ("kernel_size", "strides", "padding", "pad_value")}
            kh, kw = call.attrs["kernel_size"]
            rows = plain.reshape(channels, kh, -1)[:, :, : kw * shape[3]].reshape(channels, -1)
            if shape[0] != 1:
                return None
        weights = Constant(packed_rows(rows.astype(np.int8)))
        return _Rows(image, weights, total, {**window, "channels": channels})

    def packed_bias(self) -> Constant:
        """The biases, filled up to whole vectors."""
        return Constant(np.pad(self.bias, (0, -self.bias.size % WORDS)).astype(np.int32))

    def shaped(self, call: Call, made: Expr) -> Expr:
        """The result of the convolution in the shape that the product has."""
        return reshape(made, tensor_type_of(call).shape) if is_call(call, "nn.contrib_dense_bytes") else made


def _product(found: _Scaled) -> Expr | None:
    call = found.data
    assert isinstance(call, Call)
    parts = _Rows.of(call)
    scale = None if parts is None else _packed_scale(found, parts.bias, WORDS)
    if parts is None or scale is None:
        return None
    made = nn.contrib_conv2d_scaled(parts.image, parts.weights, scale, **parts.window, **found.attrs)
    return parts.shaped(call, made)


def _depthwise(found: _Scaled) -> Expr | None:
    call = found.data
    assert isinstance(call, Call)
    data, weight, bias = call.args
    assert isinstance(weight, Constant) and isinstance(bias, Constant)
    kh, kw, channels = weight.data.shape
    if kh * kw > _MOST_TAPS or weight.data.min() < -127 or tensor_type_of(data).shape[0] != 1:
        return None
    scale = _packed_scale(found, bias.data.astype(np.int64), LANES)
    if scale is None:
        return None
    weights = Constant(packed_taps(weight.data.reshape(kh * kw, channels)))
    window = {name: call.attrs[name] for name in ("strides", "padding", "pad_value")}
    return nn.contrib_depthwise_scaled(data, weights, scale, kernel_size=(kh, kw), **window, **found.attrs)


def _sum(found: _Scaled) -> Expr | None:
    parts = [_part(arg) for arg in found.data.args]  # type: ignore[attr-defined]
    if any(part is None for part in parts) or found.m.size != 1 or found.shift.size != 1:
        return None
    (a, first), (b, second) = (part for part in parts if part is not None)
    if tensor_type_of(a).shape != tensor_type_of(b).shape:
        return None
    factors = {"m": int(found.m[0]), "shift": int(found.shift[0])}
    return nn.contrib_add_scaled(a, b, first=first, second=second, **factors, **found.attrs)


def _number_of(expr: Expr, name: str) -> tuple[Expr, int]:
    """The operand of a call of the operator `name` and its constant number; `expr` itself and 0 where it is none."""
    value = constant_value(expr.args[1]) if isinstance(expr, Call) and is_call(expr, name) else None
    if value is None or value.size != 1:
        return expr, 0
    return expr.args[0], int(value.reshape(-1)[0])  # type: ignore[attr-defined]


def _part(expr: Expr) -> tuple[Expr, tuple[int, ...]] | None:
    """Bytes less a zero point, shifted to the left and scaled, and their numbers."""
    found = _scale(expr) if is_call(expr, "nn.contrib_fixed_point") else None
    if found is None or found.zero or found.m.size != 1 or found.shift.size != 1:
        return None
    data, left_shift = _number_of(found.data, "left_shift")
    data, zero = _number_of(data, "subtract")
    if not is_call(data, "cast"):
        return None
    (source,) = data.args  # type: ignore[attr-defined]
    if str(tensor_type_of(source).dtype) != "int8":
        return None
    return source, (zero, left_shift, int(found.m[0]), int(found.shift[0]))


__all__ = ["byte_layers"]
