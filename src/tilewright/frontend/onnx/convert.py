"""A whole ONNX model to a Relay module: load, fix the input shapes, convert the graph, gather the outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto

from tilewright.errors import ModelError
from tilewright.frontend.inputs import InputSpec, resolve_inputs
from tilewright.frontend.onnx import (  # noqa: F401  (importing a family registers its converters)
    activation,
    contrib,
    contrib_attention,
    contrib_quantized,
    control,
    experts,
    fourier,
    grouped_attention,
    image,
    indexing,
    logic,
    math,
    ml,
    ml_tables,
    nn,
    normalization,
    pooling,
    quantize,
    recurrent,
    reduce,
    sampling,
    shape,
    tensor,
    training,
)
from tilewright.frontend.onnx.importer import GraphImporter
from tilewright.frontend.onnx.inputs import declared_inputs
from tilewright.frontend.onnx.load import load_model
from tilewright.frontend.onnx.node import Environment, Unavailable
from tilewright.frontend.onnx.well_formed import check_graph
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Tuple, var
from tilewright.relay.ir.module import IRModule


def convert_model(
    source: str | os.PathLike[str] | bytes | ModelProto, input_shapes: Mapping[str, Sequence[Any]] | None
) -> tuple[IRModule, list[InputSpec]]:
    """See `tilewright.frontend.onnx.from_onnx`."""
    model = load_model(source)
    graph = model.proto.graph
    check_graph(graph)
    importer = GraphImporter(model)
    importer.declare(graph)
    env: Environment = importer.initializers(graph.initializer)
    specs = resolve_inputs(declared_inputs(graph), input_shapes, importer.symbols)
    importer.open_inputs = [(s.name, s.shape) for s in specs if not all(isinstance(dim, int) for dim in s.shape)]
    params = [var(spec.name, spec.type) for spec in specs]
    env.update({param.name: param for param in params})
    importer.run(graph.node, env, model.opsets, [output.name for output in graph.output])
    importer.problems.refuse(model.label)
    results = [_result(env, output.name, model.label) for output in graph.output]
    body = results[0] if len(results) == 1 else Tuple(results)
    attrs = {"output_names": tuple(output.name for output in graph.output)}
    main = Function(params, body, attrs=attrs)
    return IRModule({**importer.functions, GlobalVar("main"): main}), specs


def _result(env: Environment, name: str, label: str) -> Expr:
    value: Any = env.get(name)
    if value is None or isinstance(value, Unavailable):
        raise ModelError(f"{label} declares the output {name!r}, which no node provides")
    return value
