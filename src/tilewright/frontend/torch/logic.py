"""Comparisons, truth values and bits."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.frontend.idioms import cast, constant, full, like
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.math import to_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "aten.eq": op.equal,
    "aten.ne": op.not_equal,
    "aten.not_equal": op.not_equal,
    "aten.lt": op.less,
    "aten.less": op.less,
    "aten.le": op.less_equal,
    "aten.less_equal": op.less_equal,
    "aten.gt": op.greater,
    "aten.greater": op.greater,
    "aten.ge": op.greater_equal,
    "aten.greater_equal": op.greater_equal,
}


@converts(*_COMPARISONS)
def convert_comparison(node: TorchNode) -> Expr:
    """Two values compared in the type that both are promoted to."""
    dtype = node.common_type("self", "other")
    left, right = node.tensor("self", dtype), node.tensor("other", dtype)
    if dtype.is_bool:
        left, right = cast(left, "uint8"), cast(right, "uint8")
    return _COMPARISONS[node.target.rpartition(".")[0]](left, right)


_LOGIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "aten.logical_and": op.logical_and,
    "aten.logical_or": op.logical_or,
    "aten.logical_xor": op.logical_xor,
}


@converts(*_LOGIC)
def convert_logic(node: TorchNode) -> Expr:
    """Truth values combined; numbers other than 0 are true."""
    left, right = (to_type(node[name], "bool") for name in ("self", "other"))
    return _LOGIC[node.target.rpartition(".")[0]](left, right)


@converts("aten.logical_not")
def convert_logical_not(node: TorchNode) -> Expr:
    """True where the value is 0."""
    return op.logical_not(to_type(node["self"], "bool"))


_BITS: dict[str, tuple[Callable[[Expr, Expr], Expr], Callable[[Expr, Expr], Expr]]] = {
    "and": (op.bitwise_and, op.logical_and),
    "or": (op.bitwise_or, op.logical_or),
    "xor": (op.bitwise_xor, op.logical_xor),
}


@converts("aten.bitwise_and", "aten.bitwise_or", "aten.bitwise_xor", "aten.__and__", "aten.__or__", "aten.__xor__")
def convert_bits(node: TorchNode) -> Expr:
    """Bits combined, or truth values."""
    name = node.target.split(".")[1].strip("_").removeprefix("bitwise_")
    left, right = node.tensor("self"), node.tensor("other")
    return _BITS[name][node.dtype.is_bool](left, right)


@converts("aten.bitwise_not")
def convert_bitwise_not(node: TorchNode) -> Expr:
    """Every bit turned, or the truth value."""
    return op.logical_not(node["self"]) if node.dtype.is_bool else op.bitwise_not(node["self"])


@converts("aten.bitwise_left_shift", "aten.bitwise_right_shift", "aten.__lshift__", "aten.__rshift__")
def convert_shift(node: TorchNode) -> Expr:
    """Bits moved; by the width or more, or by less than nothing, all of them out."""
    data, positions = node.tensor("self"), node.tensor("other")
    most, zero = constant(node.dtype.bits - 1, node.dtype), like(0, data)
    inside = positions <= most
    if node.dtype.code == "int":
        inside = op.logical_and(inside, positions >= zero)
    bounded = op.where(inside, positions, most)
    if "left" in node.target or "lshift" in node.target:
        return op.where(inside, op.left_shift(data, bounded), zero)
    shifted = op.right_shift(data, bounded)
    return shifted if node.dtype.code == "int" else op.where(inside, shifted, zero)


@converts("aten.isnan", "aten.isinf", "aten.isfinite", "aten.isposinf", "aten.isneginf")
def convert_is(node: TorchNode) -> Expr:
    """The test of each element's kind of number; integers are finite."""
    data, name = node["self"], node.target.split(".")[1]
    if not element_type(data).is_float:
        return full(name == "isfinite", node.shape, "bool")
    if name == "isnan":
        return op.isnan(data)
    if name == "isfinite":
        return op.isfinite(data)
    found = op.isinf(data)
    if name == "isinf":
        return found
    side = op.greater if name == "isposinf" else op.less
    return op.logical_and(found, side(data, like(0, data)))


@converts("aten.isreal")
def convert_isreal(node: TorchNode) -> Expr:
    """All numbers here are real."""
    return full(True, node.shape, "bool")


@converts("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def convert_where(node: TorchNode) -> Expr:
    """Elements of one tensor where the condition holds, of the other elsewhere."""
    return op.where(to_type(node["condition"], "bool"), node.tensor("self"), node.tensor("other"))


@converts("aten.masked_fill")
def convert_masked_fill(node: TorchNode) -> Expr:
    """One value where the mask holds."""
    return op.where(node["mask"], node.tensor("value"), node.tensor("self"))


@converts("aten.isclose")
def convert_isclose(node: TorchNode) -> Expr:
    """|self - other| <= atol + rtol * |other|, or equal."""
    dtype = node.common_type("self", "other")
    if dtype.is_bool:
        dtype_name = "uint8"
        return op.equal(cast(node["self"], dtype_name), cast(node["other"], dtype_name))
    left, right = node.tensor("self", dtype), node.tensor("other", dtype)
    same = op.equal(left, right)
    if not dtype.is_float:
        left, right = cast(left, "float64"), cast(right, "float64")
    bound = like(node["atol"], right) + op.abs(like(node["rtol"], right) * right)
    distance = op.abs(left - right)
    near = op.logical_and(op.isfinite(distance), distance <= bound)
    found = op.logical_or(same, near)
    if node["equal_nan"]:
        found = op.logical_or(found, op.logical_and(op.isnan(left), op.isnan(right)))
    return found
