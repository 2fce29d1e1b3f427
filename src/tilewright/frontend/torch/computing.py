"""Element types to compute in: PyTorch computes floats of 16 bits in float32, and rounds what comes out."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.errors import InternalError, TilewrightError
from tilewright.frontend.converters import Converter
from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.signature import apply
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType


def converted(converter: Converter, node: TorchNode) -> Any:
    """The result of a converter; an error in it is a fault of ours, as PyTorch has checked the node."""
    try:
        return apply(converter, node)
    except TilewrightError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError, AssertionError) as error:
        raise InternalError(f"{node.label}: its conversion failed with {type(error).__name__}: {error}.") from error


def operands(node: TorchNode) -> tuple[Expr, Expr]:
    """`self` and `other` in the type of the result."""
    return node.tensor("self"), node.tensor("other")


def in_computing_type(
    node: TorchNode, compute: Callable[[Expr, Expr], Expr], wide: bool = True, rounded: bool = False
) -> Expr:
    """The result of `compute` on `self` and `other`: where it is a float of 16 bits and `wide`, in float32.

    That is where torch computes; without it the result is the same only if there is one rounding and no number
    among the operands that the type has not. With `rounded` such numbers are rounded before.
    """
    dtype = node.dtype
    if not (wide and _is_short(dtype)):
        return compute(*operands(node))
    left, right = (
        cast(node.tensor(name), "float32") if rounded or isinstance(node[name], Expr) else node.tensor(name, "float32")
        for name in ("self", "other")
    )
    return cast(compute(left, right), dtype)


def has_value(value: Any, dtype: DType) -> bool:
    """False for a number that `dtype` has not."""
    if not isinstance(value, float) or not math.isfinite(value):
        return True
    return float(constant(value, dtype).data.astype("float64")) == value


def in_float32(converter: Converter) -> Converter:
    """`converter` made to compute 16-bit floats in float32; for sums of squares, which overflow in float16."""

    @functools.wraps(converter)
    def convert(node: TorchNode) -> Any:
        if not _is_short(node.dtype):
            return apply(converter, node)
        given = {name: _widened(value) for name, value in node.arguments.items()}
        made = apply(converter, replace(node, arguments=given, wide=True))
        if made is None or isinstance(made, Expr):
            return made if made is None else cast(made, node.dtype)
        return [cast(value, node.dtype_at(index)) for index, value in enumerate(made)]

    return convert


def _widened(value: Any) -> Any:
    return cast(value, "float32") if isinstance(value, Expr) and _is_short(element_type(value)) else value


def _is_short(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16
