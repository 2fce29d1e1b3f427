"""Operators that combine elements by a subgraph of one operator: reductions, windows of them, sorting."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import constant, full, reshape, slice_axis
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_Function = Callable[[Expr, Expr], Expr]
_COMBINE: dict[str, _Function] = {
    "add": op.add, "multiply": op.multiply, "minimum": op.minimum, "maximum": op.maximum,
    "and": op.logical_and, "or": op.logical_or,
}  # fmt: skip
_REDUCE: dict[str, Callable[..., Expr]] = {
    "add": op.sum, "multiply": op.prod, "minimum": op.min, "maximum": op.max, "and": op.all, "or": op.any,
}  # fmt: skip
_NAMES = {
    "ADD": "add", "MUL": "multiply", "MULTIPLY": "multiply", "MINIMUM": "minimum", "MAXIMUM": "maximum",
    "LOGICAL_AND": "and", "AND": "and", "LOGICAL_OR": "or", "OR": "or",
}  # fmt: skip
#: What REDUCE_WINDOW combines by, by its codes.
_WINDOW_FUNCTIONS = ("unsupported", "add", "multiply", "minimum", "maximum", "and", "or")
#: Elements of a window that are combined one after the other, at most.
_MOST_ELEMENTS = 1 << 10


def combination(node: Node, index: int) -> str:
    """The combination of two elements by the subgraph `index`: a name of `_COMBINE`, or "second" where that is its
    result.

    Raises `UnsupportedError` for what is more than one operator.
    """
    graphs = node.importer.graphs()
    if not 0 <= index < len(graphs):
        raise ModelError(f"{node.label} calls the subgraph {index} of {len(graphs)}")
    graph = graphs[index]
    if not graph.operators and len(graph.inputs) == 2 and graph.outputs == (graph.inputs[1],):
        return "second"
    if len(graph.operators) == 1 and len(graph.inputs) == 2:
        one = graph.operators[0]
        name = _NAMES.get(one.name.removeprefix("STABLEHLO_"))
        if name and sorted(one.inputs) == sorted(graph.inputs) and one.outputs == graph.outputs:
            return name
    node.unsupported(f"the subgraph {graph.name!r}, which is more than a sum, product, minimum, maximum, and, or")


def padded(
    node: Node, data: Expr, value: Expr, low: Sequence[int], high: Sequence[int], between: Sequence[int]
) -> Expr:
    """`data` with `value`, a scalar, between its elements and around them."""
    for axis, (before, behind, inside) in enumerate(zip(low, high, between)):
        shape = node.shape(data)
        extent = shape[axis]
        full = extent + max(extent - 1, 0) * inside
        positions = np.arange(-before, full + behind)
        step = inside + 1
        kept = (positions >= 0) & (positions < full) & (positions % step == 0)
        if kept.all() and len(kept) == extent:
            continue
        if not kept.any():
            data = op.broadcast_to(value, shape=(*shape[:axis], len(positions), *shape[axis + 1 :]))
            continue
        found = op.take(data, constant(np.where(kept, positions // step, 0), "int32"), axis=axis, mode="fast")
        mask = kept.reshape([-1 if position == axis else 1 for position in range(len(shape))])
        data = op.where(constant(mask, "bool"), found, value)
    return data


@converts("STABLEHLO_REDUCE")
def convert_reduce(node: Node) -> Expr:
    """Inputs: data, what it begins with."""
    if len(node.inputs) != 2:
        node.unsupported(f"{len(node.inputs)} inputs; one tensor is reduced")
    name = combination(node, int(node.option("body_subgraph_index")))
    if name not in _REDUCE:
        node.unsupported(f"a reduction by {name}")
    axes = [node.axis(int(axis)) for axis in node.option("dimensions")]
    made = _REDUCE[name](node[0], axis=axes, keepdims=False) if axes else node[0]
    return _COMBINE[name](made, reshape(node[1], ()))


@converts("STABLEHLO_REDUCE_WINDOW")
def convert_stablehlo_reduce_window(node: Node) -> Expr:
    """Inputs: data, what each window begins with."""
    if len(node.inputs) != 2:
        node.unsupported(f"{len(node.inputs)} inputs; one tensor is reduced")
    name, rank = combination(node, int(node.option("body_subgraph_index"))), node.rank()

    def numbers(option: str, default: int, count: int) -> list[int]:
        given = getattr(node.operator.options, option, None)
        values = [default] * count if given is None or not len(given) else [int(value) for value in given]
        if len(values) != count:
            node.bad(f"{option} {values} of {rank} axes")
        return values

    window, strides = numbers("window_dimensions", 1, rank), numbers("window_strides", 1, rank)
    base, dilation = numbers("base_dilations", 1, rank), numbers("window_dilations", 1, rank)
    pads = np.reshape(numbers("padding", 0, 2 * rank), (rank, 2)).tolist()
    return _windows(node, name, window, strides, base, dilation, pads)


@converts("REDUCE_WINDOW")
def convert_reduce_window(node: Node) -> Expr:
    """Inputs: data, what each window begins with, and of each axis the windows' extent, stride and dilation."""
    code = int(node.option("reduce_function"))
    if not 0 < code < len(_WINDOW_FUNCTIONS):
        node.unsupported(f"the function {code}")
    window, strides, dilation = (
        node.ints(index, what) for index, what in ((2, "window"), (3, "strides"), (4, "dilations"))
    )
    rank = node.rank()
    if not len(window) == len(strides) == len(dilation) == rank or len(node.inputs) != 5:
        node.bad(f"windows {window}, strides {strides}, dilations {dilation} of {rank} axes")
    return _windows(node, _WINDOW_FUNCTIONS[code], window, strides, [1] * rank, dilation, [(0, 0)] * rank)


