"""`tvm.topi` where the classic signature differs: dense layers with a bias, sums of several, padding, `utils`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir, topi
from tilewright.compat.relay.convolutions import pads
from tilewright.compat.tir.layout import BijectiveLayout
from tilewright.errors import InputError
from tilewright.tir.arith.analyzer import Analyzer


def get_const_int(expr: Any) -> int:
    """A constant as an int. Raises `InputError` where the expression has no constant value."""
    found = expr if isinstance(expr, int) else tir.as_const(Analyzer().simplify(tir.convert(expr)))
    if not isinstance(found, int):
        raise InputError(f"{expr!r} is no constant")
    return found


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """A shape with ints in place of constants; what is symbolic stays as it is."""
    found = [dim if isinstance(dim, int) else tir.as_const(Analyzer().simplify(tir.convert(dim))) for dim in in_tuple]
    return tuple(dim if value is None else value for dim, value in zip(in_tuple, found, strict=True))


def nchw_pack_layout(layout_info: str) -> bool:
    """True for the layout NCHWinic, whose batch is split as well."""
    return layout_info[:4] == "NCHW" and "c" in layout_info and "n" in layout_info and layout_info[4:-1].isalnum()


def nchw_xc_layout(layout_info: str) -> bool:
    """True for the layouts NCHWxc: NCHW4c, NCHW16c."""
    return layout_info[:4] == "NCHW" and layout_info[-1] == "c" and layout_info[4:-1].isdigit()


def prod(x: Sequence[Any]) -> Any:
    """The product of the elements; 1 of none."""
    return math.prod(x)


def simplify(expr: Any) -> Any:
    """An equal expression, usually smaller; a number stays as it is."""
    return Analyzer().simplify(expr) if isinstance(expr, tir.Expr) else expr


def traverse_inline(s: te.Schedule, final_op: Any, callback: Callable[[Any], object]) -> None:
    """Inline the element by element operations before `final_op`, and call `callback` on each operation met."""
    visited: set[Any] = set()

    def visit(op: Any) -> None:
        if op in visited:
            return
        visited.add(op)
        if topi.tag.is_injective(op.tag):
            if op not in s.outputs:
                s[op].compute_inline()
            for tensor in op.input_tensors:
                if tensor.op.input_tensors:
                    visit(tensor.op)
        callback(op)

    visit(final_op)


def get_pad_tuple(padding: Any, kernel: Sequence[Any]) -> tuple[int, ...]:
    """Padding before each axis of the kernel, then after each: from a number, one or two an axis, "VALID" or "SAME"
    (for a stride of 1).
    """
    return pads(padding, get_const_tuple(kernel))


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: str | None = None) -> te.Tensor:
    """data [M, K] times weight [N, K] transposed, plus a bias for each column."""
    product = topi.nn.dense(data, weight, out_dtype or "")
    return product if bias is None else topi.nn.bias_add(product, bias, 1)


def get_shape(src_shape: Sequence[Any], src_layout: str, dst_layout: str) -> tuple[Any, ...]:
    """The shape in the layout `dst_layout` of an array whose shape in `src_layout` is `src_shape`."""
    bijective = BijectiveLayout(src_layout, dst_layout)
    return tuple(bijective.forward_shape(src_shape))


def adaptive_pool(data: te.Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCHW") -> te.Tensor:
    """Pooling over windows that divide the image into `output_size` parts."""
    return topi.nn.adaptive_pool2d(data, pool_type, output_size, layout)


def elemwise_sum(xs: Sequence[te.Tensor]) -> te.Tensor:
    """The sum of tensors of one shape, element by element."""
    total = xs[0]
    for x in xs[1:]:
        total = topi.add(total, x)
    return total
