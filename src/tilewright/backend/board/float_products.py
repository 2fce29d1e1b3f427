"""Weights of float products as boards read them: those of a block of output channels, one term after the other.

Before: nn.conv2d(%x, w, data_layout="NHWC", kernel_layout="OHWI"); nn.dense(%y, v)            (v: [units, K])
After:  nn.conv2d(%x, w', data_layout="NHWC", kernel_layout="OHWI4o"); nn.dense(%y, v', weight_layout="UD8u")
"""

from __future__ import annotations

import numpy as np

from tilewright.backend.board.byte_products import Blocks
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.nn.dense import BLOCKS
from tilewright.relay.transform.quantize.dot_products import constant_value
from tilewright.relay.transform.simplify.make import is_call


def float_products(mod: IRModule, block_of: Blocks) -> IRModule:
    """Pack constant weights; see the module's docstring."""

    def rule(node: Expr) -> Expr | None:
        if not is_call(node, "nn.conv2d", "nn.dense") or str(tensor_type_of(node).dtype) != "float32":
            return None
        assert isinstance(node, Call)
        return _dense(node, block_of) if is_call(node, "nn.dense") else _conv2d(node, block_of)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, rule))))


def _float_weight(node: Call) -> np.ndarray | None:
    """The constant weight of a product of floats; None for any other."""
    data, weight = node.args
    floats = str(tensor_type_of(data).dtype) == str(tensor_type_of(weight).dtype) == "float32"
    return constant_value(weight) if floats and tensor_type_of(node).is_static else None


def _dense(node: Call, block_of: Blocks) -> Expr | None:
    weight = _float_weight(node) if node.attrs.get("weight_layout", "NC") == "NC" else None
    if weight is None or 0 in weight.shape:
        return None
    units, depth = weight.shape
    block = block_of(tensor_type_of(node).shape[-2], units)
    panels = np.pad(weight, ((0, -units % block), (0, 0))).reshape(-1, block, depth).transpose(0, 2, 1)
    attrs = node.attrs.replace(weight_layout=f"{BLOCKS}{block}u", units=units)
    return Call(node.op, [node.args[0], Constant(np.ascontiguousarray(panels))], attrs, node.span)


def _conv2d(node: Call, block_of: Blocks) -> Expr | None:
    attrs, data = node.attrs, node.args[0]
    if (attrs["data_layout"], attrs["kernel_layout"], attrs["groups"]) != ("NHWC", "OHWI", 1):
        return None
    weight = _float_weight(node)
    if weight is None or 0 in weight.shape:
        return None
    _, oh, ow, channels = tensor_type_of(node).shape
    block = block_of(oh if ow == 1 else ow, channels)
    if channels % block:
        return None
    packed = weight.reshape(channels // block, block, *weight.shape[1:]).transpose(0, 2, 3, 4, 1)
    packed_attrs = attrs.replace(kernel_layout=f"OHWI{block}o", out_layout="")
    return Call(node.op, [data, Constant(np.ascontiguousarray(packed))], packed_attrs, node.span)
