"""Gathers as scans of all that they could pick: their addresses depend on no data.

Before: take(%table: Tensor[(1000, 64)], %ids: Tensor[(8,)], axis=0)
After:  sum(where(equal(expand_dims(%ids, 1, 2), expand_dims(arange(1000), 1)), expand_dims(%table, 0), 0), axis=1)

For code in an enclave, whose accesses to memory can be watched. It runs where a `PassContext` requires it: a scan reads
a thousand rows for one. Of floats, -0 becomes 0. `gather_nd` and axes of symbolic size stay as they are, and `inspect
--stage oblivious` names them.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.make import is_call, make


def scan_gathers(mod: IRModule) -> IRModule:
    """Replace `take` and `gather` by sums over a whole axis in which one term is not 0."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not (is_call(node, "take") or is_call(node, "gather")):
        return None
    data, indices = node.args
    kind, picked = tensor_type_of(data), tensor_type_of(indices)
    if node.attrs["axis"] is None:
        data, kind = make("reshape", data, newshape=(-1,)), TensorType((kind.size,), kind.dtype)
    axis = (node.attrs["axis"] or 0) % kind.ndim
    extent = kind.shape[axis]
    if not isinstance(extent, int):
        return None
    positions = _within(indices, str(picked.dtype), extent, node.attrs.get("mode", "from_back"))
    numbers: Expr = Constant(np.arange(extent, dtype=picked.dtype.numpy))
    if is_call(node, "take"):
        new, after = picked.ndim, kind.ndim - axis
        scanned = axis + new
        data = make("expand_dims", data, axis=axis, num_newaxis=new)
        positions = make("expand_dims", positions, axis=new, num_newaxis=after)
    else:
        new, after, scanned = 1, kind.ndim - axis, axis + 1
        others = [d for d in range(kind.ndim) if d != axis]
        ends = [picked.shape[d] for d in others]
        if ends != [kind.shape[d] for d in others]:
            data = make("strided_slice", data, begin=(0,) * len(ends), end=ends, strides=None, axes=others)
        data = make("expand_dims", data, axis=axis, num_newaxis=1)
        positions = make("expand_dims", positions, axis=scanned, num_newaxis=1)
    if after > 1:
        numbers = make("expand_dims", numbers, axis=1, num_newaxis=after - 1)
    found = make("equal", positions, numbers)
    terms = make("where", found, data, Constant(np.zeros((), kind.dtype.numpy)))
    return make("sum", terms, axis=(scanned,), keepdims=False, exclude=False, span=node.span)


def _within(indices: Expr, kind: str, extent: int, mode: str) -> Expr:
    """`indices` as positions from 0 to `extent` - 1, by the mode of a `take`."""
    size = Constant(np.asarray(extent, kind))
    if mode == "wrap":
        return make("floor_mod", indices, size)
    if mode == "from_back":
        negative = make("less", indices, Constant(np.zeros((), kind)))
        indices = make("where", negative, make("add", indices, size), indices)
    return make("clip", indices, a_min=0, a_max=extent - 1)
