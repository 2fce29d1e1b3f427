"""Products of two matrices that are both known at run time only, as a stack of one: that kernel packs its operands.

Before: nn.gelu(add(%bias, nn.dense(%x, transpose(%w, axes=[1, 0]))))             %x: [M, K], %w: [K, N], %bias: [N]
After:  %0 = nn.batch_matmul(reshape(%x), reshape(%w), transpose_b=False)         [1, M, K], [1, K, N]
        reshape(nn.gelu(add(%bias, %0)))

What follows element by element is computed on the stack as well, so that no reshape keeps it from the product's kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern, get
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.nn.dense import PLAIN
from tilewright.relay.op.transform import reshape
from tilewright.relay.op.views import is_reshape

#: Element types of which the kernel has vectors.
_TYPES = ("float32", "float64")

#: Attributes that say something of the axes of a result: an operator with one of these is left on its own shape.
_OF_AXES = frozenset(["axis", "axes", "shape", "newshape"])


def batch_products(mod: IRModule) -> IRModule:
    """The module with every `nn.dense` and `nn.matmul` of two computed operands of known sizes as `nn.batch_matmul`.

    Constant weights stay for `pack_dense`; one row by a transposed matrix stays too, for there is nothing to pack.
    """
    stacks: dict[Expr, tuple[int, ...]] = {}  # by shape: products, and what follows them element by element

    def replace(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Op) or not isinstance(type_of(node), TensorType):
            return None
        made = _stacked(node) or _following(node, stacks)
        if made is None:
            return None
        stacks[made] = tuple(tensor_type_of(made).shape)
        return reshape(made, tensor_type_of(node).shape)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, replace))))


def _stacked(node: Call) -> Call | None:
    """A product as one of stacks, where it is of two computed matrices; transposes of these are part of it."""
    dense, transposed = get("nn.dense"), get("transpose")
    if node.op is not dense and node.op is not get("nn.matmul"):
        return None
    left, right = node.args
    flip_left, flip_right = bool(node.attrs.get("transpose_a")), bool(node.attrs.get("transpose_b"))
    if node.op is dense:
        flip_right = True
        if node.attrs.get("weight_layout", "NC") not in PLAIN:
            return None
    if isinstance(right, Call) and right.op is transposed:
        right, flip_right = right.args[0], not flip_right
    if isinstance(left, Call) and left.op is transposed and tensor_type_of(left).ndim == 2:
        left, flip_left = left.args[0], not flip_left
    types, made = (tensor_type_of(left), tensor_type_of(right)), tensor_type_of(node)
    if isinstance(right, Constant) or not _fits(made, *types) or (math.prod(made.shape[:-1]) == 1 and flip_right):
        return None
    depth = types[0].shape[-1]
    rows = types[0].shape if flip_left else (math.prod(types[0].shape[:-1]), depth)
    flags = {"out_dtype": node.attrs["out_dtype"], "transpose_a": flip_left, "transpose_b": flip_right}
    operands = [reshape(left, (1, *rows)), reshape(right, (1, *types[1].shape))]
    return Call(get("nn.batch_matmul"), operands, flags, node.span)


def _following(node: Call, stacks: Mapping[Expr, tuple[int, ...]]) -> Call | None:
    """An element-wise call that reads one of `stacks` in another shape of the same columns, in the stack's shape."""
    op, shape = node.op, tensor_type_of(node).shape
    assert isinstance(op, Op)
    if op.pattern > OpPattern.BROADCAST or _OF_AXES & node.attrs.keys():
        return None
    if not all(isinstance(type_of(arg), TensorType) for arg in node.args):
        return None
    inner = [_unshaped(arg, stacks) for arg in node.args]
    found = [stacks[value] for value, arg in zip(inner, node.args) if value in stacks and value is not arg]
    if not found or found[0][-1:] != tuple(shape[-1:]) or math.prod(found[0]) != math.prod(shape):
        return None
    operands: list[Expr] = []
    for value, arg in zip(inner, node.args):
        sizes = tensor_type_of(arg).shape
        if value in stacks and stacks[value] == found[0]:
            operands.append(value)
        elif sizes == shape:
            operands.append(reshape(arg, found[0]))
        elif math.prod(sizes) == math.prod(sizes[-1:]):  # one number, or one for each column
            operands.append(reshape(arg, sizes[-1:]) if len(sizes) > 1 else arg)
        else:
            return None
    return Call(op, operands, node.attrs, node.span)


def _unshaped(value: Expr, stacks: Mapping[Expr, tuple[int, ...]]) -> Expr:
    """The stack of which `value` is another shape; where it is none, `value`."""
    inner = value
    while inner not in stacks and is_reshape(inner):
        assert isinstance(inner, Call)
        inner = inner.args[0]
    return inner if inner in stacks else value


def _fits(made: TensorType, *operands: TensorType) -> bool:
    """True for matrices of sizes and types that the kernel takes."""
    return str(made.dtype) in _TYPES and all(
        str(operand.dtype) == str(made.dtype) and all(isinstance(extent, int) and extent for extent in operand.shape)
        for operand in operands
    )
