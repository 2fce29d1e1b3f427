"""A whole TFLite model to a Relay module: load, fix the input shapes, convert the main subgraph, gather the outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.converters import import_families
from tilewright.frontend.inputs import InputSpec
from tilewright.frontend.outputs import module_of
from tilewright.frontend.tflite.importer import GraphImporter
from tilewright.frontend.tflite.model import input_specs, load_model
from tilewright.frontend.tflite.node import World
from tilewright.relay.ir.expr import Expr, var
from tilewright.relay.ir.module import IRModule

import_families(
    "tilewright.frontend.tflite",
    "activation control detection indexing math nn normalization "
    "quantize random recurrent reduce shape spectrum stablehlo stablehlo_bodies stablehlo_regions ",
)


def convert_model(
    source: str | os.PathLike[str] | bytes,
    input_shapes: Mapping[str, Sequence[Any]] | None,
    signature: str | None = None,
) -> tuple[IRModule, list[InputSpec]]:
    """See `tilewright.frontend.tflite.from_tflite`."""
    module, specs, _ = convert_with_tensors(source, input_shapes, signature)
    return module, specs


def convert_with_tensors(
    source: str | os.PathLike[str] | bytes,
    input_shapes: Mapping[str, Sequence[Any]] | None,
    signature: str | None = None,
) -> tuple[IRModule, list[InputSpec], dict[str, Expr]]:
    """As `convert_model`, and what each tensor of the main subgraph became, by name."""
    model = load_model(source)
    entry = model.entry(signature)
    main = model.subgraphs[entry.subgraph]
    specs = input_specs([entry.named(main, position) for position in main.inputs], input_shapes)
    importer = GraphImporter(model)
    params = [var(spec.name, spec.type) for spec in specs]
    world = World()
    results = importer.subgraph(entry.subgraph, params, world, "")
    importer.missing.refuse(model.label)
    if results is None or not (results or world.values):
        raise ModelError(f"{model.label}: its main subgraph has no outputs")
    complex_ = [
        main.tensors[position].name for position in main.outputs if main.tensors[position].element_type == "COMPLEX64"
    ]
    if complex_:
        raise UnsupportedError(f"{model.label}: its output {complex_[0]!r} is complex; pass its parts by REAL and IMAG")
    names = [entry.named(main, position).name for position in main.outputs]
    states = list(importer.variables)
    specs += [InputSpec(name, importer.variables[name]) for name in states]
    params += [importer.parameter(name) for name in states]
    results += [world.values.get(name, importer.parameter(name)) for name in states]
    names += [f"{name}:next" for name in states]
    return module_of(params, results, names, importer.functions), specs, importer.tensors


def initial_states(source: str | os.PathLike[str] | bytes, signature: str | None = None) -> dict[str, Any]:
    """See `tilewright.frontend.tflite.initial_states`."""
    model = load_model(source)
    position = model.entry(signature).subgraph
    main = model.subgraphs[position]
    importer = GraphImporter(model)
    specs = input_specs([main.tensors[position] for position in main.inputs], None)
    importer.subgraph(position, [var(spec.name, spec.type) for spec in specs], World(), "")
    return importer.initial_states()
