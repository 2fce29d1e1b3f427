"""The walk over a TFLite subgraph: operators converted in order, constants folded on the way, problems collected.

Variables (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE) are values of a `World`: an assignment puts a new expression in
the variable's position, and what the graph leaves there becomes an output of `main`, as `convert.py` says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.converters import Converter
from tilewright.frontend.graph_node import NodeInputs
from tilewright.frontend.graph_walk import UNAVAILABLE, GraphWalk, Value
from tilewright.frontend.tflite.model import Model, Operator, Subgraph, Tensor
from tilewright.frontend.tflite.node import Importer, Node, World, converts, state_name
from tilewright.frontend.tflite.spectrum import of_complex
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.support.dtype import DType

#: Operators converted at most, those of a subgraph as often as it is used: more would never be compiled.
_MOST_OPERATORS = 1 << 18


class GraphImporter(Importer, GraphWalk):
    """Converts the subgraphs of one model; `values` are those of the subgraph at hand by the numbers of its tensors."""

    def __init__(self, model: Model) -> None:
        Importer.__init__(self)
        GraphWalk.__init__(self, model.label, converts)
        self.model = model
        self._active: list[int] = []
        self._converted = 0
        #: The expressions of the tensors that operators of the main subgraph compute, by name.
        self.tensors: dict[str, Expr] = {}

    def graphs(self) -> Sequence[Subgraph]:
        """All subgraphs of the model."""
        return self.model.subgraphs

    def subgraph(self, index: int, arguments: Sequence[Expr], world: World, scope: str) -> list[Expr] | None:
        """The outputs of subgraph `index` applied to `arguments`, which may assign variables of `world`.

        None where an output needs what cannot be converted.
        Raises `ModelError` for a subgraph that is not there, calls itself, or takes another number of inputs.
        """
        if not 0 <= index < len(self.model.subgraphs):
            raise ModelError(f"{scope} calls the subgraph {index} of {len(self.model.subgraphs)}")
        graph = self.model.subgraphs[index]
        if index in self._active:
            raise ModelError(f"{scope} calls the subgraph {index} ({graph.name!r}) from within itself")
        if len(arguments) != len(graph.inputs):
            raise ModelError(f"{scope} passes {len(arguments)} values to a subgraph of {len(graph.inputs)} inputs")
        self._active.append(index)
        around, self.values = self.values, dict(zip(graph.inputs, arguments))
        try:
            for number, operator in enumerate(graph.operators):
                self._operator(operator, number, graph, world, scope)
            found = [self._value(graph, position, f"an output of {graph.name!r}") for position in graph.outputs]
        finally:
            self._active.pop()
            self.values = around
        return None if any(value is UNAVAILABLE for value in found) else found

    def _value(self, graph: Subgraph, index: int, where: str) -> Value:
        """The value of a tensor: computed, constant, or a variable tensor's zeros."""
        if index in self.values:
            return self.values[index]
        tensor = graph.tensors[index]
        if tensor.data is not None:
            self.values[index] = value = Constant(tensor.data if tensor.data.flags.aligned else tensor.data.copy())
            return value
        if 0 in tensor.shape and tensor.dtype:
            return Constant(np.zeros(tensor.shape, DType(tensor.dtype).numpy))
        raise ModelError(f"{where} reads the tensor {tensor.name!r}, which no earlier operator, input or constant has")

    def _operator(self, operator: Operator, number: int, graph: Subgraph, world: World, scope: str) -> None:
        self._converted += 1
        if self._converted > _MOST_OPERATORS:
            raise ModelError(
                f"{self.model.label}: its subgraphs call each other until there are {_MOST_OPERATORS} operators"
            )
        outputs = [position for position in operator.outputs if position >= 0]
        span = scope + ((graph.tensors[outputs[0]].name if outputs else "") or f"{operator.name}_{number}")
        label = f"operator {number} {operator.name} ({span!r})"
        inputs = [None if position < 0 else self._input(graph, position, world, label) for position in operator.inputs]
        complex_inputs = [
            number
            for number, position in enumerate(operator.inputs)
            if position >= 0 and graph.tensors[position].element_type.startswith("COMPLEX")
        ]
        converter = converts.find(operator.name, custom=operator.custom)
        if converter is not None and complex_inputs:
            converter = of_complex(operator.name, converter, complex_inputs)
        kind = "custom operator" if operator.custom else "operator"
        found = self.convert(
            Node(operator, label, span, graph, inputs, self, world), operator.name, span, converter, kind
        )
        self.values.update(dict.fromkeys(outputs, UNAVAILABLE))
        given = zip(operator.outputs, found or [])
        self.values.update((position, value) for position, value in given if position >= 0)

    def converted(self, converter: Converter, node: NodeInputs, span: str) -> list[Value]:
        """As `GraphWalk`; results are of the types that the file declares."""
        assert isinstance(node, Node)
        found = super().converted(converter, node, span)
        for position, value in zip(node.operator.outputs, found):
            if position < 0:
                continue
            _check_declared(node.label, node.graph.tensors[position], value)
            if node.graph is self.model.subgraphs[0]:
                self.tensors[node.graph.tensors[position].name] = value
        return found

    def _input(self, graph: Subgraph, position: int, world: World, label: str) -> Value:
        tensor = graph.tensors[position]
        if position not in self.values and tensor.is_variable and tensor.data is None:
            return self._state(graph, position, world, label)
        return self._value(graph, position, label)

    def _state(self, graph: Subgraph, position: int, world: World, label: str) -> Expr:
        """A tensor that an operator changes in place, such as the states of SVDF: a variable of its own name."""
        tensor = graph.tensors[position]
        if not tensor.dtype or min(tensor.shape, default=0) < 0:
            raise ModelError(f"{label} keeps its state in {tensor.name!r}, a tensor of unknown shape or type")
        name = state_name(graph, position)
        if name not in world.values:
            self.declare(name, TensorType(tensor.shape, tensor.dtype))
            zero = 0 if tensor.quantization is None else int(tensor.quantization.zero_point[0])
            self.initial.setdefault(name, np.full(tensor.shape, zero, tensor.dtype))
            return self.parameter(name)
        return world.values[name]


def _check_declared(label: str, tensor: Tensor, value: Expr) -> None:
    """Raises `ModelError` where an operator returns another element type than the file declares."""
    found = type_of(value)
    if isinstance(found, TensorType) and tensor.dtype and str(found.dtype) != tensor.dtype:
        raise ModelError(f"{label} returns {found.dtype}, but the file has {tensor.name!r} as {tensor.element_type}")
