"""A network from a model file, its weights as parameters that a training changes: fine-tuning without its framework."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import InputError, UnsupportedError
from tilewright.frontend.formats.import_model import Entry, import_model
from tilewright.frontend.formats.table import ModelSource
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import post_order, substitute
from tilewright.training.checkpoint import Array

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Network:
    """The results of a network as expressions by its inputs and its parameters, with the parameters' values."""

    inputs: tuple[Var, ...]
    results: tuple[Expr, ...]
    parameters: tuple[Var, ...]
    values: dict[str, Array]


def network_of(model: ModelSource, input_shapes: Shapes | None = None, *, trainable: str = "") -> Network:
    """The network of a model in any of the forms that `compile` takes; sizes must be fixed, the batch among them.

    Parameters are the weights of floating point with more than one element, but for statistics of batch norms, which
    stay as they are. They have the name of the layer that reads them first and a number: `fc1.0` its weights, `fc1.1`
    its bias. The others than those in whose name the pattern `trainable` is found stay constant. Raises what importing
    raises, `InputError` where nothing is left to train, `UnsupportedError` for control flow.
    """
    mod = infer_type(import_model(model, input_shapes, Entry.of(None, None)))
    main = mod["main"]
    if any(not isinstance(size, int) for param in main.params for size in param.type_annotation.shape):  # type: ignore[union-attr]
        raise InputError("a training step has fixed sizes: fix those of the inputs, the batch among them")
    if len(mod.functions) > 1:
        raise UnsupportedError("a network with control flow or functions of its own cannot be trained from its file")
    named = _weights(main.body)
    chosen = {name: constant for name, constant in named.items() if re.search(trainable, name)}
    if not chosen:
        raise InputError(f"no weight has {trainable!r} in its name; there are {', '.join(named) or 'none'}")
    parameters = tuple(Var(name, constant.tensor_type) for name, constant in chosen.items())
    body = substitute(main.body, dict[Expr, Expr](zip(chosen.values(), parameters, strict=True)))
    results = body.fields if isinstance(body, Tuple) else (body,)
    values = {name: constant.data for name, constant in chosen.items()}
    return Network(tuple(main.params), tuple(results), parameters, values)


def _weights(body: Expr) -> dict[str, Constant]:
    """The weights that a training may change, by their names, in the order of their first readers."""
    found: dict[Constant, str] = {}
    statistics: set[Expr] = set()
    counts: dict[str, int] = {}
    for node in post_order(body):
        if not isinstance(node, Call):
            continue
        last = node.op.statistics if isinstance(node.op, Op) else 0
        statistics |= set(node.args[len(node.args) - last :])
        layer = re.sub(r"\W+", "_", (node.span or _operator(node.op)).split(";")[0]).strip("_")
        for argument in node.args:
            if isinstance(argument, Constant) and argument not in found and _is_weight(argument):
                found[argument] = f"{layer}.{counts.get(layer, 0)}"
                counts[layer] = counts.get(layer, 0) + 1
    return {name: constant for constant, name in found.items() if constant not in statistics}


def _is_weight(constant: Constant) -> bool:
    return constant.tensor_type.dtype.is_float and constant.data.size > 1


def _operator(op: Any) -> str:
    return op.name.rpartition(".")[2] if isinstance(op, Op) else "call"
