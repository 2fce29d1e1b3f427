"""Products of bfloat16 with sums in float32, for processors that have them and where they are expected to gain.

Before: nn.dense(cast(%x, "float32"), w)                                              %x: bfloat16, w: what fits that
After:  nn.contrib_dense_bfloat16(%x, layout_transform(w', "NC", "NC32n2c"))          w': bfloat16

A product of two bfloat16 is exact in float32: only the order of the sums changes. In functions with the attribute
`PRECISION` (`tilewright.compile(precision="bf16")`) operands in float32 are rounded, weights at compile time; sums,
epilogues and all other operators stay in float32:

Before: nn.dense(%y, v)                                                               in float32
After:  nn.contrib_dense_bfloat16(cast(%y, "bfloat16"), layout_transform(v', "NC", "NC32n2c"))

With the value `SPLIT` (`precision="tf32-like"`) each operand is the sum of two bfloat16, its upper and its lower half;
three of their four products are added in one product of three times the depth, the least one is left out:

After:  nn.contrib_dense_bfloat16(concatenate([h, h, l], -1), …)               h = cast(%y, "bfloat16"), l of %y - h

Rows and depth are filled up with zeros to whole registers, which the result leaves out. Convolutions of all channels
become `nn.contrib_conv2d_bfloat16` in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rebuild, rewrite
from tilewright.relay.op import nn
from tilewright.relay.op.layout_rules import conv2d_workload
from tilewright.relay.op.tensor import cast, isfinite, subtract, where
from tilewright.relay.op.transform import concatenate, layout_transform, reshape
from tilewright.relay.transform.simplify.fold_constant import ANY_SIZE, fold_call
from tilewright.relay.transform.simplify.make import first_of, is_call, scalar_like
from tilewright.tir.dot_product import SUMS
from tilewright.topi.schedule.workload import DotShape

#: The attribute of functions whose products may round their operands, and its values.
PRECISION, BFLOAT16, SPLIT = "precision", "bfloat16", "bfloat16x3"

#: Channels of which images have multiples: those of a first layer are few, and stay in float32.
_LEAST_CHANNELS = 8

#: Products of halves that are added up.
_TERMS = 3

#: The lower half of a float32, which is 0 where the number is a bfloat16.
_LOWER_HALF = 0xFFFF


def bfloat16_products(mod: IRModule, backend: GraphBackend) -> IRModule:
    """Multiply bfloat16 where `backend` gains by it; see the module's docstring."""
    if not backend.multiplies_pairs():
        return mod

    def transform(func: Function) -> Function:
        precision = func.attrs.get(PRECISION)
        if precision == SPLIT:
            return func.with_body(rewrite(func.body, lambda node: _split(node, backend)))
        return func.with_body(rewrite(func.body, lambda node: _rule(node, precision == BFLOAT16, backend)))

    return infer_type(infer_type(mod).map_functions(transform))


def _rule(node: Expr, rounds: bool, backend: GraphBackend) -> Expr | None:
    convolution = is_call(node, "nn.conv2d")
    if not (convolution or is_call(node, "nn.dense")) or str(tensor_type_of(node).dtype) != "float32":
        return None
    assert isinstance(node, Call)
    return _conv2d(node, rounds, backend) if convolution else _dense(node, rounds, backend)


def _conv2d(node: Call, rounds: bool, backend: GraphBackend) -> Expr | None:
    """Convolutions of all channels, whose layouts are chosen later."""
    attrs, types = node.attrs, [tensor_type_of(arg) for arg in node.args]
    plain = (attrs["data_layout"], attrs["kernel_layout"]) == ("NCHW", "OIHW") and attrs["out_layout"] in ("", "NCHW")
    weight = _constant(node.args[1], rounds) if plain and attrs["groups"] == 1 and types[0].is_static else None
    if weight is None or any(channels % _LEAST_CHANNELS for channels in weight.shape[:2]):
        return None
    data = _narrow(node.args[0], rounds)
    if data is None or not backend.pair_convolution(conv2d_workload(attrs, types)):
        return None
    window = attrs["strides"], attrs["padding"], attrs["dilation"]
    return nn.contrib_conv2d_bfloat16(data, Constant(weight), *window)


