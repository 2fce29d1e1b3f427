"""A whole ONNX model to a Relay module: load, fix the input shapes, convert the graph, gather the outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

from tilewright.errors import ModelError
from tilewright.frontend.converters import import_families
from tilewright.frontend.graph_walk import Unavailable
from tilewright.frontend.inputs import InputSpec, resolve_inputs
from tilewright.frontend.onnx.importer import GraphImporter
from tilewright.frontend.onnx.load import check_graph, declared_inputs, load_model
from tilewright.frontend.onnx.node import Environment
from tilewright.frontend.outputs import module_of
from tilewright.relay.ir.expr import Constant, Expr, Tuple, Var, var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import post_order, substitute

import_families(
    "tilewright.frontend.onnx",
    "activation contrib contrib_attention control fourier image indexing math ml ml_tables nn "
    "normalization pooling quantize recurrent reduce shape tensor training training_gradients",
)


def convert_model(
    source: str | os.PathLike[str] | bytes | ModelProto, input_shapes: Mapping[str, Sequence[Any]] | None,
    weights: dict[str, np.ndarray[Any, Any]] | None = None,
) -> tuple[IRModule, list[InputSpec]]:  # fmt: skip
    """See `tilewright.frontend.onnx.from_onnx`."""
    model = load_model(source)
    graph = model.proto.graph
    check_graph(graph)
    importer = GraphImporter(model)
    importer.declare(graph)
    initializers = importer.initializers(graph, model.weights)
    env: Environment = dict(initializers)
    if weights is not None:
        importer.operands = {value for value in initializers.values() if value.tensor_type.dtype.is_float}
    specs = resolve_inputs(declared_inputs(graph), input_shapes, importer.symbols)
    importer.open_inputs = [(s.name, s.shape) for s in specs if not all(isinstance(dim, int) for dim in s.shape)]
    params = [var(spec.name, spec.type) for spec in specs]
    env.update({param.name: param for param in params})
    importer.run(graph.node, env, model.opsets, [output.name for output in graph.output])
    importer.problems.refuse(model.label)
    results = [_result(env, output.name, model.label) for output in graph.output]
    if weights is not None:
        results = _with_weights(results, initializers, params, weights)
    return module_of(params, results, [output.name for output in graph.output], importer.functions), specs


def _with_weights(
    results: list[Expr], initializers: Mapping[str, Constant], params: list[Var],
    weights: dict[str, np.ndarray[Any, Any]],
) -> list[Expr]:  # fmt: skip
    """`results` with variables for the initializers read; these are added to `params`, their values to `weights`."""
    body = Tuple(results)
    used, variables = set(post_order(body)), dict[Expr, Expr]()
    for name, constant in initializers.items():
        if constant in used:
            variables[constant] = param = var(name, constant.tensor_type)
            params.append(param)
            weights[name] = constant.data
    return list(substitute(body, variables).fields)  # type: ignore[attr-defined]


def _result(env: Environment, name: str, label: str) -> Expr:
    value: Any = env.get(name)
    if value is None or isinstance(value, Unavailable):
        raise ModelError(f"{label} declares the output {name!r}, which no node provides")
    return value
