"""PyTorch as the reference of exported programs: their graphs run node by node, inner values by the nodes' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tilewright.errors import EnvironmentError_, TilewrightError, UnsupportedError
from tilewright.frontend.interpreter_reference import InterpreterReference, RelayGraph, Shapes
from tilewright.frontend.reference import Array, Arrays, Engine, Graph
from tilewright.frontend.torch.decompose import decomposed
from tilewright.frontend.torch.load import load_program
from tilewright.relay.ir.module import IRModule


class TorchReference(InterpreterReference):
    """`model` is a program of `torch.export`, or the path of one; `convert` returns its module for shapes."""

    engines: tuple[str, ...] = ("torch", "torch-gpu", "interpreter")
    engines_with_values: tuple[str, ...] = ("torch", "interpreter")

    def __init__(self, model: Any, convert: Callable[[Shapes | None], IRModule]) -> None:
        super().__init__(convert)
        self._program = decomposed(load_program(model))

    def open(self, engine: str, inputs: Arrays, threads: int, exact: bool = True) -> Engine:
        """PyTorch in eager mode, with as many threads, or on an NVIDIA GPU with inputs and outputs on the host."""
        self.check(engine)
        if engine == "torch-gpu":
            return _on_gpu(self._program, inputs)
        if engine != "torch":
            return super().open(engine, inputs, threads, exact)
        feed = dict(inputs)

        def run() -> list[Array]:
            torch.set_num_threads(threads)
            return run_program(self._program, feed)[0]

        return Engine("PyTorch", torch.__version__, run, feed.update)

    def straight_line(self, inputs: Arrays, engine: str) -> Graph:
        """The module for these shapes, whose values PyTorch computes where that is the engine."""
        module = self._convert({name: np.shape(array) for name, array in inputs.items()})
        return TorchGraph(module, self._program) if engine == "torch" else RelayGraph(module)


def _on_gpu(program: Any, inputs: Arrays) -> Engine:
    """The program on PyTorch's current GPU. Raises `EnvironmentError_` where PyTorch has none."""
    if not torch.cuda.is_available():
        raise EnvironmentError_(
            f"torch-gpu needs an NVIDIA GPU and a CUDA build of PyTorch; this is {torch.__version__}, without one"
        )
    module, names = program.module().to("cuda"), program.graph_signature.user_inputs
    feed = dict(inputs)

    def run() -> list[Array]:
        with torch.no_grad():
            made = module(*[torch.from_numpy(np.array(feed[name], order="C")).to("cuda") for name in names])
        leaves = torch.utils._pytree.tree_leaves(made)
        return [_array(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]

    return Engine("PyTorch on a GPU", torch.__version__, run, feed.update)


class TorchGraph(RelayGraph):
    """The calls of a module, with the values that PyTorch computes for the nodes that they come from."""

    def __init__(self, mod: IRModule, program: Any) -> None:
        super().__init__(mod)
        self._program = program

    def values(self, inputs: Arrays, names: Sequence[str], engine: str) -> dict[str, Any]:
        """The names of nodes that return one tensor."""
        found = run_program(self._program, inputs)[1]
        return {name: _array(found[name]) for name in names if isinstance(found.get(name), torch.Tensor)}


def run_program(program: Any, inputs: Mapping[str, Array]) -> tuple[list[Array], dict[str, Any]]:
    """The outputs, in the order of the converted module's, and the value of each node by its name.

    Raises `UnsupportedError` where PyTorch does not run it on these inputs.
    """
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    given = [_given(program, spec, node, inputs) for spec, node in zip(program.graph_signature.input_specs, nodes)]
    values: dict[str, Any] = {}

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            values[n.name] = made = super().run_node(n)
            return made

    try:
        with torch.no_grad():
            results = Recorder(program.graph_module).run(*given)
    except TilewrightError:
        raise
    except Exception as error:  # whatever an operator of the program does not take
        raise UnsupportedError(f"PyTorch does not run the program on these inputs: {error}") from None
    kept: list[Array] = []
    changes: list[Array] = []
    for spec, value in zip(program.graph_signature.output_specs, results):
        if isinstance(value, torch.Tensor) and spec.kind.name != "TOKEN":
            (kept if spec.kind.name == "USER_OUTPUT" else changes).append(_array(value))
    return [*kept, *changes], values


def _given(program: Any, spec: Any, node: Any, inputs: Mapping[str, Array]) -> Any:
    """The value of a placeholder: an input, a state given as one, a parameter, or a fixed number."""
    name = node.name if spec.kind.name == "USER_INPUT" else spec.target
    if name in inputs:
        return torch.from_numpy(np.array(inputs[name], order="C"))
    if spec.kind.name == "USER_INPUT":
        return getattr(spec.arg, "value", None)
    if spec.kind.name == "TOKEN":
        return None
    return program.state_dict[name] if name in program.state_dict else program.constants[name]


def _array(tensor: Any) -> Array:
    plain = tensor.detach().cpu()
    plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
    return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