def _dense(node: Call, rounds: bool, backend: GraphBackend) -> Expr | None:
    weight, shape = _constant(node.args[1], rounds), tensor_type_of(node.args[0]).shape
    if weight is None or node.attrs["weight_layout"] != "NC" or not all(isinstance(n, int) for n in shape):
        return None
    data = _narrow(node.args[0], rounds)
    if data is None:
        return None
    units, depth = weight.shape
    found = backend.pair_product(units, depth, math.prod(shape[:-1]))
    return None if found is None else packed_product(nn.contrib_dense_bfloat16, data, weight, shape, found)


def _split(node: Expr, backend: GraphBackend) -> Expr | None:
    """A product in float32 as three of halves of its operands."""
    if not is_call(node, "nn.dense") or str(tensor_type_of(node).dtype) != "float32":
        return None
    assert isinstance(node, Call)
    data, weight = node.args
    shape = tensor_type_of(data).shape
    static = all(isinstance(n, int) for n in shape)
    if not isinstance(weight, Constant) or node.attrs["weight_layout"] != "NC" or not static:
        return None
    units, depth = weight.data.shape
    found = backend.pair_product(units, depth, math.prod(shape[:-1]), _TERMS)
    if found is None:
        return None
    upper = cast(data, BFLOAT16)
    rest = subtract(data, cast(upper, "float32"))
    # an infinity, of which the rest is no number, meets whole weights alone: by a lower half of 0 it would be none
    zero = scalar_like(0.0, rest)
    lower, finite = (cast(where(isfinite(rest), one, zero), BFLOAT16) for one in (rest, cast(upper, "float32")))
    high = weight.data.astype(ml_dtypes.bfloat16)
    with np.errstate(invalid="ignore"):
        remainder = weight.data - high.astype(np.float32)
    ends = ~np.isfinite(remainder)
    low, whole = (np.where(ends, np.zeros_like(part), part) for part in (remainder.astype(ml_dtypes.bfloat16), high))
    joined, weights = concatenate([upper, finite, lower], -1), np.concatenate([high, low, whole], 1)
    return packed_product(nn.contrib_dense_bfloat16, joined, weights, (*shape[:-1], _TERMS * shape[-1]), found)


def packed_product(
    multiply: Callable[..., Call], data: Expr, weight: np.ndarray, shape: tuple[int, ...], found: DotShape
) -> Expr:
    """The product of `data`, of a shape, by `weight` in panels, both in the 16-bit type that `multiply` takes."""
    (units, depth), rows = weight.shape, math.prod(shape[:-1])
    values = np.pad(weight, ((0, -units % found.block), (0, found.depth - depth)))
    layout = f"NC{found.block}n{SUMS[str(weight.dtype)][0]}c"
    packed = layout_transform(Constant(values), "NC", layout)
    flat = data if len(shape) == 2 else reshape(data, (rows, depth))
    filled = _filled_up(flat, found.rows - rows, found.depth - depth)
    product = multiply(filled, fold_call(packed, ANY_SIZE) or packed, layout, shape[:-1], len(values))
    return first_of(product, units)


def _constant(expr: Expr, rounds: bool) -> np.ndarray | None:
    """The value of a constant as bfloat16; None where it is none, or would have to be rounded and may not."""
    if not isinstance(expr, Constant) or expr.data.dtype != np.float32:
        return None
    if not rounds and np.any(np.ascontiguousarray(expr.data).view(np.uint32) & _LOWER_HALF):
        return None
    return expr.data.astype(ml_dtypes.bfloat16)


def _narrow(expr: Expr, rounds: bool) -> Expr | None:
    """The bfloat16 that `expr` is made of, or that it is rounded to; None where it may not be."""
    if is_call(expr, "cast"):
        (source,) = expr.args  # type: ignore[attr-defined]
        if str(tensor_type_of(source).dtype) == BFLOAT16:
            return source
    if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.rearranges:
        found = _narrow(expr.args[0], rounds=False)
        if found is not None:
            return rebuild(expr, (found,))
    return cast(expr, BFLOAT16) if rounds and str(tensor_type_of(expr).dtype) == "float32" else None


def _filled_up(data: Expr, rows: int, depth: int) -> Expr:
    """`data` with zeros behind the last row and the last column."""
    if not rows and not depth:
        return data
    return nn.pad(data, [(0, rows), (0, depth)])
