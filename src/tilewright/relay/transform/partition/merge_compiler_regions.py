"""Neighbouring regions of one external code generator become one, where no value would have to leave and come back.

Before: %0 = nn.dense(begin(%x), begin(%w)); %1 = end(%0); %2 = nn.relu(begin(%1)); end(%2)
After:  %0 = nn.dense(begin(%x), begin(%w)); %1 = nn.relu(%0); end(%1)

Two regions stay apart if a path from one to the other leads through something outside of both: one call could not both
come before and after it.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import children, post_order
from tilewright.relay.transform.partition.regions import Region, Regions, annotated, read_regions


def merge_compiler_regions(mod: IRModule) -> IRModule:
    """Merge the marked regions of `main`; see the module's docstring."""
    main = mod["main"]
    regions = read_regions(main.body)
    order = {node: index for index, node in enumerate(post_order(regions.body))}
    for node in order:
        for kid in children(node):
            a, b = regions.of.get(kid), regions.of.get(node)
            if a is not None and b is not None and a is not b and a.compiler == b.compiler:
                _merge(regions, a, b, order)
    return infer_type(mod.with_function("main", main.with_body(annotated(regions))))


def _merge(regions: Regions, a: Region, b: Region, order: dict[Expr, int]) -> None:
    """Put the nodes of `b` into `a`, unless a path from `a` to `b` leads through other nodes."""
    inside = {*a.nodes, *b.nodes}
    if _leaves_and_returns(regions, inside, order):
        return
    a.nodes = sorted(inside, key=order.__getitem__)
    for node in b.nodes:
        regions.of[node] = a


def _leaves_and_returns(regions: Regions, inside: set[Expr], order: dict[Expr, int]) -> bool:
    """True if a node outside of `inside` is computed from it and used in it again.

    A region is one call, so what its nodes read is read before any of its results is there: all nodes of another
    region depend on whatever one of them depends on.
    """
    first = min(order[node] for node in inside)
    dependent: set[Expr] = set()
    changed = True
    while changed:
        changed = False
        for node, index in order.items():
            if index < first or node in inside or node in dependent:
                continue
            region = regions.of.get(node)
            fellows = region.nodes if region is not None else [node]
            if any(kid in inside or kid in dependent for fellow in fellows for kid in children(fellow)):
                dependent.update(fellows)
                changed = True
    return any(kid in dependent for node in inside for kid in children(node))
