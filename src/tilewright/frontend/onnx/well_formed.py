"""What a graph must hold before anything is converted: names are text, given once, and given before they are read.

Graphs within nodes (branches, loop bodies) see the names around them as far as those stand before the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.errors import ModelError


def check_graph(graph: Any, scope: str = "", around: frozenset[str] = frozenset(), later: Any = None) -> None:
    """Raise ModelError naming the node and the name that is no text, given twice, or read before it is given.

    `around` are the names that the graph sees from outside, `later` maps those that come only behind it to the node
    that computes them.
    """
    where = f"the graph of {scope[:-1]!r}" if scope else "the graph"
    for kind, values in (("input", graph.input), ("initializer", graph.initializer)):
        _once([value.name for value in values], kind, where)
    _text(graph.node, where)
    behind = {**(later or {}), **_producers(graph.node, scope)}
    known = around.union(
        (value.name for value in (*graph.input, *graph.initializer)),
        (tensor.values.name for tensor in graph.sparse_initializer),
    )
    seen = set(known)
    for name in seen & behind.keys():
        del behind[name]
    for index, node in enumerate(graph.node):
        span = scope + (node.name or f"{node.op_type}_{index}")
        for name in node.input:
            if name and name not in seen:
                _fail(f"node {span!r} ({node.op_type})", name, behind)
        for inner in _graphs(node):
            check_graph(inner, f"{span}/", frozenset(seen), behind)
        seen.update(name for name in node.output if name)
    if scope:
        for value in graph.output:
            if value.name and value.name not in seen:
                _fail(where, value.name, behind)


def _fail(reader: str, name: str, behind: dict[str, str]) -> None:
    if name not in behind:
        raise ModelError(f"{reader} reads {name!r}, which no input, initializer or earlier node provides")
    raise ModelError(
        f"{reader} reads {name!r}, which node {behind[name]!r} computes only behind it: the graph has a cycle, or its "
        "nodes are not in order"
    )


def _once(names: Sequence[str], kind: str, where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"{where} has two {kind}s called {name!r}; names are given once")
        seen.add(name)


def _text(nodes: Iterable[Any], where: str) -> None:
    for index, node in enumerate(nodes):
        attributes = [entry.name for entry in node.attribute]
        names = [node.name, node.op_type, node.domain, *node.input, *node.output, *attributes]
        if not all(isinstance(name, str) for name in names):
            raise ModelError(f"node {index} of {where} holds a name that is not text: {names}")


def _producers(nodes: Iterable[Any], scope: str) -> dict[str, str]:
    """The node that computes each name."""
    found: dict[str, str] = {}
    for index, node in enumerate(nodes):
        span = scope + (node.name or f"{node.op_type}_{index}")
        for name in node.output:
            if name and name in found:
                raise ModelError(
                    f"node {span!r} computes {name!r}, and so does node {found[name]!r}; names are given once"
                )
            found[name] = span
    return found


def _graphs(node: Any) -> list[Any]:
    return [graph for entry in node.attribute for graph in ([entry.g] if entry.HasField("g") else entry.graphs)]
