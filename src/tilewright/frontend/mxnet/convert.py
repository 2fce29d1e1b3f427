"""A whole MXNet symbol to a Relay module: read both files, convert node after node, gather its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.graph_walk import GraphWalk
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.mxnet import (  # noqa: F401  (importing a family registers its converters)
    attention,
    detection,
    math,
    nn,
    shapes,
)
from tilewright.frontend.mxnet.load import Symbol, load, parsed
from tilewright.frontend.mxnet.node import MxnetNode
from tilewright.frontend.mxnet.registry import converts
from tilewright.frontend.two_files import Part
from tilewright.relay.ir.expr import Constant, Function, GlobalVar, Tuple, var
from tilewright.relay.ir.module import IRModule
from tilewright.support.dtype import DType

#: Operators of which only the first input is needed outside of training: the others are labels.
_OF_LABELS = ("SoftmaxOutput", "Softmax", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
#: Results that operators have besides those that a model reads.
_RESULTS = 4


def convert_model(
    symbol: Part, parameters: Part | Mapping[str, np.ndarray] | None, input_shapes: Mapping[str, Sequence[Any]] | None
) -> tuple[IRModule, list[InputSpec]]:
    """See `tilewright.frontend.mxnet.from_mxnet`."""
    graph, weights = load(symbol, parameters)
    read = _needed(graph)
    free = [
        node
        for place, node in enumerate(graph.nodes)
        if place in read and node.operator == "null" and node.name not in weights
    ]
    specs = resolve_inputs([_declared(node.name, node.attrs) for node in free], input_shapes)
    params = {spec.name: var(spec.name, spec.type) for spec in specs}
    walk = GraphWalk(graph.label, converts)
    for place, node in enumerate(graph.nodes):
        if place not in read:
            continue
        if node.operator == "null":
            walk.values[place, 0] = params[node.name] if node.name in params else _constant(weights[node.name])
            continue
        reads = node.inputs[:1] if node.operator in _OF_LABELS else node.inputs
        inputs = [walk.value(key, f"{node.operator} {node.name!r}") for key in reads]
        walk.step(MxnetNode(node, inputs), [(place, index) for index in range(_RESULTS if inputs else 1)])
    results = walk.results(graph.heads)
    body = results[0] if len(results) == 1 else Tuple(results)
    main = Function(list(params.values()), body, attrs={"output_names": tuple(_names(graph))})
    return IRModule({GlobalVar("main"): main}), specs


def _constant(data: np.ndarray) -> Constant:
    return Constant(data if data.flags.aligned else data.copy())


def _needed(graph: Symbol) -> set[int]:
    """The nodes that the heads depend on, without labels."""
    found: set[int] = set()
    stack = [place for place, _ in graph.heads]
    while stack:
        place = stack.pop()
        if place not in found:
            found.add(place)
            node = graph.nodes[place]
            stack += [one for one, _ in (node.inputs[:1] if node.operator in _OF_LABELS else node.inputs)]
    return found


def _declared(name: str, attrs: Mapping[str, str]) -> Declared:
    """An input: its shape is in the symbol where the program gave one, with 0 for what it left open."""
    shape = parsed(attrs.get("__shape__", "None"))
    if not isinstance(shape, tuple) or not all(isinstance(extent, int) for extent in shape):
        return Declared(name, None, DType("float32"))
    return Declared(name, tuple("?" if extent <= 0 else extent for extent in shape), DType("float32"))


def _names(graph: Symbol) -> list[str]:
    """The names of the heads' nodes, with a number where a node gives several."""
    names = [graph.nodes[place].name for place, _ in graph.heads]
    return [name if names.count(name) == 1 else f"{name}_{index}" for name, (_, index) in zip(names, graph.heads)]
