"""Sizes of the tables that an ONNX model indexes by an input of integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx

from tilewright.frontend.onnx.load import load_model, normalize_domain
from tilewright.frontend.onnx.registry import MICROSOFT

#: Operators that look up: for each table the position of the indices, of the table, and its axis or the attribute
#: which says it.
_LOOKUPS: dict[tuple[str, str], tuple[tuple[int, int, int | str], ...]] = {
    ("", "Gather"): ((1, 0, "axis"),), ("", "GatherElements"): ((1, 0, "axis"),),
    ("", "ScatterElements"): ((1, 0, "axis"),), ("", "Scatter"): ((1, 0, "axis"),),
    ("", "NegativeLogLikelihoodLoss"): ((1, 0, 1),), ("", "SoftmaxCrossEntropyLoss"): ((1, 0, 1),),
    (MICROSOFT, "GatherBlockQuantized"): ((1, 0, "gather_axis"),),
    (MICROSOFT, "EmbedLayerNormalization"): ((0, 2, 0), (1, 4, 0), (7, 3, 0)),
}  # fmt: skip
#: Operators whose indices are vectors, one number for each axis of the table from `batch_dims` on.
_POINTS = frozenset({("", "GatherND"), ("", "ScatterND")})
#: Operators whose result holds nothing but elements of their first input, or less.
_MOVES = frozenset(
    {
        *("Cast", "Clip", "Concat", "Expand", "Flatten", "Identity", "Max", "Min", "Pad", "Reshape", "Slice", "Split"),
        *("Squeeze", "Tile", "Transpose", "Unsqueeze"),
    }
)


def index_limits(path: str) -> dict[str, int]:
    """The number of entries of the smallest table that an input of the model at `path` indexes, by input."""
    proto = load_model(path).proto
    shapes = _shapes(proto)
    origins = {info.name: info.name for info in proto.graph.input}
    limits: dict[str, int] = {}
    for node in nodes_of(proto.graph):
        key = (normalize_domain(node.domain), node.op_type)
        if key[0] == "" and node.op_type in _MOVES and node.input and node.input[0] in origins:
            origins |= {output: origins[node.input[0]] for output in node.output if output}
        for name, count in _looked_up(node, key, shapes):
            if name in origins:
                limits[origins[name]] = min(count, limits.get(origins[name], count))
    return limits


def nodes_of(graph: Any) -> Iterator[Any]:
    """The nodes of a graph in order, those of branches and loops behind the node that holds them."""
    stack = [iter(graph.node)]
    while stack:
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
            continue
        yield node
        for attribute in node.attribute:
            inner = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
            stack += [iter(graph.node) for graph in inner]


def _looked_up(node: Any, key: tuple[str, str], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, int]]:
    """The names of the indices of a node, each with the number of entries of its table."""
    numbers = {attribute.name: attribute.i for attribute in node.attribute}
    if key in _POINTS:
        table = shapes.get(node.input[0], ())[numbers.get("batch_dims", 0) :]
        if table and min(table) > 0:
            yield node.input[1], min(table)
    for indices, position, where in _LOOKUPS.get(key, ()):
        if max(indices, position) >= len(node.input) or node.input[position] not in shapes:
            continue
        table = shapes[node.input[position]]
        axis = numbers.get(where, 0) if isinstance(where, str) else where
        if -len(table) <= axis < len(table) and table[axis] > 0:
            yield node.input[indices], table[axis]


def _shapes(proto: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of weights and of values, as far as inference knows them; 0 for a symbolic dimension."""
    try:
        graph = onnx.shape_inference.infer_shapes(proto).graph
    except onnx.shape_inference.InferenceError:
        graph = proto.graph  # weights and inputs are known without
    shapes = {
        info.name: tuple(int(dim.dim_value) for dim in info.type.tensor_type.shape.dim)
        for info in (*graph.input, *graph.value_info)
        if info.type.tensor_type.HasField("shape")
    }
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
