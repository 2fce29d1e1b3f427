"""A whole Core ML model to a Relay module, here an ML program: read, its inputs shaped, operations in order."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError, ModelError, UnsupportedError
from tilewright.frontend.converters import import_families
from tilewright.frontend.coreml.load import MlModel, load_model, value_array
from tilewright.frontend.coreml.network import convert_network, network_of
from tilewright.frontend.coreml.node import MilNode, converts
from tilewright.frontend.coreml.schema import DTYPES
from tilewright.frontend.graph_walk import UNAVAILABLE, GraphWalk
from tilewright.frontend.inputs import Declared, InputSpec, resolve_inputs
from tilewright.frontend.messages import Record
from tilewright.frontend.outputs import module_of
from tilewright.relay.ir.expr import Constant, Expr, Function, GlobalVar, var
from tilewright.relay.ir.module import IRModule
from tilewright.support.dtype import DType

import_families(
    "tilewright.frontend.coreml", "control math network_control network_elementwise network_nn network_shapes nn shapes"
)

_MOST_DEPTH = 50


def from_coreml(
    model: str | os.PathLike[str] | bytes,
    input_shapes: Mapping[str, Sequence[Any]] | None = None,
    signature: str | None = None,
) -> tuple[IRModule, list[InputSpec]]:
    """A Relay module for a Core ML model and the specs of its inputs.

    A model is an .mlpackage, the specification within or an .mlmodel: an ML program or a neural network. Of a
    classifier the result is the array of probabilities. `signature` names a function of an ML program.

    No package is needed. Raises `ModelError` for a bad file, `ShapeError` for a wrong shape, `UnsupportedError` naming
    every operation that cannot be converted, and for pipelines and other kinds of models.
    """
    loaded = load_model(model)
    network = network_of(loaded)
    if network is not None:
        if signature is not None:
            raise UnsupportedError(f"{loaded.label} is a neural network, which has no functions; leave out signature=")
        return convert_network(loaded, network, input_shapes)
    function = _function(loaded, signature)
    specs = resolve_inputs([_declared(entry, loaded) for entry in function.inputs], input_shapes)
    params = [var(spec.name, spec.type) for spec in specs]
    program = _Program(loaded)
    program.walk.values.update(zip((spec.name for spec in specs), params))
    block = _block(function, loaded)
    program.operations(block, 0)
    labels = {
        operation.outputs[0].name
        for operation in block.operations
        if operation.type == "classify" and operation.outputs
    }
    names = [name for name in block.outputs if name not in labels]  # labels are texts, which metadata has
    if not names:
        raise ModelError(f"{loaded.label}: its program has no outputs")
    results = program.walk.results(names)
    if not all(isinstance(result, Expr) for result in results):
        raise ModelError(f"{loaded.label}: an output of its program is no tensor")
    return module_of(params, results, names, program.functions), specs


def _function(model: MlModel, signature: str | None) -> Record:
    functions = model.spec.mlProgram.functions
    name = signature or model.spec.description.defaultFunctionName or "main"
    if name not in functions:
        raise (ModelError if signature is None else InputError)(
            f"{model.label} has no function {name!r}; there are {', '.join(map(repr, functions)) or 'none'}"
        )
    return functions[name]


def _block(function: Record, model: MlModel) -> Record:
    blocks = function.block_specializations
    name = function.opset if function.opset in blocks else next(iter(blocks), None)
    if name is None:
        raise ModelError(f"{model.label}: its function has no block")
    return blocks[name]


def _declared(entry: Record, model: MlModel) -> Declared:
    tensor = entry.type.tensorType
    if entry.type.has("stateType"):
        raise UnsupportedError(f"{model.label}: the input {entry.name!r} is a state, which is not supported")
    dtype = DTYPES.get(tensor.dataType)
    if dtype is None or not entry.type.has("tensorType"):
        raise UnsupportedError(
            f"{model.label}: the input {entry.name!r} of the type {tensor.dataType} is not supported"
        )
    dims = tuple(int(dim.constant.size) if dim.has("constant") else "?" for dim in tensor.dimensions)
    if any(isinstance(extent, int) and extent >= 1 << 40 for extent in dims):
        raise ModelError(f"{model.label}: the input {entry.name!r} has the shape {list(dims)}")
    return Declared(entry.name, dims, DType(dtype))


class _Program:
    """The operations of one program, blocks within blocks."""

    def __init__(self, model: MlModel) -> None:
        self._model = model
        self.walk = GraphWalk(model.label, converts)
        self.functions: dict[GlobalVar, Function] = {}

    def operations(self, block: Record, depth: int) -> None:
        """Convert the operations of a block in order."""
        if depth > _MOST_DEPTH:
            raise ModelError(f"{self._model.label}: blocks within blocks more than {_MOST_DEPTH} deep")
        for operation in block.operations:
            names = [entry.name for entry in operation.outputs]
            name = names[0] if names else operation.type
            if operation.type == "const":
                self._constant(operation, name)
                continue
            args = {key: self._argument(value, f"{operation.type} {name!r}") for key, value in operation.inputs.items()}
            for key, value in operation.attributes.items():
                if key not in ("name", "op_version") and key not in args:
                    args[key] = self._value(value, f"{operation.type} {name!r}")

            blocks = _Blocks(self, operation, depth) if operation.blocks else None
            self.walk.step(MilNode(operation, name, args, blocks), names)

    def _constant(self, operation: Record, name: str) -> None:
        value = operation.attributes.get("val")
        if value is None:
            raise ModelError(f"{self._model.label}: const {name!r} has no value")
        try:
            self.walk.values[name] = self._value(value, f"const {name!r}")
        except UnsupportedError as error:
            self.walk.missing.add("const", f"const {name!r}", str(error))
            self.walk.values[name] = UNAVAILABLE

    def _value(self, value: Record, where: str) -> Any:
        return _expression(value_array(value, self._model, f"{self._model.label}: {where}"))

    def _argument(self, argument: Record, where: str) -> Any:
        """The values bound to an argument: one value, or a list of them."""
        found = [
            self._value(binding.value, where) if binding.has("value") else self.walk.value(binding.name, where)
            for binding in argument.arguments
        ]
        return found[0] if len(found) == 1 else found


class _Blocks:
    """`node.Blocks` of an operation of a program."""

    def __init__(self, program: _Program, operation: Record, depth: int) -> None:
        self._program, self._blocks, self._depth = program, operation.blocks, depth
        self.count, self.functions = len(operation.blocks), program.functions

    def results(self, index: int, arguments: Sequence[Expr], outer: Mapping[str, Expr] | None = None) -> list[Expr]:
        """Convert the block in the scope of its program, which is as before afterwards."""
        walk, block = self._program.walk, self._blocks[index]
        around = dict(walk.values)
        walk.values.update(outer or {})
        walk.values.update(zip((entry.name for entry in block.inputs), arguments))
        self._program.operations(block, self._depth + 1)
        found = [walk.value(name, "an output of a block") for name in block.outputs]
        walk.values.clear()
        walk.values.update(around)
        if any(value is UNAVAILABLE for value in found):
            raise UnsupportedError("an operation of its block is not supported")
        return found

    def outer(self) -> dict[str, Expr]:
        """By the names that the blocks read and do not define."""
        values = self._program.walk.values
        names = dict.fromkeys(name for block in self._blocks for name in _free_names(block))
        found = {name: values[name] for name in names if name in values}
        return {
            name: value for name, value in found.items() if isinstance(value, Expr) and not isinstance(value, Constant)
        }


def _free_names(block: Record) -> list[str]:
    """The names that a block reads from around it, those of the blocks within included."""
    own, found = {entry.name for entry in block.inputs}, []
    for operation in block.operations:
        bound = [binding for argument in operation.inputs.values() for binding in argument.arguments]
        read = [binding.name for binding in bound if not binding.has("value")]
        read += [name for inner in operation.blocks for name in _free_names(inner)]
        found += [name for name in read if name not in own]
        own |= {entry.name for entry in operation.outputs}
    return found + [name for name in block.outputs if name not in own]


def _expression(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return Constant(value if value.flags.aligned else value.copy())
    return [_expression(item) for item in value] if isinstance(value, list) else value
