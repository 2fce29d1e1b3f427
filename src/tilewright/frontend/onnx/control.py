"""Control flow: branches and loops. Short loops whose length is known are unrolled, which leaves plain dataflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.idioms import concatenate, constant, index_axis
from tilewright.frontend.onnx.loop import Body, Slices, as_scalar, recursive_loop
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.frontend.onnx.schema import join_types
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, If, Tuple
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.host import shape_of
from tilewright.relay.op.onnx_host import host_call

_MOST_UNROLLED = 16  # iterations


@converts("If")
def convert_if(node: OnnxNode) -> Sequence[Expr | None]:
    """The branch that a constant condition selects, in place; else both, of which one is evaluated."""
    then_branch, else_branch = node.require("then_branch"), node.require("else_branch")
    condition = node.array(0)
    if condition is not None:
        return node.importer.subgraph(then_branch if bool(condition.reshape(-1)[0]) else else_branch, node)
    branches = _branches(node, then_branch, else_branch)
    if branches is None:
        return [None] * len(then_branch.output)
    chosen_by = as_scalar(node, node[0])
    if differ_in_rank(branches):
        raise Fork(node.label, chosen_by, branches)
    return choose(node.label, chosen_by, branches)


def _branches(node: OnnxNode, *graphs: Any) -> list[list[Expr] | ModelError] | None:
    """The values of both branches; None where an operator in one is not supported.

    A branch whose shapes cannot be, such as that for another sampling rate in a model whose input has a fixed length,
    is the error, for when it is taken.
    """
    found: list[list[Expr] | ModelError] = []
    for graph in graphs:
        try:
            values = node.importer.subgraph(graph, node)
        except ModelError as error:
            found.append(error)
            continue
        kept = [value for value in values if value is not None]
        if len(kept) != len(values):
            return None
        found.append(kept)
    return found


# ---------------------------------------------------------------------------------------------------------- Loop
@converts("Loop")
def convert_loop(node: OnnxNode) -> Sequence[Expr | None]:
    """A body repeated while its condition holds, at most as often as the trip count says."""
    graph = node.require("body")
    carried = [node[index] for index in range(2, len(node.inputs))]
    if len(graph.input) != len(carried) + 2:
        raise ModelError(
            f"{node.label} passes {len(carried)} values on, but its body takes {len(graph.input)} inputs; "
            "there should be two more than values"
        )
    count, condition = node.array(0), node.array(1)
    stops_at_once = condition is not None and not condition.reshape(-1)[0]
    trips = 0 if stops_at_once else None if count is None else int(count.reshape(-1)[0])
    if trips is not None and 0 < trips <= _MOST_UNROLLED and (condition is not None or not node.has(1)):
        unrolled = _unroll(node, graph, carried, trips)
        if unrolled is not None:
            return unrolled
    limit = as_scalar(node, node[0]) if node.has(0) else constant(2**62, "int64")
    goes_on = as_scalar(node, node[1]) if node.has(1) else constant(True, "bool")
    return recursive_loop(Body(node, graph), carried, limit, goes_on)


def _unroll(node: OnnxNode, graph: Any, carried: list[Expr], trips: int) -> list[Expr | None] | None:
    """The body `trips` times over; None where a condition computed at run time may end it earlier."""
    names = [value.name for value in graph.input]
    collected: list[list[Expr]] = []
    for trip in range(trips):
        inputs = dict(zip(names, [constant(trip, "int64"), constant(True, "bool"), *carried]))
        outputs = node.importer.subgraph(graph, node, inputs)
        if any(value is None for value in outputs):
            return [None] * len(node.proto.output)
        goes_on = outputs[0]
        if not isinstance(goes_on, Constant):
            return None
        values = [value for value in outputs[1:] if value is not None]
        carried = values[: len(carried)]
        collected.append(values[len(carried) :])
        if not goes_on.data.reshape(-1)[0]:
            break
    return [*carried, *stacked(collected, [0] * len(collected[0]))]


def stacked(rows: list[list[Expr]], axes: Sequence[int]) -> list[Expr]:
    """The results of each step, along a new axis."""
    columns = zip(*rows)
    return [
        concatenate([op.expand_dims(value, axis=axis, num_newaxis=1) for value in column], axis)
        for column, axis in zip(columns, axes)
    ]


# ---------------------------------------------------------------------------------------------------------- Scan
@converts("Scan")
def convert_scan_8(node: OnnxNode, num_scan_inputs: int) -> Sequence[Expr | None]:
    """With a batch axis in front (opset 8): each sample by itself."""
    if node.has(0):
        node.unsupported("sequence lengths that differ between samples")
    inputs = [node[index] for index in range(1, len(node.inputs))]
    scanned = num_scan_inputs
    states, sequences = inputs[: len(inputs) - scanned], inputs[len(inputs) - scanned :]
    directions = node.attr("directions") or [0] * scanned
    samples = []
    for sample in range(node.shape(inputs[0])[0]):
        own = [[index_axis(value, 0, sample) for value in group] for group in (states, sequences)]
        part = _scan(node, own[0], own[1], [0] * scanned, directions, None, None)
        if part is None or any(value is None for value in part):
            return [None] * len(node.proto.output)
        samples.append([value for value in part if value is not None])
    return list(stacked(samples, [0] * len(samples[0])))


@converts("Scan", since=9)
def convert_scan_9(node: OnnxNode, num_scan_inputs: int) -> Sequence[Expr | None]:
    """A body over the slices of some inputs, carrying states along and collecting the results of each step."""
    scanned = num_scan_inputs
    inputs = node.given()
    states, sequences = inputs[: len(inputs) - scanned], inputs[len(inputs) - scanned :]
    axes = node.attr("scan_input_axes") or [0] * scanned
    directions = node.attr("scan_input_directions") or [0] * scanned
    found = _scan(
        node, states, sequences, axes, directions,
        node.attr("scan_output_axes"), node.attr("scan_output_directions"),
    )  # fmt: skip
    return found


def _scan(
    node: OnnxNode, states: list[Expr], sequences: list[Expr], axes: Sequence[int], directions: Sequence[int],
    out_axes: Sequence[int] | None, out_directions: Sequence[int] | None,
) -> Sequence[Expr | None]:  # fmt: skip
    graph = node.require("body")
    axes = [node.axis(axis, node.rank(value)) for axis, value in zip(axes, sequences)]
    steps = node.shape(sequences[0])[axes[0]]
    if not isinstance(steps, int) or not 0 < steps <= _MOST_UNROLLED:
        along = [Slices(*entry) for entry in zip(sequences, axes, map(bool, directions))]
        count = op.take(shape_of(sequences[0]), constant(axes[0], "int64"), axis=0, mode="from_back")
        limit = constant(steps, "int64") if isinstance(steps, int) else count
        looped = recursive_loop(Body(node, graph, along), states, limit, constant(True, "bool"), out_axes)
        return _turned(looped, len(states), out_axes, out_directions)
    names = [value.name for value in graph.input]
    rows: list[list[Expr]] = []
    current = list(states)
    for step in range(steps):
        slices = [
            index_axis(value, axis, steps - 1 - step if backwards else step)
            for value, axis, backwards in zip(sequences, axes, directions)
        ]
        outputs = node.importer.subgraph(graph, node, dict(zip(names, [*current, *slices])))
        values = [value for value in outputs if value is not None]
        if len(values) != len(outputs):
            return [None] * len(node.proto.output)
        current, collected = values[: len(states)], values[len(states) :]
        rows.append(collected)
    return [*current, *_collected(node, rows, out_axes, out_directions)]


def _collected(
    node: OnnxNode, rows: list[list[Expr]], axes: Sequence[int] | None, directions: Sequence[int] | None
) -> list[Expr]:
    """The outputs of the steps, each along its axis and in its direction."""
    found: list[Expr] = []
    for index, column in enumerate(zip(*rows)):
        ordered = list(column)[::-1] if directions and directions[index] else list(column)
        rank = node.rank(column[0]) + 1
        axis = node.axis(axes[index] if axes else 0, rank)
        found += stacked([[value] for value in ordered], [axis])
    return found


def _turned(
    values: Sequence[Expr | None], states: int, axes: Sequence[int] | None, directions: Sequence[int] | None
) -> Sequence[Expr | None]:
    """The values collected by a loop, reversed where the scan collects from the back."""
    turned = list(values)
    for index, backwards in enumerate(directions or ()):
        value = turned[states + index]
        if backwards and value is not None:
            turned[states + index] = op.reverse(value, axis=axes[index] if axes else 0)
    return turned


# --------- Values that a condition chooses at run time, under one type; and forks, where no type of a tensor holds both
class Fork(Exception):
    """The outputs of a node are those of one of two branches, by `condition`, and differ in rank."""

    def __init__(self, label: str, condition: Expr, branches: Sequence[list[Expr] | ModelError]) -> None:
        super().__init__(label)
        self.label = label
        self.condition = condition
        self.branches = branches


def choose(label: str, condition: Expr, branches: Sequence[list[Expr] | ModelError]) -> list[Expr]:
    """The values of the first branch where `condition` is true, else of the second.

    A branch that is a `ModelError` stops the model with it when it is taken; the first is raised where both are.
    """
    first, second = _sound(branches)
    if len(first) != len(second):
        raise ModelError(f"{label}: its branches return {len(first)} and {len(second)} values")
    pairs = [_of_one_type(label, a, b) for a, b in zip(first, second)]
    then_value, else_value = (Tuple([pair[side] for pair in pairs]) for side in (0, 1))
    chosen = If(condition, then_value, else_value)
    return [chosen[index] for index in range(len(pairs))]


def differ_in_rank(branches: Sequence[list[Expr] | ModelError]) -> bool:
    """True if both branches return a tensor in the same position, of another rank."""
    first, second = _sound(branches)
    pairs = [(type_of(a), type_of(b)) for a, b in zip(first, second)]
    return any(isinstance(a, TensorType) and isinstance(b, TensorType) and a.ndim != b.ndim for a, b in pairs)


def _sound(branches: Sequence[list[Expr] | ModelError]) -> list[list[Expr]]:
    """The branches with values whose evaluation raises the error in place of each that is one."""
    sound = [values for values in branches if not isinstance(values, ModelError)]
    if not sound:
        raise next(error for error in branches if isinstance(error, ModelError))
    return [_failing(values, sound[0]) if isinstance(values, ModelError) else values for values in branches]


def _failing(error: ModelError, like: list[Expr]) -> list[Expr]:
    """Values of the types of `like` whose evaluation raises `error`."""
    return [host_call("Fail", [], type_of(value), message=str(error)) for value in like]


def _of_one_type(label: str, a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Both values under one type; where extents, rank or kind differ, one in which they are unknown."""
    a_type, b_type = type_of(a), type_of(b)
    joined = join_types(a_type, b_type)
    if joined is None:
        raise ModelError(f"{label}: its branches return {a_type} and {b_type}, which no type holds both")
    if joined in (a_type, b_type) and isinstance(joined, TensorType):
        return a, b
    opaque = [value if type_of(value) == joined else host_call("Identity", [value], joined) for value in (a, b)]
    return opaque[0], opaque[1]
