"""Products of bytes less a zero point as the operators that boards have kernels for, with channels last.

Before: %0 = subtract(cast(%x, "int32"), 3); nn.bias_add(nn.conv2d(%0, w, data_layout="NHWC"), b)       (w: int32)
After:  nn.contrib_conv2d_bytes(%x, w', b - 3 * sum(w))                                        (w': int8, packed)

Sums are the same numbers. Images are padded with the zero point itself. Weights take the form that the target's
instructions want; pairs that are widened by one instruction only where sums fit 24 bits, whatever the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op import nn
from tilewright.relay.op.tensor import cast
from tilewright.relay.transform.quantize.dot_products import Bytes, centred_bytes, constant_value
from tilewright.relay.transform.simplify.make import is_call
from tilewright.topi.reference.byte_conv import BYTES, PAIRS, SCALE, WIDE_PAIRS, packed, packed_bias

#: Output channels that a kernel computes at once, of so many pixels (of a row, or all) and channels.
Blocks = Callable[[int, int], int]


def byte_products(mod: IRModule, pairs: bool, block_of: Blocks) -> IRModule:
    """Rewrite int32 products and convolutions of bytes; see the module's docstring.

    With `pairs` weights become pairs. `block_of(pixels, channels)` is the number of output channels computed at once.
    """
    rules = _Rules(pairs, block_of)
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, rules))))


@dataclass(frozen=True)
class _Product:
    """A product that became a kernel: int8 weights [O, KH, row] (a depthwise one's: [KH, KW, C]) and its bias.

    `pixels` are those that share weights, 0 of a depthwise one. `made` builds the call from packed weights, their bias
    and their form.
    """

    weights: np.ndarray
    bias: np.ndarray
    made: Callable[[Constant, Constant, str], Call]
    pixels: int = 0


class _Rules:
    """The rule of `rewrite`: products, and the addition of constants to them."""

    def __init__(self, pairs: bool, block_of: Blocks) -> None:
        self.pairs, self.block_of = pairs, block_of
        self.products: dict[Expr, _Product] = {}

    def __call__(self, node: Expr) -> Expr | None:
        if is_call(node, "nn.conv2d", "nn.dense") and str(tensor_type_of(node).dtype) == "int32":
            assert isinstance(node, Call)
            found = self._product(node)
            return None if found is None else self._call(found)
        if is_call(node, "add", "nn.bias_add"):
            assert isinstance(node, Call)
            return self._with_bias(node)
        return _through_bytes(node) if is_call(node, "cast") else None

    def _with_bias(self, node: Call) -> Expr | None:
        product, bias = node.args
        known, value = self.products.get(product), constant_value(bias)
        if known is None or value is None or value.size not in (1, known.bias.size):
            return None
        if value.size > 1 and (
            value.shape[-1] != value.size or node.attrs.get("axis", -1) not in (-1, _rank(product) - 1)
        ):
            return None
        total = known.bias + value.reshape(-1).astype(np.int64)
        return self._call(_Product(known.weights, total, known.made, known.pixels))

    def _product(self, node: Call) -> _Product | None:
        data, weight = centred_bytes(node.args[0]), constant_value(node.args[1])
        if data is None or not isinstance(data.zero, int) or data.dtype == "int16" or weight is None:
            return None
        if weight.size == 0 or weight.min() < -128 or weight.max() > 127 or not tensor_type_of(node).is_static:
            return None
        data, weight = data.as_type("int8"), weight.astype(np.int8)
        assert isinstance(data.zero, int)
        if not -128 <= data.zero <= 127:
            return None
        if is_call(node, "nn.dense"):
            return _dense(node, data, weight)
        if node.attrs["data_layout"] != "NHWC":
            return None
        return (_depthwise if node.attrs["kernel_layout"] == "HWIO" else _conv2d)(node, data, weight)

    def _call(self, product: _Product) -> Expr:
        weights, bias = product.weights, product.bias
        if not product.pixels:
            call = product.made(Constant(weights), Constant(bias.astype(np.int32)), BYTES)
        else:
            form = _form(weights, bias) if self.pairs else BYTES
            block = self.block_of(product.pixels, len(bias))
            values = Constant(packed(weights, block, form)), Constant(packed_bias(weights, bias, form))
            call = product.made(*values, form)
        self.products[call] = product
        return call


def _through_bytes(node: Expr) -> Expr | None:
    """Floats that were clipped to the range of bytes, and are read as integers by products, as bytes."""
    (clipped,) = node.args  # type: ignore[attr-defined]
    if str(tensor_type_of(node).dtype) != "int32" or not is_call(clipped, "clip"):
        return None
    fits = clipped.attrs["a_min"] >= -128 and clipped.attrs["a_max"] <= 127
    return cast(cast(clipped, "int8"), "int32") if fits else None


def _rank(expr: Expr) -> int:
    return len(tensor_type_of(expr).shape)


def _form(weights: np.ndarray, bias: np.ndarray) -> str:
    """`PAIRS` where no sum exceeds 24 bits and no second weight is the least byte, else `WIDE_PAIRS`."""
    wide = weights.reshape(len(bias), -1).astype(np.int64)
    above, below = wide.clip(min=0).sum(axis=1), wide.clip(max=0).sum(axis=1)
    most = (127 * above - 128 * below + bias).max()
    least = (127 * below - 128 * above + bias).min()
    limit = 1 << (31 - SCALE)
    second = weights[..., 1::2]
    return PAIRS if -limit <= least and most < limit and (second.size == 0 or second.min() > -128) else WIDE_PAIRS


def _dense(node: Call, data: Bytes, weight: np.ndarray) -> _Product | None:
    if _rank(data.expr) != 2 or node.attrs.get("weight_layout", "NC") != "NC":
        return None
    bias = -data.zero * weight.sum(axis=1, dtype=np.int64)
    rows = tensor_type_of(data.expr).shape[0]
    return _Product(weight[:, None, :], bias, lambda w, b, form: nn.contrib_dense_bytes(data.expr, w, b, form), rows)


def _conv2d(node: Call, data: Bytes, weight: np.ndarray) -> _Product:
    attrs, zero = node.attrs, data.zero
    assert isinstance(zero, int)
    channels, kh, kw, depth = weight.shape
    bias = -zero * weight.sum(axis=(1, 2, 3), dtype=np.int64)

    def made(w: Constant, b: Constant, form: str) -> Call:
        window = (kh, kw), attrs["strides"], attrs["padding"]
        return nn.contrib_conv2d_bytes(data.expr, w, b, *window, zero, form)

    _, height, width, _ = tensor_type_of(node).shape
    single = (kh, kw, *attrs["strides"], *attrs["padding"]) == (1,) * 4 + (0,) * 4
    return _Product(weight.reshape(channels, kh, kw * depth), bias, made, height * width if single else width)


def _depthwise(node: Call, data: Bytes, weight: np.ndarray) -> _Product:
    attrs, zero = node.attrs, data.zero
    assert isinstance(zero, int)
    taps = np.ascontiguousarray(weight.reshape(*weight.shape[:2], -1))
    bias = -zero * taps.sum(axis=(0, 1), dtype=np.int64)

    def made(w: Constant, b: Constant, form: str) -> Call:
        return nn.contrib_depthwise_bytes(data.expr, w, b, attrs["strides"], attrs["padding"], zero)

    return _Product(taps, bias, made)
