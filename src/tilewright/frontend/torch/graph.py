"""A graph of ATen operators as TorchDynamo's backends get it: all tensors are inputs, outputs may be numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.frontend.builders.complex_numbers import of_last_axis
from tilewright.frontend.idioms import transpose
from tilewright.frontend.torch.checks import Checks
from tilewright.frontend.torch.devices import gpu_of
from tilewright.frontend.torch.families import find_converter
from tilewright.frontend.torch.higher_order import written_out
from tilewright.frontend.torch.importer import GraphImporter, value_of
from tilewright.frontend.torch.layouts import layout_of
from tilewright.frontend.torch.normalization import foreach_rules
from tilewright.frontend.torch.outputs import Outputs
from tilewright.frontend.torch.random_numbers import KEY, Draws
from tilewright.frontend.torch.types import names_of_sizes
from tilewright.relay.ir.expr import Function, GlobalVar, Tuple, Var, var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType


@dataclass(frozen=True)
class ConvertedGraph:
    """`module` takes the tensors among the graph's inputs, whose positions are `inputs`; None where nothing is
    computed.

    An integer that no tensor has as an axis is among them too, as an axis of a tensor without elements: [integer, 0];
    `integers` are the positions of such. Of the inputs at the positions `orders` the module takes the axes in that
    order, in which they lie in memory. With `draws`, a key of random numbers, of the type `KEY`, is one more input, the
    last one. `outputs` makes the graph's outputs of the module's results and the graph's inputs. With `checked`, the
    module has one more result, the last one: true where PyTorch refuses what it was given (`checks.py`). `gpu` is the
    number of the NVIDIA GPU that the graph is for, None for the processor."""

    module: IRModule | None
    inputs: tuple[int, ...]
    outputs: Outputs
    draws: bool = False
    integers: tuple[int, ...] = ()
    orders: dict[int, tuple[int, ...]] = field(default_factory=dict)
    checked: bool = False
    gpu: int | None = None


#: Operators that make complex numbers of real ones: the decompositions that PyTorch has for them write into views,
#: which AOTAutograd refuses.
_MAKE_COMPLEX = ("aten.complex.default", "aten.polar.default")


def without_converter() -> dict[Any, Any]:
    """PyTorch's decompositions of the operators that have no converter."""
    # torch is optional
    from torch._decomp import decomposition_table

    table = {**foreach_rules(), **decomposition_table}
    return {
        key: rule for key, rule in table.items() if find_converter(str(key)) is None and str(key) not in _MAKE_COMPLEX
    }


def convert_graph(graph: Any, constants: Mapping[int, Any], checked: bool = False) -> ConvertedGraph:
    """A module for a `torch.fx.Graph` with fake tensors as its nodes' values.

    `constants` are the tensors that inputs of the graph are known to be, by the inputs' positions. With `checked`,
    indices out of range and what PyTorch would raise for are looked for. Raises `UnsupportedError` naming every
    operator that cannot be converted."""
    graph = written_out(graph, without_converter())
    gpu = gpu_of(graph)
    key = var("random_key", KEY)
    importer = GraphImporter(Draws(lambda: key), Checks(graph) if checked else None)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    importer.sizes.given, importer.sizes.names = _sizes_given(placeholders), names_of_sizes(placeholders)
    params: list[Var] = []
    inputs: list[int] = []
    orders: dict[int, tuple[int, ...]] = {}
    for position, node in enumerate(placeholders):
        value = node.meta.get("val")
        if _is_token(node):
            importer.values[node] = None
        elif position in constants:
            importer.values[node] = value_of(constants[position], node.name)
        elif hasattr(value, "dtype"):
            type_, order = importer.sizes.tensor_type(value, f"the input {node.name}"), layout_of(value).order
            if order is not None and not value.dtype.is_complex:
                orders[position] = order
                params.append(var(node.name, TensorType(tuple(type_.shape[axis] for axis in order), type_.dtype)))
                importer.values[node] = transpose(params[-1], [order.index(axis) for axis in range(len(order))])
            else:
                params.append(var(node.name, type_))
                importer.values[node] = of_last_axis(params[-1]) if value.dtype.is_complex else params[-1]
            inputs.append(position)
        else:
            importer.values[node] = importer.number(value, node.name)
    carriers = _carriers(placeholders, constants, importer)
    params += [carrier for _, carrier in carriers]
    integers = tuple(position for position, _ in carriers)
    importer.run(graph)
    report = importer.report()
    if report:
        raise UnsupportedError(f"the graph needs what Tilewright does not support:\n{report}")
    (given,) = next(node for node in graph.nodes if node.op == "output").args
    outputs = Outputs(given, placeholders, importer.values, gpu is not None)
    flag = importer.checks.flag() if importer.checks is not None else None
    results = outputs.results if flag is None else [*outputs.results, flag]
    if not results:
        return ConvertedGraph(None, (), outputs, gpu=gpu)
    if importer.draws.used:
        params.append(key)
    main = Function(params, results[0] if len(results) == 1 else Tuple(results))
    module = IRModule({GlobalVar("main"): main, **importer.functions})
    return ConvertedGraph(
        module, (*inputs, *integers), outputs, importer.draws.used, integers, orders, flag is not None, gpu
    )


def _is_token(node: Any) -> bool:
    """True for an input that only keeps the order of effects: a run is given None for it."""
    import torch

    effects = torch.ops.higher_order.with_effects
    return any(user.target is effects and user.args[0] is node for user in node.users)


def _sizes_given(placeholders: list[Any]) -> set[str]:
    """The symbols of sizes that the inputs of a graph are, or have as an axis."""
    values = [node.meta.get("val") for node in placeholders]
    extents = [extent for value in values for extent in getattr(value, "shape", (value,))]
    return {str(extent) for extent in extents if type(extent).__name__ == "SymInt" and extent.node.expr.is_Symbol}


def _carriers(placeholders: list[Any], constants: Mapping[int, Any], importer: GraphImporter) -> list[tuple[int, Var]]:
    """Positions of the integers that are no axis of any tensor given, and inputs that have them as an axis."""
    values = [node.meta.get("val") for node in placeholders]
    known = {
        str(extent)
        for position, value in enumerate(values)
        if hasattr(value, "dtype") and position not in constants
        for extent in value.shape
    }
    carriers = []
    for position, (node, value) in enumerate(zip(placeholders, values)):
        if type(value).__name__ == "SymInt" and value.node.expr.is_Symbol and str(value) not in known:
            extent = importer.sizes.dim(value, node.name)
            carriers.append((position, var(node.name, TensorType((extent, 0), "uint8"))))
            known.add(str(value))
    return carriers
