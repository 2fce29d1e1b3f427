"""Configurations of templates for less memory: fewer pixels of a tile at once, and loops that are not unrolled.

Before: fn (%p0, %p1) { nn.contrib_conv2d_bytes(%p0, %p1, …) }(%x, w)
After:  fn (%p0, %p1, schedule=((pixels, 1), (steps, 1))) { nn.contrib_conv2d_bytes(%p0, %p1, …) }(%x, w)
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.backend.lower import SCHEDULE
from tilewright.driver.lower import search_space
from tilewright.relay.ir.expr import Call, Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import rewrite
from tilewright.target import Target


def small_tiles(mod: IRModule, target: Target, most: Mapping[str, int]) -> tuple[IRModule, float]:
    """The module with the cheapest configurations whose knobs are at most `most`, and how many times as much it costs.

    Functions whose template has none of these knobs, or no such configuration, stay as they are.
    """
    costs: dict[Function, tuple[Function, float, float]] = {}

    def configured(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Function):
            return None
        if node.op not in costs:
            costs[node.op] = _smaller(node.op, target, most)
        totals[0] += costs[node.op][1]
        totals[1] += costs[node.op][2]
        made = costs[node.op][0]
        return None if made is node.op else Call(made, node.args, node.attrs, node.span)

    totals = [0.0, 0.0]
    main = mod["main"]
    changed = infer_type(mod.with_function("main", main.with_body(rewrite(main.body, configured))))
    return changed, totals[1] / totals[0] if totals[0] else 1.0


def _smaller(function: Function, target: Target, most: Mapping[str, int]) -> tuple[Function, float, float]:
    """A function with a smaller configuration; the cycles of its default and of that one."""
    space = search_space(function, target)
    if space is None or not any(name in space.default for name in most):
        return function, 0.0, 0.0
    fits = (one for one in space if all(one.get(name, 0) <= limit for name, limit in most.items()))
    chosen = min(fits, key=lambda one: space.cost(one).cycles, default=space.default)
    default, cycles = space.cost(space.default).cycles, space.cost(chosen).cycles
    if chosen == space.default:
        return function, default, cycles
    return function.with_attr(SCHEDULE, chosen.items_), default, cycles
