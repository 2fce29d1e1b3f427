"""A whole Paddle program to a Relay module: read both files, convert the operators, gather what is fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.errors import ModelError
from tilewright.frontend.converters import import_families
from tilewright.frontend.graph_walk import UNAVAILABLE, GraphWalk
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.outputs import module_of
from tilewright.frontend.paddle.load import load
from tilewright.frontend.paddle.node import PaddleNode, converts
from tilewright.frontend.paddle.program import Operation, Program
from tilewright.frontend.two_files import Part
from tilewright.relay.ir.expr import Constant, var
from tilewright.relay.ir.module import IRModule
from tilewright.support.dtype import DType

import_families("tilewright.frontend.paddle", "math nn shapes")


def from_paddle(
    model: Part, parameters: Part | None = None, input_shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for an inference program that `paddle.jit.save` wrote, and the specs of its inputs in order.

    `model` is the .json of Paddle 3, or a .pdmodel (or a folder with `__model__`) of older versions; `parameters` the
    .pdiparams, without which that of the same name beside it is taken. Extents of -1 are symbolic.

    Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming every operator that
    cannot be converted.
    """
    program, weights = load(model, parameters)
    if not program.inputs or not program.results:
        raise ModelError(f"{program.label} feeds {len(program.inputs)} values and fetches {len(program.results)}")
    specs = resolve_inputs([_declared(value.name, value) for _, value in program.inputs], input_shapes)
    params = [var(spec.name, spec.type) for spec in specs]
    walk = GraphWalk(program.label, converts)
    walk.values.update(zip((key for key, _ in program.inputs), params))
    for key, data in weights.items():
        walk.values[key] = Constant(data if data.flags.aligned else data.copy())
    for operation in program.operations:
        _step(walk, operation)
    results = walk.results(program.results)
    return module_of(params, results, _names(program)), specs


def _declared(name: str, value: Any) -> Declared:
    return Declared(name, tuple("?" if extent < 0 else extent for extent in value.shape), DType(value.dtype))


def _names(program: Program) -> list[str]:
    """The names of the nodes that the results come from."""
    given = {result: operation.name for operation in program.operations for result in operation.results}
    return program.result_names([given.get(result, result) for result in program.results])


def _step(walk: GraphWalk, operation: Operation) -> None:
    where = f"{operation.kind} {operation.name!r}"
    inputs = [_known(walk, one, where) for one in operation.inputs]
    if operation.kind in ("builtin.combine", "builtin.split", "builtin.slice"):
        walk.values.update(zip(operation.results, _of_lists(operation, inputs)))
        return
    named: dict[str, list[Any]] = {}
    if "inputs" in operation.attrs:
        named = {
            name: [walk.values[one] for one in names if one in walk.values]
            for name, names in operation.attrs["inputs"].items()
        }
    keys: list[Any] = []
    for result in operation.results:
        count = operation.counts.get(result)
        keys += [result] if count is None else [(result, index) for index in range(count)]
    walk.step(PaddleNode(operation, inputs, named), keys)
    for result, count in operation.counts.items():
        parts = [walk.values[result, index] for index in range(count)]
        walk.values[result] = UNAVAILABLE if any(part is UNAVAILABLE for part in parts) else parts


def _known(walk: GraphWalk, one: Any, where: str) -> Any:
    if one is None:
        return None
    return [walk.value(name, where) for name in one] if isinstance(one, list) else walk.value(one, where)


def _of_lists(operation: Operation, inputs: list[Any]) -> list[Any]:
    """The results of the operators that make a list of tensors, take it apart, or take one of it."""
    if operation.kind == "builtin.combine":
        return [UNAVAILABLE if any(value is UNAVAILABLE for value in inputs) else inputs]
    values = inputs[0]
    if not isinstance(values, list):
        return [UNAVAILABLE] * len(operation.results)
    if operation.kind == "builtin.split":
        return values
    return [values[int(operation.attrs["index"])]]
