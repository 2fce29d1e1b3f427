"""The names that a subgraph uses but does not define: what it takes from the graph around it."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto


def free_names(graph: Any) -> list[str]:
    """Names read by `graph`, its outputs and the graphs within it that neither it nor they define, in order of use."""
    found: dict[str, None] = {}
    defined = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        inner = [name for subgraph in subgraphs(node) for name in free_names(subgraph)]
        for name in [*node.input, *inner]:
            if name and name not in defined:
                found[name] = None
        defined.update(node.output)
    for value in graph.output:
        if value.name not in defined:
            found[value.name] = None
    return list(found)


def subgraphs(node: Any) -> list[Any]:
    """The graphs among the attributes of a node."""
    found = [entry.g for entry in node.attribute if entry.type == AttributeProto.GRAPH]
    return found + [graph for entry in node.attribute if entry.type == AttributeProto.GRAPHS for graph in entry.graphs]
