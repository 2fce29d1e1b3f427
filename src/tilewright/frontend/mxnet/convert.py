"""A whole MXNet symbol to a Relay module: read both files, convert node after node, gather its heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.converters import import_families
from tilewright.frontend.graph_walk import GraphWalk
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.mxnet.load import Symbol, load, parsed
from tilewright.frontend.mxnet.node import MxnetNode, converts
from tilewright.frontend.outputs import module_of
from tilewright.frontend.two_files import Part
from tilewright.relay.ir.expr import Constant, var
from tilewright.relay.ir.module import IRModule
from tilewright.support.dtype import DType

import_families("tilewright.frontend.mxnet", "detection math nn shapes")

#: Operators of which only the first input is needed outside of training: the others are labels.
_OF_LABELS = ("SoftmaxOutput", "Softmax", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
#: Results that operators have besides those that a model reads.
_RESULTS = 4


def from_mxnet(
    symbol: Part,
    parameters: Part | Mapping[str, np.ndarray] | None = None,
    input_shapes: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for an MXNet symbol (NAME-symbol.json), and the specs of its inputs in order.

    `parameters` is NAME-0000.params, or arrays by name; without it those of the latest epoch beside the symbol are
    taken. A symbol seldom says what shapes its inputs have: `input_shapes` must. Labels of losses are no inputs.

    Raises `ModelError` for a bad file, `ShapeError` for a missing or wrong shape, `UnsupportedError` naming every
    operator that cannot be converted.
    """
    graph, weights = load(symbol, parameters)
    read = _needed(graph)
    free = [
        node
        for position, node in enumerate(graph.nodes)
        if position in read and node.operator == "null" and node.name not in weights
    ]
    specs = resolve_inputs([_declared(node.name, node.attrs) for node in free], input_shapes)
    params = {spec.name: var(spec.name, spec.type) for spec in specs}
    walk = GraphWalk(graph.label, converts)
    for position, node in enumerate(graph.nodes):
        if position not in read:
            continue
        if node.operator == "null":
            walk.values[position, 0] = params[node.name] if node.name in params else _constant(weights[node.name])
            continue
        reads = node.inputs[:1] if node.operator in _OF_LABELS else node.inputs
        inputs = [walk.value(key, f"{node.operator} {node.name!r}") for key in reads]
        walk.step(MxnetNode(node, inputs), [(position, index) for index in range(_RESULTS if inputs else 1)])
    results = walk.results(graph.heads)
    return module_of(list(params.values()), results, _names(graph)), specs


def _constant(data: np.ndarray) -> Constant:
    return Constant(data if data.flags.aligned else data.copy())


def _needed(graph: Symbol) -> set[int]:
    """The nodes that the heads depend on, without labels."""
    found: set[int] = set()
    stack = [position for position, _ in graph.heads]
    while stack:
        position = stack.pop()
        if position not in found:
            found.add(position)
            node = graph.nodes[position]
            stack += [one for one, _ in (node.inputs[:1] if node.operator in _OF_LABELS else node.inputs)]
    return found


def _declared(name: str, attrs: Mapping[str, str]) -> Declared:
    """An input: its shape is in the symbol where the program gave one, with 0 for what it left unknown."""
    shape = parsed(attrs.get("__shape__", "None"))
    if not isinstance(shape, tuple) or not all(isinstance(extent, int) for extent in shape):
        return Declared(name, None, DType("float32"))
    return Declared(name, tuple("?" if extent <= 0 else extent for extent in shape), DType("float32"))


def _names(graph: Symbol) -> list[str]:
    """The names of the heads' nodes, with a number where a node has several."""
    names = [graph.nodes[position].name for position, _ in graph.heads]
    return [name if names.count(name) == 1 else f"{name}_{index}" for name, (_, index) in zip(names, graph.heads)]
