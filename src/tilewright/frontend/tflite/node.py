"""One TFLite operator as a converter sees it: Relay inputs, what the file says of its tensors, its options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.converters import Converters
from tilewright.frontend.graph_node import NodeInputs
from tilewright.frontend.known_sizes import known_sizes
from tilewright.frontend.tflite.model import Operator, Quantization, Subgraph, Tensor
from tilewright.relay.ir.expr import Constant, Expr, Function, GlobalVar, Var, var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of

#: The one table of converters: TFLite's builtin operators by the schema's names, custom ones by their own.
converts = Converters("tflite")


class World:
    """The values of the variables at one point of the program, by name."""

    def __init__(self, values: dict[str, Expr] | None = None) -> None:
        self.values = dict(values or {})

    def copy(self) -> World:
        """A world of its own with the same values."""
        return World(self.values)


class Importer:
    """The state shared by the operators of one model while it is imported.

    `functions` holds the loops, as functions of the module; `variables` the types of the variables by name, as they are
    met; `initial` what CALL_ONCE assigns to them; `handles` their names, of which a handle is an index; `tables` keys
    and values of hash tables by name.
    """

    def __init__(self) -> None:
        self.functions: dict[GlobalVar, Function] = {}
        self.variables: dict[str, TensorType] = {}
        self.initial: dict[str, np.ndarray] = {}
        self.handles: list[str] = []
        self.tables: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._parameters: dict[str, Var] = {}

    def subgraph(self, index: int, arguments: Sequence[Expr], world: World, scope: str) -> list[Expr] | None:
        """The outputs of a subgraph applied to `arguments`; None where one needs what cannot be converted."""
        raise NotImplementedError

    def graphs(self) -> Sequence[Subgraph]:
        """All subgraphs of the model."""
        raise NotImplementedError

    def handle(self, name: str) -> int:
        """The number of the variable `name`."""
        if name not in self.handles:
            self.handles.append(name)
        return self.handles.index(name)

    def declare(self, name: str, type_: TensorType) -> None:
        """Note the type of a variable, by what first reads or assigns it."""
        self.variables.setdefault(name, type_)

    def parameter(self, name: str) -> Var:
        """The input of `main` that is the value of the variable `name` when a run begins."""
        if name not in self._parameters:
            self._parameters[name] = var(name, self.variables[name])
        return self._parameters[name]

    def parameters(self) -> list[Var]:
        """Those inputs of `main` that are variables."""
        return list(self._parameters.values())

    def initial_states(self) -> dict[str, np.ndarray]:
        """The contents of each variable before the first run; zeros by default."""
        zeros = {name: np.zeros(type_.shape, type_.dtype.numpy) for name, type_ in self.variables.items()}
        return {name: self.initial.get(name, zero) for name, zero in zeros.items()}


def state_name(graph: Subgraph, position: int) -> str:
    """The variable's name of a tensor that operators change in place."""
    name = graph.tensors[position].name
    alike = sum(tensor.name == name for tensor in graph.tensors)
    return name if name and alike == 1 else f"{name or 'state'}_{position}"


class Node(NodeInputs):
    """An operator being converted; `world` holds the variables' values when it runs."""

    def __init__(
        self, operator: Operator, label: str, span: str, graph: Subgraph, inputs: list[Expr | None], importer: Importer,
        world: World,
    ) -> None:  # fmt: skip
        super().__init__(label, inputs)
        self.operator = operator
        self.name = operator.name
        self.span = span
        self.graph = graph
        self.importer = importer
        self.world = world

    def tensor(self, index: int = 0) -> Tensor:
        """The declaration of input `index`."""
        self[index]
        return self.graph.tensors[self.operator.inputs[index]]

    def output(self, index: int = 0) -> Tensor:
        """The declaration of output `index`."""
        if index >= len(self.operator.outputs) or self.operator.outputs[index] < 0:
            raise ModelError(f"{self.label} lacks its output {index}")
        return self.graph.tensors[self.operator.outputs[index]]

    def array(self, index: int) -> np.ndarray | None:
        """The value of input `index` if it is known at import time, else None."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return value.data if isinstance(value, Constant) else None

    def static(self, index: int, what: str) -> np.ndarray:
        """The value of input `index`, which must be known at import time; `what` names it in the error."""
        self[index]
        value = self.array(index)
        if value is None:
            self.unsupported(f"its {what} (input {index}, {self.tensor(index).name!r}) is computed at run time")
        return value

    def ints(self, index: int, what: str) -> list[int]:
        """A static integer-vector input as a list."""
        return [int(value) for value in self.static(index, what).reshape(-1)]

    def sizes(self, index: int, what: str) -> list[Any]:
        """As `ints`; symbolic extents of the graph's tensors may be among them."""
        self[index]
        found = known_sizes(self[index])
        return self.ints(index, what) if found is None else list(found.reshape(-1))

    def option(self, name: str, default: Any = None) -> Any:
        """The option `name`; that of a table left out altogether, or of another kind, is its default."""
        found = getattr(self.operator.options, name, None)
        if found is None and default is None:
            raise ModelError(f"{self.label} lacks its option {name}")
        return default if found is None else found

    def choice(self, name: str, known: Sequence[str], default: int | None = None) -> str:
        """The option `name` as one of the spellings `known`, which the schema numbers from 0."""
        code = int(self.option(name, default))
        if not 0 <= code < len(known):
            raise ModelError(f"{self.label}: option {name}={code}; there are {', '.join(known)}")
        return known[code]

    def input_quantization(self, index: int = 0) -> Quantization:
        """The quantization of input `index`, whose absence is a `ModelError`."""
        return self._quantization(self.tensor(index))

    def output_quantization(self, index: int = 0) -> Quantization:
        """The quantization of output `index`, whose absence is a `ModelError`."""
        return self._quantization(self.output(index))

    def _quantization(self, tensor: Tensor) -> Quantization:
        if tensor.quantization is None:
            raise ModelError(f"{self.label}: the {tensor.element_type} tensor {tensor.name!r} has no scale")
        return tensor.quantization

    def keep(self, index: int, value: Expr) -> None:
        """Leave `value` in input `index`, a tensor that the operator changes in place, for the next run."""
        if not self.tensor(index).is_variable:
            raise ModelError(f"{self.label} keeps its state in {self.tensor(index).name!r}, which is no variable")
        name = state_name(self.graph, self.operator.inputs[index])
        if tensor_type_of(value) != self.importer.variables[name]:
            wanted = self.importer.variables[name]
            raise ModelError(f"{self.label} leaves a {tensor_type_of(value)} in the state {name!r}, a {wanted}")
        self.world.values[name] = value

    def is_quantized(self, index: int = 0) -> bool:
        """True where input `index` holds integers that stand for real numbers."""
        tensor = self.tensor(index)
        return tensor.quantization is not None and tensor.element_type in ("INT8", "UINT8", "INT16", "INT4")
