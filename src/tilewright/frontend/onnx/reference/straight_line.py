"""A model without branches: for given inputs, every `If` replaced by the branch that is taken.

The values of the conditions come from a reference engine, one level of nesting at a time. What is left computes the
same on these inputs, and every value of it can be compared. `Loop` and `Scan` stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, Any]]
#: The values named, on the inputs at hand.
Evaluate = Callable[[Any, list[str]], dict[str, np.ndarray[Any, Any]]]


def straight_line(model: Any, evaluate: Evaluate) -> Any:
    """A copy of the ONNX `model` with all `If` nodes replaced by the branches that `evaluate` says are taken."""
    # onnx is optional, and slow to import: only what cuts models needs it
    import onnx
    from onnx import inliner

    made = inliner.inline_local_functions(model) if model.functions else onnx.ModelProto.FromString(_bytes(model))
    while branches := [node for node in made.graph.node if node.op_type == "If" and node.domain in ("", "ai.onnx")]:
        conditions = evaluate(made, list(dict.fromkeys(node.input[0] for node in branches)))
        nodes = []
        for node in made.graph.node:
            if node.op_type == "If" and node.domain in ("", "ai.onnx"):
                taken = "then_branch" if bool(conditions[node.input[0]].reshape(-1)[0]) else "else_branch"
                (graph,) = [attribute.g for attribute in node.attribute if attribute.name == taken]
                nodes += _inlined(node, graph, f"{node.name or node.output[0]}/{taken}/", made.graph)
            else:
                nodes.append(node)
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del made.graph.node[:]
        made.graph.node.extend(copies)
    return made


def _bytes(model: Any) -> bytes:
    return model.SerializeToString()


def _inlined(node: Any, graph: Any, prefix: str, outer: Any) -> list[Any]:
    """The nodes of a branch under names of their own, its results under the names of the `If` node's outputs."""
    import onnx

    own = {name for inner in graph.node for name in inner.output if name} | {t.name for t in graph.initializer}
    names = {name: prefix + name for name in own}
    produced = {name for inner in graph.node for name in inner.output}
    copies = []
    for result, output in zip(graph.output, node.output):
        if result.name in produced and names[result.name] == prefix + result.name:
            names[result.name] = output
        else:  # a constant, a value from outside, or one that the branch returns twice
            source = names.get(result.name, result.name)
            copies.append(onnx.helper.make_node("Identity", [source], [output], name=prefix + "result_" + output))
    for tensor in graph.initializer:
        kept = onnx.TensorProto.FromString(tensor.SerializeToString())
        kept.name = names[tensor.name]
        outer.initializer.append(kept)
    return [_renamed(inner, names, prefix) for inner in graph.node] + copies


def _renamed(node: Any, names: Mapping[str, str], prefix: str) -> Any:
    """A copy of `node`, and of the graphs inside of it, that uses `names`."""
    import onnx

    made = onnx.NodeProto.FromString(node.SerializeToString())
    made.name = prefix + made.name if made.name else ""
    made.input[:] = [names.get(name, name) for name in node.input]
    made.output[:] = [names.get(name, name) for name in node.output]
    for attribute in made.attribute:
        for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
            _rename_graph(graph, names)
    return made


def _rename_graph(graph: Any, names: Mapping[str, str]) -> None:
    """Reads of outer values inside a graph, but not of values that it makes itself under the same name."""
    own = {t.name for t in graph.initializer} | {i.name for i in graph.input}
    own |= {name for node in graph.node for name in node.output}
    outside = {name: made for name, made in names.items() if name not in own}
    for node in graph.node:
        node.input[:] = [outside.get(name, name) for name in node.input]
        for attribute in node.attribute:
            for inner in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                _rename_graph(inner, outside)
    for result in graph.output:
        result.name = outside.get(result.name, result.name)
