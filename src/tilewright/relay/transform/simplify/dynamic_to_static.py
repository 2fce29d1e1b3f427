"""Operators that take shapes as values become static ones where those values are known when compiling.

Before: dyn.reshape(%x, concatenate((shape_of(%y), [4])))                             (%y: [2, 3], known)
After:  reshape(%x, newshape=[2, 3, 4])

Shapes of tensors of known sizes are constants, and arithmetic on constants is done, so a chain of shape arithmetic
folds from its beginning. What depends on a size that is not known stays dynamic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.gather import one_hot
from tilewright.relay.op.nn.activation import pad
from tilewright.relay.op.sort import topk
from tilewright.relay.op.tensor import full, ones, zeros
from tilewright.relay.op.transform import broadcast_to, expand_dims, reshape, squeeze, strided_slice, tile
from tilewright.relay.transform.simplify.fold_constant import fold_call


def dynamic_to_static(mod: IRModule) -> IRModule:
    """Replace the calls of `dyn` operators whose shapes are known; see the module's docstring."""
    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    if node.op.name == "shape_of":
        return _shape(node)
    position = _SHAPES.get(node.op.name)
    if position is None:
        return fold_call(node) if not node.op.data_dependent and _of_constants(node) else None
    values = [arg.data for arg in node.args[position:] if isinstance(arg, Constant)]
    if len(values) < len(node.args) - position:
        return None
    return _STATIC[node.op.name](node, *values)


def _shape(node: Call) -> Expr | None:
    type_ = type_of(node.args[0])
    if not isinstance(type_, TensorType) or not type_.is_static:
        return None
    return Constant(np.asarray(type_.shape, node.attrs.get("dtype") or "int64"))


def _of_constants(node: Call) -> bool:
    leaves = [leaf for arg in node.args for leaf in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    return bool(leaves) and all(isinstance(leaf, Constant) for leaf in leaves)


def _ints(values: np.ndarray) -> tuple[int, ...]:
    return tuple([int(value) for value in values.reshape(-1)])


def _reshape(node: Call, shape: np.ndarray) -> Expr | None:
    """A size of 0 keeps the input's, where that is known."""
    type_ = type_of(node.args[0])
    assert isinstance(type_, TensorType)
    sizes = list(_ints(shape))
    for index, size in enumerate(sizes):
        if size == 0:
            if index >= type_.ndim or not isinstance(type_.shape[index], int):
                return None
            sizes[index] = type_.shape[index]
    return reshape(node.args[0], sizes)


def _slice(node: Call, begin: np.ndarray, end: np.ndarray, strides: np.ndarray) -> Expr | None:
    if node.attrs.slice_mode != "end":
        return None
    return strided_slice(node.args[0], _ints(begin), _ints(end), _ints(strides))


def _pad(node: Call, width: np.ndarray, value: np.ndarray) -> Expr:
    pairs = [(int(before), int(after)) for before, after in width.reshape(-1, 2)]
    return pad(node.args[0], pairs, float(value), node.attrs.pad_mode)


def _topk(node: Call, k: np.ndarray) -> Expr:
    return topk(node.args[0], int(k.reshape(())), **node.attrs)


def _one_hot(node: Call, depth: np.ndarray) -> Expr:
    indices, on_value, off_value = node.args[:3]
    return one_hot(indices, on_value, off_value, int(depth.reshape(())), node.attrs.axis, node.attrs.dtype)


#: The first argument of each operator that is a shape, or a part of one; all after it are, too.
_SHAPES = {
    "dyn.reshape": 1, "dyn.broadcast_to": 1, "dyn.expand_dims": 1, "dyn.squeeze": 1, "dyn.full": 1, "dyn.ones": 0,
    "dyn.zeros": 0, "dyn.one_hot": 3, "dyn.tile": 1, "dyn.strided_slice": 1, "dyn.topk": 1, "dyn.nn.pad": 1,
}  # fmt: skip

#: The call and the known values -> the static operator, or None where it has none for them.
_STATIC: dict[str, Callable[..., Expr | None]] = {
    "dyn.reshape": _reshape,
    "dyn.broadcast_to": lambda node, shape: broadcast_to(node.args[0], _ints(shape)),
    "dyn.expand_dims": lambda node, axis: expand_dims(node.args[0], int(axis), node.attrs.num_newaxis),
    "dyn.squeeze": lambda node, axis: squeeze(node.args[0], _ints(axis)),
    "dyn.full": lambda node, shape: full(node.args[0], _ints(shape), node.attrs.dtype),
    "dyn.ones": lambda node, shape: ones(_ints(shape), node.attrs.dtype),
    "dyn.zeros": lambda node, shape: zeros(_ints(shape), node.attrs.dtype),
    "dyn.one_hot": _one_hot,
    "dyn.tile": lambda node, reps: tile(node.args[0], _ints(reps)),
    "dyn.strided_slice": _slice,
    "dyn.topk": _topk,
    "dyn.nn.pad": _pad,
}
