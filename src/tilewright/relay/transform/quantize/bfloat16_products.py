"""Products of bfloat16 with sums in float32, for processors that have them and where they are expected to gain.

Before: nn.dense(cast(%x, "float32"), w)                                              %x: bfloat16, w: what fits that
After:  nn.contrib_dense_bfloat16(%x, layout_transform(w', "NC", "NC32n2c"))          w': bfloat16

A product of two bfloat16 is exact in float32: only the order of the sums changes. In functions with the attribute
`PRECISION` (`tilewright.compile(precision="bf16")`) operands in float32 are rounded, weights at compile time; sums,
epilogues and all other operators stay in float32:

Before: nn.dense(%y, v)                                                               in float32
After:  nn.contrib_dense_bfloat16(cast(%y, "bfloat16"), layout_transform(v', "NC", "NC32n2c"))

Rows and depth are filled up with zeros to whole registers, which the result leaves out. Convolutions of all channels
become `nn.contrib_conv2d_bfloat16` in the same way.
"""

from __future__ import annotations

import math

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
from tilewright.relay.op.tensor import cast
from tilewright.relay.op.transform import layout_transform, reshape
from tilewright.relay.transform.simplify.fold_constant import ANY_SIZE, fold_call
from tilewright.relay.transform.simplify.make import is_call
from tilewright.tir.dot_product import SUMS

#: The attribute of functions whose products may round their operands, and its value.
PRECISION, BFLOAT16 = "precision", "bfloat16"

#: Channels of which images have multiples: those of a first layer are few, and stay in float32.
_LEAST_CHANNELS = 8

#: Elements that lie side by side in weights.
_GROUP = SUMS[BFLOAT16][0]

#: The lower half of a float32, which is 0 where the number is a bfloat16.
_LOWER_HALF = 0xFFFF


def bfloat16_products(mod: IRModule, backend: GraphBackend) -> IRModule:
    """Multiply bfloat16 where `backend` gains by it; see the module's docstring."""
    if not backend.multiplies_pairs():
        return mod

    def transform(func: Function) -> Function:
        rounds = func.attrs.get(PRECISION) == BFLOAT16
        return func.with_body(rewrite(func.body, lambda node: _rule(node, rounds, backend)))

    return infer_type(infer_type(mod).map_functions(transform))


def _rule(node: Expr, rounds: bool, backend: GraphBackend) -> Expr | None:
    if not isinstance(node, Call) or str(tensor_type_of(node).dtype) != "float32":
        return None
    if is_call(node, "nn.conv2d"):
        return _conv2d(node, rounds, backend)
    return _dense(node, rounds, backend) if is_call(node, "nn.dense") else None


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
    (units, depth), rows = weight.shape, math.prod(shape[:-1])
    found = backend.pair_product(units, depth, rows)
    if found is None:
        return None
    values = np.pad(weight, ((0, -units % found.block), (0, found.depth - depth)))
    layout = f"NC{found.block}n{_GROUP}c"
    packed = layout_transform(Constant(values), "NC", layout)
    flat = data if len(shape) == 2 else reshape(data, (rows, depth))
    filled = _filled(flat, found.rows - rows, found.depth - depth)
    return nn.contrib_dense_bfloat16(filled, fold_call(packed, ANY_SIZE) or packed, layout, shape[:-1], units)


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


def _filled(data: Expr, rows: int, depth: int) -> Expr:
    """`data` with zeros behind the last row and the last column."""
    if not rows and not depth:
        return data
    return nn.pad(data, [(0, rows), (0, depth)])
