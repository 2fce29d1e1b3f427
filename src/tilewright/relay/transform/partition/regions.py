"""Regions for external code generators, as annotations write them: what the passes over them share.

A region is a connected part of the graph between `annotation.compiler_begin` on each of its inputs and
`annotation.compiler_end` on each of its results. `read_regions` takes the annotations off and says which region each
node is in; `annotated` puts them back on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.relay.ir.expr import Call, Constant, Expr, Var
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.annotation import compiler_begin, compiler_end
from tilewright.relay.transform.simplify.make import is_call


@dataclass(eq=False)
class Region:
    """The nodes that one external code generator compiles together, in order of evaluation."""

    compiler: str
    nodes: list[Expr] = field(default_factory=list)


@dataclass
class Regions:
    """A graph without annotations, and the region of each of its nodes that is in one."""

    body: Expr
    of: dict[Expr, Region]

    def distinct(self) -> list[Region]:
        """The regions, in the order of their first nodes."""
        return list(dict.fromkeys(self.of.values()))


def read_regions(body: Expr) -> Regions:
    """The graph and its regions, read from the annotations in `body`."""
    compilers: dict[Expr, str] = {}
    groups: dict[Expr, Expr] = {}
    nodes = [node for node in post_order(body) if not is_call(node, "annotation.compiler_begin")]
    for node in nodes:
        if is_call(node, "annotation.compiler_end"):
            compilers[_group(groups, children(node)[0])] = _compiler(node)
            continue
        for kid in children(node):
            if is_call(kid, "annotation.compiler_begin"):
                compilers[_group(groups, node)] = _compiler(kid)
            elif not isinstance(kid, Var | Constant) and not is_call(kid, "annotation.compiler_end"):
                _join(groups, compilers, kid, node)
    regions: dict[Expr, Region] = {}
    of: dict[Expr, Region] = {}
    fresh: dict[Expr, Expr] = {}
    for node in post_order(body):
        if is_call(node, "annotation.compiler_begin", "annotation.compiler_end"):
            fresh[node] = fresh[children(node)[0]]
            continue
        fresh[node] = rebuild(node, tuple([fresh[kid] for kid in children(node)]))
        group = _group(groups, node)
        if group in compilers and not isinstance(node, Var | Constant):
            region = regions.setdefault(group, Region(compilers[group]))
            region.nodes.append(fresh[node])
            of[fresh[node]] = region
    return Regions(fresh[body], of)


def annotated(regions: Regions) -> Expr:
    """The graph with `compiler_begin` and `compiler_end` on the edges that enter and leave its regions."""
    fresh: dict[Expr, Expr] = {}
    ends: dict[Expr, Expr] = {}

    def result_of(node: Expr) -> Expr:
        """The node's value as the rest of the graph sees it."""
        if node not in regions.of:
            return fresh[node]
        if node not in ends:
            ends[node] = compiler_end(fresh[node], regions.of[node].compiler)
        return ends[node]

    for node in post_order(regions.body):
        region = regions.of.get(node)
        kids = []
        for kid in children(node):
            inside = region is not None and regions.of.get(kid) is region
            value = fresh[kid] if inside else result_of(kid)
            kids.append(value if inside or region is None else compiler_begin(value, region.compiler))
        fresh[node] = rebuild(node, tuple(kids))
    return result_of(regions.body)


def _compiler(annotation: Expr) -> str:
    assert isinstance(annotation, Call)
    return str(annotation.attrs.compiler)


def _group(groups: dict[Expr, Expr], node: Expr) -> Expr:
    """The representative of the nodes joined with `node`."""
    while groups.get(node, node) is not node:
        node = groups[node]
    return node


def _join(groups: dict[Expr, Expr], compilers: dict[Expr, str], a: Expr, b: Expr) -> None:
    a, b = _group(groups, a), _group(groups, b)
    if a is not b:
        groups[a] = b
        if a in compilers:
            compilers[b] = compilers.pop(a)
