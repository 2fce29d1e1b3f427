"""A whole TensorFlow program to a Relay module: read, fix the input shapes, convert what the outputs need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.converters import import_families
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.outputs import module_of
from tilewright.frontend.tensorflow.declared_shapes import fits
from tilewright.frontend.tensorflow.importer import Importer
from tilewright.frontend.tensorflow.load import Endpoint, Program, load_program
from tilewright.frontend.tensorflow.schema import described, type_name
from tilewright.frontend.tensorflow.values import expression
from tilewright.relay.ir.expr import Expr, Var, var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.support.dtype import DType

import_families(
    "tilewright.frontend.tensorflow", "control dilation image indexing lists loops math nn reduce shape tables"
)


def convert_model(
    model: str | os.PathLike[str] | bytes, input_shapes: Mapping[str, Sequence[Any]] | None,
    outputs: Sequence[str] | None, signature: str | None,
) -> tuple[IRModule, list[InputSpec]]:  # fmt: skip
    """See `tilewright.frontend.tensorflow.from_tensorflow`."""
    program = load_program(model, outputs, signature)
    specs = resolve_inputs([_declared(one, program) for one in program.inputs], input_shapes)
    params: list[Var] = [var(spec.name, spec.type) for spec in specs]
    importer = Importer(program)
    given = dict(zip((one.tensor for one in program.inputs), params))
    found = [expression(value) for value in importer.run(given, [one.tensor for one in program.outputs])]
    importer.missing.refuse(program.label)
    if not found:
        raise ModelError(f"{program.label} has no outputs")
    for value, one in zip(found, program.outputs):
        if not isinstance(value, Expr):
            raise UnsupportedError(f"{program.label}: the output {one.name!r} is no tensor")
        _check_result(value, one, program)
    return module_of(params, found, [one.name for one in program.outputs], importer.loops), specs


def _check_result(value: Expr, one: Endpoint, program: Program) -> None:
    """Refuse a result of another shape or type than the signature declares."""
    found, wanted = type_of(value), type_name(one.dtype)
    if not isinstance(found, TensorType):
        raise UnsupportedError(f"{program.label}: the output {one.name!r} is a {found}, not a tensor")
    if (one.shape is not None and not fits(found.shape, one.shape)) or wanted not in (None, str(found.dtype)):
        raise UnsupportedError(
            f"{program.label}: the output {one.name!r} came out as {found}; the signature declares "
            f"{wanted or described(one.dtype)} of shape {list(one.shape or ())}"
        )


def _declared(one: Endpoint, program: Program) -> Declared:
    name = type_name(one.dtype)
    if name is None:
        raise UnsupportedError(
            f"{program.label}: the input {one.name!r} holds {described(one.dtype)}, which is not supported"
        )
    if one.shape is None:
        return Declared(one.name, None, DType(name))
    dims: list[int | str] = [
        extent if extent >= 0 else "?" if axis else "batch" for axis, extent in enumerate(one.shape)
    ]
    return Declared(one.name, tuple(dims), DType(name))
