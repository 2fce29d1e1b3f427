"""A whole Caffe2 model to a Relay module: read both nets, convert operator after operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.caffe2.load import arguments, load
from tilewright.frontend.caffe2.operators import Caffe2Node, converts
from tilewright.frontend.graph_walk import GraphWalk
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.outputs import module_of
from tilewright.frontend.two_files import Part
from tilewright.relay.ir.expr import Constant, var
from tilewright.relay.ir.module import IRModule
from tilewright.support.dtype import DType


def from_caffe2(
    predict_net: Part, init_net: Part | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Caffe2 model, and the specs of its inputs in order.

    `init_net` fills the weights; without it the file beside `predict_net` is taken that has `init` in its name instead.
    Nets do not say what shapes their inputs have: `input_shapes` must.

    Raises `ModelError` for a bad file, `ShapeError` for a missing or wrong shape, `UnsupportedError` naming every
    operator that cannot be converted.
    """
    label, net, weights = load(predict_net, init_net)
    read = {name for op in net.op for name in op.input}
    given = {name for op in net.op for name in op.output}
    free = [name for name in dict.fromkeys([*net.external_input, *sorted(read)]) if name in read]
    free = [name for name in free if name not in weights and (name in net.external_input or name not in given)]
    specs = resolve_inputs([Declared(name, None, DType("float32")) for name in free], input_shapes)
    params = [var(spec.name, spec.type) for spec in specs]
    walk = GraphWalk(label, converts)
    walk.values.update({name: Constant(data) for name, data in weights.items()})
    walk.values.update(zip(free, params))
    for op in net.op:
        name = op.name or (op.output[0] if op.output else op.type)
        inputs = [walk.value(one, f"{op.type} {name!r}") for one in op.input]
        walk.step(Caffe2Node(op.type, name, inputs, arguments(op), len(op.output)), list(op.output))
    names = list(net.external_output) or ([net.op[-1].output[0]] if net.op and net.op[-1].output else [])
    if not names:
        raise ModelError(f"{label} has no results")
    results = walk.results(names)
    return module_of(params, results, names), specs
