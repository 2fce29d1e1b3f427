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


def from_tflite(
    model: str | os.PathLike[str] | bytes,
    input_shapes: Mapping[str, Sequence[Any]] | None = None,
    signature: str | None = None,
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a TFLite model (path or bytes), and the specs of its inputs in order.

    Inputs have the shapes that the file states; `input_shapes` sets others by name, where the file does not fix them,
    or names for symbolic extents. With `signature`, the entry of that name is read, whose inputs and outputs have
    the names that it has for them; without one, the first subgraph, by the names of its tensors. The attribute
    `output_names` of `main` holds the names of its results.

    Variables are values between runs: each is an input of `main` behind the model's own, under its name, and an output
    behind the model's own, under its name with `:next`. `initial_states` says what the first run is given.

    Integers come out as from TensorFlow Lite's reference kernels (`OpResolverType.BUILTIN_REF`), bit for bit.
    Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every operator that
    cannot be converted.
    """
    module, specs, _ = convert_with_tensors(model, input_shapes, signature)
    return module, specs


def convert_with_tensors(
    source: str | os.PathLike[str] | bytes,
    input_shapes: Mapping[str, Sequence[Any]] | None,
    signature: str | None = None,
) -> tuple[IRModule, list[InputSpec], dict[str, Expr]]:
    """As `from_tflite`, and what each tensor of the main subgraph became, by name."""
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
    """The values of a model's variables before the first run, by the names of the inputs that they are."""
    model = load_model(source)
    position = model.entry(signature).subgraph
    main = model.subgraphs[position]
    importer = GraphImporter(model)
    specs = input_specs([main.tensors[position] for position in main.inputs], None)
    importer.subgraph(position, [var(spec.name, spec.type) for spec in specs], World(), "")
    return importer.initial_states()
