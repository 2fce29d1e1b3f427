"""Training artifacts of onnxruntime-training as steps: its differentiated graph with an optimizer of this package.

    step = artifact_step("artifacts/training_model.onnx", AdamW(1e-3))
    trainer = Trainer(step, tilewright.compile(step.module), values)    # by the names of the model's initializers

`generate_artifacts` writes a graph whose parameters, and a buffer for the gradient of each that is trained, are inputs:
`fc.weight` and `fc.weight_grad.accumulation.buffer`. What is added to the buffers is taken as the gradients.
"""

from __future__ import annotations

import os
from typing import Any

import onnx

from tilewright.errors import InputError
from tilewright.frontend.formats.import_model import Entry, import_model
from tilewright.frontend.onnx.load import load_model
from tilewright.relay.ir.expr import Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.support.open_sizes import Shapes
from tilewright.training.rules.optimizer import Optimizer
from tilewright.training.step import TrainingStep, assembled_step, checked_loss, optimizer_state

_ACCUMULATOR = "InPlaceAccumulatorV2"
_BUFFER = "_grad.accumulation.buffer"


def artifact_step(
    model: str | os.PathLike[str] | onnx.ModelProto,
    optimizer: Optimizer,
    input_shapes: Shapes | None = None,
    memory_limit: int | None = None,
) -> TrainingStep:
    """The step of a `training_model.onnx` of onnxruntime-training, its first output the loss.

    Parameters that the graph does not train are inputs of the step, by their names. `input_shapes` as in `compile`,
    `memory_limit` as in `training_step`. Raises `ModelError` for a bad file, `InputError` for a graph that accumulates
    no gradients, and what importing raises.
    """
    load_model(model)  # a clear error for each way in which a file can be bad
    proto = model if isinstance(model, onnx.ModelProto) else onnx.load(os.fspath(model))
    proto, trained = _with_gradients(proto)
    main = infer_type(import_model(proto, input_shapes, Entry.of(None, None)))["main"]
    fields = list(main.body.fields) if isinstance(main.body, Tuple) else [main.body]
    split = len(fields) - len(trained)
    named = {param.name: param for param in main.params}
    parameters = [named[name] for name in trained]
    checked_loss(fields[0])
    state, initial = optimizer_state(optimizer, parameters)
    moved, remembered = optimizer.update(parameters, fields[split:], state)
    return assembled_step(fields[:split], parameters, state, initial, [*moved, *remembered], memory_limit)


def _with_gradients(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """The model without its accumulators, its last outputs what they add, and the parameters that these are of."""
    graph = model.graph
    adders = [node for node in graph.node if node.op_type == _ACCUMULATOR and node.input[0].endswith(_BUFFER)]
    inputs = {value.name: value for value in graph.input}
    trained = [node.input[0].removesuffix(_BUFFER) for node in adders]
    if not adders or not inputs.keys() >= {*trained}:
        raise InputError(
            "the model is no training graph of onnxruntime-training: it accumulates no gradients of its inputs; take "
            "the training_model.onnx that generate_artifacts wrote"
        )
    made = {name for node in adders for name in node.output}
    gone = {name for node in adders for name in (node.input[0], *node.input[2:3])}
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    _assign(changed.graph.node, [node for node in graph.node if node not in adders])
    _assign(changed.graph.input, [value for name, value in inputs.items() if name not in gone])
    gradients = [onnx.ValueInfoProto(name=node.input[1]) for node in adders]
    _assign(changed.graph.output, [*[value for value in graph.output if value.name not in made], *gradients])
    return changed, trained


def _assign(field: Any, values: list[Any]) -> None:
    del field[:]
    field.extend(values)
