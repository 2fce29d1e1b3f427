"""Products of zero-centred integers as products of bytes, for machines that multiply bytes and pad with zeros.

Before: %0 = subtract(cast(%x, "int32"), 3); nn.conv2d(%0, w, padding=[1, 1, 1, 1])                     (w: int32)
After:  %0 = nn.conv2d(%x, w', padding=[1, 1, 1, 1], out_dtype="int32"); subtract(%0, c)                   (w': int8)

`c` is what the number 3 everywhere in the image would yield. Numbers without a sign are moved into the range of int8
first. Of products of two computed operands these stay bytes in memory: what is subtracted is the product's kernel's to
do. Results are the same, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.annotation import stop_fusion
from tilewright.relay.transform.simplify.make import is_call, make

_LEAST, _MOST = -128, 127
_UNSIGNED = 128


def int8_products(mod: IRModule) -> IRModule:
    """Multiply bytes where the operands are bytes less a number; see the module's docstring."""
    mod = infer_type(mod)
    return infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


@dataclass(frozen=True)
class _Bytes:
    """Values `expr` - `zero`, where `expr` is int8."""

    expr: Expr
    zero: int


def _rule(node: Expr) -> Expr | None:
    if not is_call(node, "nn.conv2d", "nn.dense", "nn.batch_matmul") or tensor_type_of(node).dtype != "int32":
        return None
    assert isinstance(node, Call)
    weight = _weight(node.args[1])
    if is_call(node, "nn.batch_matmul") or not isinstance(weight, Constant):
        return _of_two_computed(node)
    data = _bytes(node.args[0])
    if data is None or tensor_type_of(weight).dtype not in ("int32", "int8"):
        return None
    values = np.asarray(weight.data)
    if values.min(initial=0) < _LEAST or values.max(initial=0) > _MOST or not _is_plain(node):
        return None
    narrow = Constant(values.astype(np.int8))
    product = Call(node.op, [data.expr, narrow], node.attrs.replace(out_dtype="int32"), node.span)
    if not data.zero:
        return product
    return make("subtract", product, Constant(_of_ones(node, values) * np.int32(data.zero)))


def _weight(expr: Expr) -> Expr:
    """The bytes that a large constant, whose conversion was not folded, is made of; else `expr` itself."""
    found = None if isinstance(expr, Constant) else _bytes(expr)
    return found.expr if found is not None and isinstance(found.expr, Constant) and not found.zero else expr


def _of_two_computed(node: Call) -> Expr | None:
    """A product with its operands as bytes in memory, widened and centred where they are read."""
    operands = [_bytes(arg) for arg in node.args]
    if is_call(node, "nn.conv2d") or None in operands:
        return None
    return Call(node.op, [_centred(found) for found in operands if found is not None], node.attrs, node.span)


def _centred(operand: _Bytes) -> Expr:
    wide = make("cast", _stored(operand.expr), dtype="int32")
    return make("subtract", wide, Constant(np.asarray(operand.zero, np.int32))) if operand.zero else wide


def _stored(expr: Expr) -> Expr:
    """`expr` in memory, but for moves of its elements, which the kernel that reads them does."""
    if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.rearranges:
        return Call(expr.op, [_stored(expr.args[0]), *expr.args[1:]], expr.attrs, expr.span)
    return stop_fusion(expr)


def _is_plain(node: Call) -> bool:
    """True for images and weights in their usual order, of constant sizes."""
    if not tensor_type_of(node).is_static:
        return False
    if is_call(node, "nn.dense"):
        return True
    attrs = node.attrs
    return attrs.data_layout == "NCHW" and attrs.kernel_layout == "OIHW" and attrs.out_layout in ("", "NCHW")


def _bytes(expr: Expr) -> _Bytes | None:
    """The bytes that an operand is made of; None where it is not made of bytes."""
    zero = 0
    if is_call(expr, "subtract"):
        value = expr.args[1]  # type: ignore[attr-defined]
        if not isinstance(value, Constant) or np.asarray(value.data).size != 1:
            return None
        zero, expr = int(np.asarray(value.data).reshape(())), expr.args[0]  # type: ignore[attr-defined]
    if is_call(expr, "reshape", "nn.batch_flatten", "squeeze"):
        inner = _bytes(expr.args[0])  # type: ignore[attr-defined]
        if inner is None:
            return None
        moved = Call(expr.op, [inner.expr], expr.attrs, expr.span)  # type: ignore[attr-defined]
        return _Bytes(moved, inner.zero + zero)
    if not is_call(expr, "cast") or tensor_type_of(expr).dtype != "int32":
        return None
    source = expr.args[0]  # type: ignore[attr-defined]
    kind = str(tensor_type_of(source).dtype)
    if kind == "int8":
        return _Bytes(source, zero)
    if kind != "uint8":
        return None
    signed = make("subtract", expr, Constant(np.asarray(_UNSIGNED, np.int32)))
    return _Bytes(make("cast", signed, dtype="int8"), zero - _UNSIGNED)


def _of_ones(node: Call, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The product of a number 1 everywhere: at the borders of an image fewer weights count."""
    if is_call(node, "nn.dense"):
        return weight.astype(np.int32).sum(axis=1, dtype=np.int32)
    attrs, shape = node.attrs, tensor_type_of(node.args[0]).shape
    sums = weight.astype(np.int32).sum(axis=1, dtype=np.int32)
    if not any(attrs.padding):
        return sums.sum(axis=(1, 2), dtype=np.int32).reshape(-1, 1, 1)
    out = tensor_type_of(node).shape
    inside = []
    for axis in (0, 1):
        first = np.arange(int(out[2 + axis])) * attrs.strides[axis] - attrs.padding[axis]
        position = first[:, None] + np.arange(sums.shape[1 + axis]) * attrs.dilation[axis]
        inside.append(((position >= 0) & (position < int(shape[2 + axis]))).astype(np.int32))
    made: np.ndarray[Any, Any] = np.einsum("okl,yk,xl->oyx", sums, *inside, optimize=True).astype(np.int32)
    return made
