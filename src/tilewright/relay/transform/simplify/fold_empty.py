"""Folding of results without elements, and of sums of products over no terms.

Before: nn.dense(%x: Tensor[(3, 4)], %w: Tensor[(0, 4)])     nn.dense(%x: Tensor[(3, 0)], %w: Tensor[(5, 0)])
After:  const<float32[3, 0]>                                 full(0, shape=(3, 5))

So that no schedule has to divide an extent of 0 into tiles; beside symbolic dimensions a `full` of them is the
constant. It runs at every level: nothing else does without it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType, TupleType, tensor_types
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import calls, rewrite
from tilewright.relay.op.assumptions import assumptions_of_call
from tilewright.relay.transform.simplify.make import make


def fold_empty(mod: IRModule) -> IRModule:
    """Replace results without elements by constants, and products over no terms by zeros."""
    return infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule)))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.effects:
        return None
    result = type_of(node)
    results = _tensors(result)
    if results and all(_is_empty(tensor) for tensor in results) and node.op.name != "full":
        if _needs_check(node):
            return None
        checked = _checked_operands(node)
        made = [_nothing(tensor, node.span) if not checked else _none_of(checked, tensor) for tensor in results]
        return Tuple(made) if isinstance(result, TupleType) else made[0]
    if node.op.pattern != OpPattern.OUT_ELEMWISE_FUSABLE or not isinstance(result, TensorType) or not result.is_static:
        return None
    operands = [tensor for arg in node.args for tensor in _tensors(type_of(arg))]
    if not any(_is_empty(tensor) for tensor in operands):
        return None
    zero = Constant(np.zeros((), result.dtype.numpy))
    return make("full", zero, shape=result.shape, dtype=str(result.dtype), span=node.span)


def _needs_check(call: Call) -> bool:
    """True if a run must check symbolic sizes for the call: without it nobody would."""
    return next(assumptions_of_call(call), None) is not None


def _checked_operands(call: Call) -> list[Expr]:
    """Tensors among the operands for which a run must check symbolic sizes, which a constant would leave out."""
    operands = [field for arg in call.args for field in (arg.fields if isinstance(arg, Tuple) else (arg,))]
    tensors = [operand for operand in operands if isinstance(type_of(operand), TensorType)]
    return [one for one in tensors if any(isinstance(c.op, Op) and _needs_check(c) for c in calls(one))]


def _none_of(operands: Sequence[Expr], type_: TensorType) -> Expr:
    """No element of any of `operands`, in the shape of `type_`: a result without elements that has them computed."""
    parts = [make("reshape", operand, newshape=(tensor_type_of(operand).size,)) for operand in operands]
    parts = [make("strided_slice", part, begin=(0,), end=(0,), strides=(1,), axes=(0,)) for part in parts]
    parts = [make("cast", part, dtype=str(type_.dtype)) for part in parts]
    joined = make("concatenate", Tuple(parts), axis=0) if len(parts) > 1 else parts[0]
    return make("reshape", joined, newshape=type_.shape)


def _tensors(type_: object) -> list[TensorType]:
    """The tensors of a tensor or of a flat tuple of tensors; none for anything else."""
    if isinstance(type_, TupleType):
        flat = [field for field in type_.fields if isinstance(field, TensorType)]
        return flat if len(flat) == len(type_.fields) else []
    return tensor_types(type_) if isinstance(type_, TensorType) else []


def _is_empty(type_: TensorType) -> bool:
    """True if an extent is 0, whatever the symbolic ones are."""
    known = [dim for dim in type_.shape if type(dim) is int]
    return 0 in known and not type_.has_any and not type_.dtype.is_narrow


def _nothing(type_: TensorType, span: str) -> Expr:
    if type_.is_static:
        return Constant(np.empty(type_.shape, type_.dtype.numpy))
    return make("full", Constant(np.zeros((), type_.dtype.numpy)), shape=type_.shape, dtype=str(type_.dtype), span=span)
