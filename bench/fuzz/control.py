"""Branches and loops, whose bodies are graphs of the simpler families and may read what stands around them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T

from bench.fuzz import elementwise, reductions, shaping
from bench.fuzz.draft import Draft, Rejected, Value
from bench.fuzz.values import is_float

#: What bodies are made of.
_BODY = {**elementwise.FAMILY, **reductions.FAMILY, **shaping.FAMILY}
#: Operators of one input whose result has the type and the shape of it.
_STEPS = ("Neg", "Abs", "Identity")
_REAL_STEPS = (*_STEPS, "Relu", "Sigmoid", "Tanh", "Sqrt", "Exp", "Floor")


def _grow(body: Draft, count: int) -> None:
    """Add up to `count` nodes of any simple kind."""
    for _ in range(count):
        name = body.rng.choice(sorted(_BODY))
        try:
            body.schema(name)
            _BODY[name](body, name)
        except (Rejected, KeyError):
            continue
        except Exception as error:
            if type(error).__name__ != "SchemaError":
                raise


def _own(body: Draft, elements: tuple[int, ...] | None = None) -> Value:
    """The last tensor that the body computes, through a node of its own."""
    made = {name for node in body.nodes for name in node.output}
    found = [
        v for v in body.values if v.name in made and v.kind == "tensor" and (not elements or v.element in elements)
    ]
    if not found:
        raise Rejected("the body computes nothing")
    return found[-1]


def branch(draw: Draft, operator: str) -> None:
    """If on a constant or an input; both branches return tensors of one type, at times of different shapes."""
    condition = draw.known(np.array(draw.chance(0.5)), 0.3)
    if not draw.tensors([T.FLOAT]):
        draw.leaf(T.FLOAT, draw.shape())
    first, second = Draft(0, draw.opset, draw), Draft(0, draw.opset, draw)
    _grow(first, draw.integer(1, 3))
    result = _own(first)
    _grow(second, draw.integer(0, 2))
    if draw.chance(0.5):
        other = second.operand([result.element], shape=result.shape)
    else:
        other = second.operand([result.element])
    last = second.emit("Identity", [other])[0]
    undefined = result.undefined or last.undefined
    graphs = {"then_branch": first.graph("then", [result]), "else_branch": second.graph("else", [last])}
    draw.emit(operator, [condition], bodies=[first, second], undefined=undefined, **graphs)


def loop(draw: Draft, operator: str) -> None:
    """Loop over a state that keeps its shape, with an output that is scanned; it ends by count or by condition."""
    element = draw.choice([T.FLOAT, T.INT64, T.INT32, T.DOUBLE])
    state = draw.operand([element], fits=lambda v: v.rank < 4)
    scanned = draw.chance(0.6)
    # A result without iterations has no known size where dimensions are symbolic.
    trips = draw.known(np.array(draw.integer(int(scanned), 4), np.int64), 0.5)
    body = Draft(0, draw.opset, draw)
    count = Value(draw.name(), np.array(0, np.int64), T.INT64)
    going = Value(draw.name(), np.array(True), T.BOOL)
    carried = Value(draw.name(), state.array, element, undefined=state.undefined)
    body.inputs = [count, going, carried]
    body.values += body.inputs
    step = body.emit(draw.choice(_REAL_STEPS if is_float(element) else _STEPS), [carried])[0]
    if draw.chance(0.5):
        added = body.emit("Cast", [count], to=element)[0]
        step = body.emit("Add", [step, added])[0]
    again = body.emit("Identity", [going])[0]
    if draw.chance(0.4):
        again = body.emit("Less", [count, body.constant(np.array(draw.integer(0, 3), np.int64))])[0]
    outputs, wanted = [again, step], 1
    if scanned:
        outputs.append(body.emit("Identity", [carried])[0])
        wanted = 2
    begin = draw.constant(np.array(True)) if draw.chance(0.5) else None
    draw.emit(operator, [trips, begin, state], wanted, bodies=[body], body=body.graph("body", outputs))


def scan(draw: Draft, operator: str) -> None:
    """Scan along an axis in either direction, with a state."""
    if draw.since(operator) < 9:
        raise Rejected("the first Scan has a batch axis")
    data = draw.operand([T.FLOAT, T.DOUBLE], fits=lambda v: 1 <= v.rank < 4 and 0 not in v.shape)
    axis = draw.integer(0, data.rank - 1)
    item = np.take(data.array, 0, axis)
    state = draw.operand([data.element], shape=item.shape)
    body = Draft(0, draw.opset, draw)
    carried, part = (Value(draw.name(), array, data.element) for array in (state.array, item))
    body.inputs = [carried, part]
    body.values += body.inputs
    total = body.emit(draw.choice(["Add", "Mul", "Max", "Sub"]), [carried, part])[0]
    output = body.emit(draw.choice(_REAL_STEPS), [total])[0]
    draw.emit(
        operator,
        [state, data],
        2,
        bodies=[body],
        body=body.graph("body", [total, output]),
        num_scan_inputs=1,
        scan_input_axes=[axis] if axis or draw.chance(0.5) else None,
        scan_input_directions=[draw.integer(0, 1)] if draw.chance(0.5) else None,
        scan_output_directions=[draw.integer(0, 1)] if draw.chance(0.3) else None,
    )


FAMILY: dict[str, Callable[[Draft, str], None]] = {"If": branch, "Loop": loop, "Scan": scan}
