"""LiteRT as the reference of TFLite models: its reference kernels, and the values of all tensors by their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError, UnsupportedError
from tilewright.frontend.idioms import shape_of
from tilewright.frontend.interpreter_reference import InterpreterReference, RelayGraph, Shapes
from tilewright.frontend.reference import Array, Arrays, Engine, Graph, import_engine
from tilewright.frontend.tflite.control import variable_name
from tilewright.frontend.tflite.convert import convert_with_tensors, initial_states
from tilewright.frontend.tflite.model import Subgraph, Tensor, load_model
from tilewright.frontend.tflite.node import state_name
from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op

_ENGINE = "litert"


class TfliteReference(InterpreterReference):
    """`model` is a path or bytes; `convert` returns its module for shapes.

    Variables are inputs and outputs of the module: LiteRT runs from what they hold before the first run only.
    """

    engines: tuple[str, ...] = (_ENGINE, "interpreter")
    engines_with_values: tuple[str, ...] = (_ENGINE, "interpreter")

    def __init__(self, model: str | os.PathLike[str] | bytes, convert: Callable[[Shapes | None], IRModule]) -> None:
        main = load_model(model).subgraphs[0]
        own = {main.tensors[position].name for position in main.inputs}
        # variables are inputs of the module, whose shapes nobody chooses
        self._own = own
        super().__init__(lambda shapes: convert(self._chosen(shapes)))
        self._model = model

    def _chosen(self, shapes: Shapes | None) -> Shapes | None:
        return {name: shape for name, shape in (shapes or {}).items() if name in self._own} or None

    def open(self, engine: str, inputs: Arrays, threads: int, exact: bool = True) -> Engine:
        """LiteRT's reference kernels, or its fast ones where it need not be exact."""
        self.check(engine)
        if engine != _ENGINE:
            return super().open(engine, inputs, threads, exact)
        run = _Interpreter(self._model, inputs, threads, exact)
        version = getattr(import_engine("ai_edge_litert"), "__version__", "")
        return Engine("LiteRT", version, lambda: run.outputs(), run.feed)

    def straight_line(self, inputs: Arrays, engine: str) -> Graph:
        """The module for these shapes, whose values LiteRT computes where that is the engine."""
        shapes = {name: np.shape(array) for name, array in inputs.items()}
        if engine != _ENGINE:
            return RelayGraph(self._convert(shapes))
        module, _, tensors = convert_with_tensors(self._model, self._chosen(shapes))
        return LiteGraph(module, self._model, tensors)


class LiteGraph(RelayGraph):
    """The calls of a module, with the values that LiteRT computes for the tensors that they are.

    `tensors` are the tensors as they were converted: two transpositions in a row are none, so that what a convolution
    returns may be in the graph with its channels first only.
    """

    def __init__(self, mod: IRModule, model: Any, tensors: Mapping[str, Expr]) -> None:
        super().__init__(mod)
        self._model = model
        #: Of the nodes that LiteRT knows, how the axes of its tensor lie in ours.
        self._axes: dict[str, tuple[int, ...]] = {}
        for name, end in self._ends.items():
            tensor = tensors.get(name)
            if tensor is end:
                self._axes[name] = tuple(range(len(shape_of(end))))
            elif _is_transposed(tensor, end):
                self._axes[name] = tuple(np.argsort(tensor.attrs["axes"]).tolist())  # type: ignore[union-attr]

    def values(self, inputs: Arrays, names: Sequence[str], engine: str) -> dict[str, Any]:
        """Of tensors of the main subgraph."""
        run = _Interpreter(self._model, inputs, threads=1, exact=True, inner=True)
        run.outputs()
        found = run.values([name for name in names if name in self._axes])
        return {name: array.transpose(self._axes[name]) for name, array in found.items()}