def _windows(
    node: Node, name: str, window: Sequence[int], strides: Sequence[int], base: Sequence[int],
    dilation: Sequence[int], pads: Sequence[Sequence[int]],
) -> Expr:  # fmt: skip
    """Each window's elements combined, one shifted slice of the padded data after the other."""
    if min((*window, *strides, *base, *dilation), default=1) < 1 or prod(window) > _MOST_ELEMENTS:
        node.unsupported(f"windows of {list(window)} with strides {list(strides)}; {_MOST_ELEMENTS} elements at most")
    if name not in _COMBINE:
        node.unsupported(f"windows combined by {name}")
    initial = reshape(node[1], ())
    low, high = [pair[0] for pair in pads], [pair[1] for pair in pads]
    data = padded(node, node[0], initial, low, high, [step - 1 for step in base])
    shape = node.shape(data)
    counts = [(s - (w - 1) * d - 1) // t + 1 for s, w, t, d in zip(shape, window, strides, dilation)]
    if min(counts, default=1) < 1:
        return full(0, [max(count, 0) for count in counts], node.dtype())
    result: Expr | None = None
    for positions in itertools.product(*map(range, window)):
        part = data
        for axis, (position, step, stride, count) in enumerate(zip(positions, dilation, strides, counts)):
            begin = position * step
            part = slice_axis(part, axis, begin, begin + (count - 1) * stride + 1, stride)
        result = part if result is None else _COMBINE[name](result, part)
    assert result is not None
    return _COMBINE[name](result, initial)


_ORDERS = {("STABLEHLO_COMPARE", 5): True, ("STABLEHLO_COMPARE", 4): True, ("STABLEHLO_COMPARE", 3): False,
           ("STABLEHLO_COMPARE", 2): False, ("LESS", -1): True, ("LESS_EQUAL", -1): True, ("GREATER", -1): False,
           ("GREATER_EQUAL", -1): False}  # fmt: skip


@converts("STABLEHLO_SORT")
def convert_sort(node: Node) -> list[Expr]:
    """All inputs in the order of one of them, which is the one that the comparison takes."""
    graphs, index = node.importer.graphs(), int(node.option("comparator_subgraph_index"))
    if not 0 <= index < len(graphs):
        raise ModelError(f"{node.label} calls the subgraph {index} of {len(graphs)}")
    graph = graphs[index]
    if len(graph.operators) != 1 or len(graph.inputs) != 2 * len(node.inputs):
        node.unsupported(f"the comparison {graph.name!r} of {len(graph.operators)} operators; of one only")
    one = graph.operators[0]
    direction = int(one.options.comparison_direction) if one.name == "STABLEHLO_COMPARE" else -1
    pairs = [(graph.inputs[2 * number], graph.inputs[2 * number + 1]) for number in range(len(node.inputs))]
    ascending, positions = _ORDERS.get((one.name, direction)), tuple(one.inputs)
    if ascending is not None and positions[::-1] in pairs:
        ascending, positions = not ascending, positions[::-1]
    if ascending is None or positions not in pairs:
        node.unsupported(f"a comparison by {one.name} of elements that are no pair")
    axis = node.axis(int(node.option("dimension", -1)))
    order = op.argsort(node[pairs.index(positions)], axis=axis, is_ascend=ascending, dtype="int32")
    return [op.gather(value, axis, order) for value in node.given()]
