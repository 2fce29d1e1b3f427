"""Simplification rules about values: neutral elements, constants that combine, powers of two.

Each rule takes a call of the operator it is listed under in `RULES` and returns a simpler expression of the same type,
or None. The tests check every rule on random data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, merge_spans
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.simplify.make import is_call, make

Rule = Callable[[Call], Expr | None]


def _same_type(expr: Expr, call: Call) -> Expr | None:
    return expr if tensor_type_of(expr) == tensor_type_of(call) else None


def _is_all(expr: Expr, value: float) -> bool:
    return isinstance(expr, Constant) and expr.data.size <= 1 << 20 and bool(np.all(expr.data == value))


def neutral_right(value: float) -> Rule:
    """x + 0, x - 0, x * 1, x / 1, x ** 1 -> x."""
    return lambda call: _same_type(call.args[0], call) if _is_all(call.args[1], value) else None


def neutral_left(value: float) -> Rule:
    """0 + x, 1 * x -> x."""
    return lambda call: _same_type(call.args[1], call) if _is_all(call.args[0], value) else None


def constant_to_right(call: Call) -> Expr | None:
    """c + x -> x + c, so that the rules below look in one place."""
    a, b = call.args
    if isinstance(a, Constant) and not isinstance(b, Constant):
        return Call(call.op, [b, a], call.attrs, call.span)
    return None


def combine_constants(call: Call) -> Expr | None:
    """(x + c) + d -> x + (c + d), and for multiplication, as long as the combined constant is no larger than both."""
    inner, outer = call.args
    if not isinstance(outer, Constant) or not (isinstance(inner, Call) and inner.op is call.op):
        return None
    data, constant = inner.args
    if not isinstance(constant, Constant) or isinstance(data, Constant) or not tensor_type_of(call).dtype.is_float:
        return None
    ufunc = np.add if is_call(call, "add") else np.multiply
    combined = ufunc(constant.data, outer.data)
    if combined.size > max(constant.data.size, outer.data.size):
        return None
    return Call(call.op, [data, Constant(combined)], call.attrs, merge_spans(inner, call))


def subtract_constant(call: Call) -> Expr | None:
    """x - c -> x + (-c) in floating point."""
    data, constant = call.args
    if isinstance(constant, Constant) and tensor_type_of(call).dtype.is_float:
        return make("add", data, Constant(np.negative(constant.data)), span=call.span)
    return None


def divide_by_power_of_two(call: Call) -> Expr | None:
    """x / c -> x * (1 / c) where every 1 / c is exact: c is a power of two and its inverse is a normal number."""
    data, constant = call.args
    if not isinstance(constant, Constant) or tensor_type_of(call).dtype not in ("float32", "float64"):
        return None
    mantissa, exponent = np.frexp(constant.data)
    if constant.data.size == 0 or np.any(np.abs(mantissa) != 0.5) or np.any(np.abs(exponent) > 120):
        return None
    return make("multiply", data, Constant((1 / constant.data).astype(constant.data.dtype)), span=call.span)


def cast_to_same(call: Call) -> Expr | None:
    """cast(x) to the type it has -> x."""
    return _same_type(call.args[0], call)


def twice_is_once(call: Call) -> Expr | None:
    """relu(relu(x)) -> relu(x), and for other idempotent operators."""
    inner = call.args[0]
    return inner if isinstance(inner, Call) and inner.op is call.op and inner.attrs == call.attrs else None


def twice_is_nothing(call: Call) -> Expr | None:
    """-(-x) -> x, and not(not x) -> x."""
    inner = call.args[0]
    return inner.args[0] if isinstance(inner, Call) and inner.op is call.op else None


def clip_of_clip(call: Call) -> Expr | None:
    """clip(clip(x, a, b), c, d) -> clip(x, max(a, c), min(b, d)) where the ranges overlap."""
    inner = call.args[0]
    if not is_call(inner, "clip"):
        return None
    assert isinstance(inner, Call)
    low, high = max(inner.attrs.a_min, call.attrs.a_min), min(inner.attrs.a_max, call.attrs.a_max)
    if low > high:
        return None
    return make("clip", *inner.args, **call.attrs.replace(a_min=low, a_max=high), span=merge_spans(inner, call))


RULES: dict[str, tuple[Rule, ...]] = {
    "add": (neutral_right(0), neutral_left(0), constant_to_right, combine_constants),
    "multiply": (neutral_right(1), neutral_left(1), constant_to_right, combine_constants),
    "subtract": (neutral_right(0), subtract_constant),
    "divide": (neutral_right(1), divide_by_power_of_two),
    "power": (neutral_right(1),),
    "cast": (cast_to_same,),
    "nn.relu": (twice_is_once,),
    "abs": (twice_is_once,),
    "floor": (twice_is_once,),
    "ceil": (twice_is_once,),
    "negative": (twice_is_nothing,),
    "logical_not": (twice_is_nothing,),
    "clip": (clip_of_clip,),
}