def _is_transposed(tensor: Expr | None, value: Expr) -> bool:
    if not isinstance(tensor, Call) or not isinstance(tensor.op, Op) or tensor.op.name != "transpose":
        return False
    return tensor.args[0] is value


def _left_in(graph: Subgraph) -> dict[str, int]:
    """The tensors that hold what the variables of a subgraph are behind it, by name."""
    found = {
        state_name(graph, position): position for position, tensor in enumerate(graph.tensors) if tensor.is_variable
    }
    handles: dict[int, str] = {}
    for operator in graph.operators:
        if operator.name == "VAR_HANDLE":
            handles[operator.outputs[0]] = variable_name(operator.options)
        elif operator.name == "ASSIGN_VARIABLE" and operator.inputs[0] in handles:
            found[handles[operator.inputs[0]]] = operator.inputs[1]
    return found


class _Interpreter:
    """A model in LiteRT; `inner` keeps all tensors."""

    def __init__(self, model: Any, inputs: Mapping[str, Array], threads: int, exact: bool, inner: bool = False) -> None:
        interpreter = import_engine("ai_edge_litert.interpreter")
        whole = load_model(model)
        self._main = whole.subgraphs[0]
        kinds = interpreter.OpResolverType
        source: dict[str, Any] = (
            {"model_content": bytes(model)}
            if isinstance(model, bytes | bytearray | memoryview)
            else {"model_path": os.fspath(model)}
        )
        options = {
            **source,
            "num_threads": threads,
            "experimental_op_resolver_type": kinds.BUILTIN_REF if exact else kinds.AUTO,
            "experimental_preserve_all_tensors": inner or len(inputs) > len(self._main.inputs),
        }
        self._feed = dict(inputs)
        self._first = initial_states(model) if len(inputs) > len(self._main.inputs) else {}
        self._after = _left_in(self._main) if self._first else {}
        try:
            self._run = interpreter.Interpreter(**options)
            for position, tensor in zip(self._main.inputs, self._inputs()):
                if tensor.name in inputs and np.shape(inputs[tensor.name]) != tensor.shape:
                    self._run.resize_tensor_input(position, np.shape(inputs[tensor.name]), strict=False)
            self._run.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise UnsupportedError(f"LiteRT does not load {whole.label}: {error}") from None

    def _inputs(self) -> list[Tensor]:
        return [self._main.tensors[position] for position in self._main.inputs]

    def feed(self, inputs: Mapping[str, Array]) -> None:
        """Other inputs of the same shapes."""
        self._feed.update(inputs)

    def outputs(self) -> list[Array]:
        """One run, from the states before the first one."""
        for name, first in self._first.items():
            if not np.array_equal(self._feed[name], first):
                raise InputError(f"LiteRT runs from what {name!r} holds before the first run; leave out --input {name}")
        self._run.reset_all_variables()
        try:
            for position, tensor in zip(self._main.inputs, self._inputs()):
                self._run.set_tensor(position, np.ascontiguousarray(self._feed[tensor.name]))
            self._run.invoke()
        except (ValueError, RuntimeError) as error:
            raise UnsupportedError(f"LiteRT does not run the model on these inputs: {error}") from None
        return [np.array(self._run.get_tensor(position)) for position in (*self._main.outputs, *self._left())]

    def _left(self) -> list[int]:
        """The tensors that hold what the variables are behind a run."""
        missing = [name for name in self._first if name not in self._after]
        if missing:
            raise UnsupportedError(f"LiteRT does not tell what the variable {missing[0]!r} holds behind a run")
        return [self._after[name] for name in self._first]

    def values(self, names: Sequence[str]) -> dict[str, Array]:
        """The tensors of the main subgraph that have these names and a value."""
        positions = {tensor.name: position for position, tensor in enumerate(self._main.tensors)}
        found = {}
        for name in names:
            try:
                found[name] = np.array(self._run.get_tensor(positions[name]))
            except (KeyError, ValueError):  # of another subgraph, or of no memory
                continue
        return found
