"""Simplification rules about values: neutral elements, constants that combine, powers of two.

Each rule takes a call of an operator that `rules_of` returns it for and returns a simpler expression of the same type,
or None. The tests check every rule on random data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr, merge_spans
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.transform.simplify.make import is_call, make
from tilewright.relay.transform.simplify.rule_index import RuleIndex

Rule = Callable[[Call], Expr | None]
rule_of: RuleIndex[Rule] = RuleIndex()


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
    """c + x -> x + c, so that the rules below look at one operand."""
    a, b = call.args
    if isinstance(a, Constant) and not isinstance(b, Constant):
        return Call(call.op, [b, a], call.attrs, call.span)
    return None


def combine_constants(call: Call) -> Expr | None:
    """(x + c) + d -> x + (c + d), for any associative operator, if the combined constant is no larger than both."""
    inner, outer = call.args
    if not isinstance(outer, Constant) or not (isinstance(inner, Call) and inner.op is call.op):
        return None
    data, constant = inner.args
    if not isinstance(constant, Constant) or isinstance(data, Constant) or not tensor_type_of(call).dtype.is_float:
        return None
    assert isinstance(call.op, Op)
    combined = np.asarray(call.op.reference(call.attrs, constant.data, outer.data))
    if combined.size > max(constant.data.size, outer.data.size):
        return None
    return Call(call.op, [data, Constant(combined)], call.attrs, merge_spans(inner, call))


@rule_of("subtract")
def subtract_constant(call: Call) -> Expr | None:
    """x - c -> x + (-c) in floating point."""
    data, constant = call.args
    if isinstance(constant, Constant) and tensor_type_of(call).dtype.is_float:
        return make("add", data, Constant(np.negative(constant.data)), span=call.span)
    return None


@rule_of("divide")
def divide_by_power_of_two(call: Call) -> Expr | None:
    """x / c -> x * (1 / c) where every 1 / c is exact: c is a power of two and its inverse is a normal number."""
    data, constant = call.args
    if not isinstance(constant, Constant) or tensor_type_of(call).dtype not in ("float32", "float64"):
        return None
    mantissa, exponent = np.frexp(constant.data)
    if constant.data.size == 0 or np.any(np.abs(mantissa) != 0.5) or np.any(np.abs(exponent) > 120):
        return None
    return make("multiply", data, Constant((1 / constant.data).astype(constant.data.dtype)), span=call.span)


def twice_is_once(call: Call) -> Expr | None:
    """relu(relu(x)) -> relu(x), and for other idempotent operators."""
    inner = call.args[0]
    return inner if isinstance(inner, Call) and inner.op is call.op and inner.attrs == call.attrs else None


def twice_is_nothing(call: Call) -> Expr | None:
    """-(-x) -> x, and not(not x) -> x."""
    inner = call.args[0]
    return inner.args[0] if isinstance(inner, Call) and inner.op is call.op else None


@rule_of("clip")
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


def rules_of(op: Op) -> tuple[Rule, ...]:
    """The rules that hold by what `op` says of its algebra, then those about it alone."""
    found: list[Rule] = []
    if op.neutral is not None:
        found.append(neutral_right(op.neutral))
    if op.commutative:
        found += [constant_to_right] if op.neutral is None else [neutral_left(op.neutral), constant_to_right]
    if op.associative:
        found.append(combine_constants)
    if op.idempotent:
        found.append(twice_is_once)
    if op.involution:
        found.append(twice_is_nothing)
    return (*found, *rule_of.rules(op))
