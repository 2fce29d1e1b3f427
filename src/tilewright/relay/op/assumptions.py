"""Sizes that operators take to be equal though the program does not say so: what a run has to check.

add(%x: Tensor[(H, 4)], %y: Tensor[(W, 4)])        H and W
reshape(%x: Tensor[(H, 4)], newshape=(W, 2))       H * 4 and W * 2
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import Dim, tensor_types
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op.equal_sizes import of_broadcast


def assumed_equal(function: Function) -> Iterator[tuple[Dim, Dim, str]]:
    """Pairs of sizes that calls within `function` need to be equal and that may differ, each with the call's name."""
    for call in calls(function.body):
        if not isinstance(call.op, Op):
            continue
        types = [leaf for arg in call.args for leaf in tensor_types(arg.checked_type)]
        if all(type_.is_static for type_ in types) and all(t.is_static for t in tensor_types(call.checked_type)):
            continue
        rule = call.op.equal_sizes
        if rule is None and call.op.pattern <= OpPattern.BROADCAST:
            rule = of_broadcast
        for a, b in rule(call, types) if rule is not None else ():
            if _may_differ(a, b):
                yield a, b, call.span or call.op.name


def _may_differ(a: Dim, b: Dim) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return False
    return a is not b and not isinstance(a, AnyDim) and not isinstance(b, AnyDim)
