"""Comparisons, truth values and bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, full, like
from tilewright.frontend.signature import Typed
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.computing import operands
from tilewright.frontend.torch.math import to_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "aten.eq": op.equal, "aten.ne": op.not_equal, "aten.not_equal": op.not_equal, "aten.lt": op.less,
    "aten.less": op.less, "aten.le": op.less_equal, "aten.less_equal": op.less_equal, "aten.gt": op.greater,
    "aten.greater": op.greater, "aten.ge": op.greater_equal, "aten.greater_equal": op.greater_equal,
}  # fmt: skip


@converts(*_COMPARISONS)
def convert_comparison(node: TorchNode) -> Expr:
    """Two values compared in the type that both are promoted to."""
    dtype = node.common_type("self", "other")
    left, right = node.tensor("self", dtype), node.tensor("other", dtype)
    if dtype.is_bool:
        left, right = cast(left, "uint8"), cast(right, "uint8")
    return _COMPARISONS[node.target.rpartition(".")[0]](left, right)


def _bits(of_truth: Callable[..., Expr], of_bits: Callable[..., Expr], node: TorchNode) -> Expr:
    """A function of truth values or of bits, as the result is."""
    return (of_truth if node.dtype.is_bool else of_bits)(*operands(node))


def _logic(function: Callable[..., Expr], node: TorchNode) -> Expr:
    """A function of truth values, as which numbers other than 0 are true."""
    return function(*(to_type(node[name], "bool") for name in ("self", "other")))


converts.functions({
    "aten.logical_and": partial(_logic, op.logical_and), "aten.logical_or": partial(_logic, op.logical_or),
    "aten.logical_xor": partial(_logic, op.logical_xor),
    "aten.bitwise_and aten.__and__": partial(_bits, op.logical_and, op.bitwise_and),
    "aten.bitwise_or aten.__or__": partial(_bits, op.logical_or, op.bitwise_or),
    "aten.bitwise_xor aten.__xor__": partial(_bits, op.logical_xor, op.bitwise_xor),
    "aten.logical_not": lambda node: op.logical_not(to_type(node["self"], "bool")),
    "aten.isreal": lambda node: full(True, node.shape, "bool"),
    "aten.masked_fill": lambda node: op.where(node["mask"], node.tensor("value"), node.tensor("self")),
})  # fmt: skip
converts.typed({
    "aten.bitwise_not": lambda x: (op.logical_not if element_type(x).is_bool else op.bitwise_not)(x),
    "aten.bitwise_left_shift aten.__lshift__": lambda x, y: functions.shifted_bits(x, y, True),
    "aten.bitwise_right_shift aten.__rshift__": lambda x, y: functions.shifted_bits(x, y, False),
})  # fmt: skip


@converts("aten.isnan", "aten.isinf", "aten.isfinite", "aten.isposinf", "aten.isneginf")
def convert_is(node: TorchNode, data: Expr) -> Expr:
    """The test of each element's kind of number; integers are finite."""
    name = node.target.split(".")[1]
    if not element_type(data).is_float:
        return full(name == "isfinite", node.shape, "bool")
    if name in ("isnan", "isfinite", "isinf"):
        return {"isnan": op.isnan, "isfinite": op.isfinite, "isinf": op.isinf}[name](data)
    return op.logical_and(op.isinf(data), data > 0 if name == "isposinf" else data < 0)


@converts("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def convert_where(node: TorchNode, condition: Expr, other: Typed) -> Expr:
    return op.where(to_type(condition, "bool"), node.tensor("self"), other)


@converts("aten.isclose")
def convert_isclose(node: TorchNode) -> Expr:
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
