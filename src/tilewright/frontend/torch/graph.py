"""A graph of ATen operators as TorchDynamo's backends get it: all tensors are inputs, outputs may be numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.frontend.complex_numbers import Complex, of_last_axis, to_last_axis
from tilewright.frontend.torch.families import find_converter
from tilewright.frontend.torch.foreach import foreach_rules
from tilewright.frontend.torch.higher_order import written_out
from tilewright.frontend.torch.importer import GraphImporter, value_of
from tilewright.frontend.torch.random_numbers import KEY, Draws
from tilewright.frontend.torch.views import output_views
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Tuple, Var, var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType


@dataclass(frozen=True)
class ConvertedGraph:
    """`module` takes the tensors among the graph's inputs, whose places are `inputs`; None where nothing is computed.

    An integer that no tensor has as an axis is among them too, as an axis of a tensor without elements: [integer, 0].
    With `draws`, a key of random numbers, of the type `KEY`, is one more input, the last one. `outputs` says of each
    output of the graph what it is: ("result", number of the module's result), ("complex", number of the result that
    holds the parts in its last axis), ("input", place of the input), ("view", its node, see `views.py`), ("size", a
    function of the graph's inputs) or ("value", a number or None).
    """

    module: IRModule | None
    inputs: tuple[int, ...]
    outputs: tuple[tuple[str, Any], ...]
    draws: bool = False


def without_converter() -> dict[Any, Any]:
    """PyTorch's decompositions of the operators that have no converter."""
    # torch is optional
    from torch._decomp import decomposition_table

    table = {**foreach_rules(), **decomposition_table}
    return {key: rule for key, rule in table.items() if find_converter(str(key)) is None}


def convert_graph(graph: Any, constants: Mapping[int, Any]) -> ConvertedGraph:
    """A module for a `torch.fx.Graph` with fake tensors as its nodes' values.

    `constants` are the tensors that inputs of the graph are known to be, by the inputs' places.
    Raises `UnsupportedError` naming every operator that cannot be converted.
    """
    graph = written_out(graph, without_converter())
    key = var("random_key", KEY)
    importer = GraphImporter(Draws(lambda: key))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    params: list[Var] = []
    inputs: list[int] = []
    for place, node in enumerate(placeholders):
        value = node.meta.get("val")
        if _is_token(node):
            importer.values[node] = None
        elif place in constants:
            importer.values[node] = value_of(constants[place], node.name)
        elif hasattr(value, "dtype"):
            params.append(var(node.name, importer.sizes.tensor_type(value, f"the input {node.name}")))
            importer.values[node] = of_last_axis(params[-1]) if value.dtype.is_complex else params[-1]
            inputs.append(place)
        else:
            importer.values[node] = importer.number(value, node.name)
    for place, carrier in _carriers(placeholders, constants, importer):
        params.append(carrier)
        inputs.append(place)
    importer.run(graph)
    report = importer.report()
    if report:
        raise UnsupportedError(f"the graph needs what Tilewright does not support:\n{report}")
    results: list[Expr] = []
    (given,) = next(node for node in graph.nodes if node.op == "output").args
    views = output_views(given, placeholders)
    outputs = [
        ("view", item) if place in views else _output(item, placeholders, importer, results)
        for place, item in enumerate(given)
    ]
    if not results:
        return ConvertedGraph(None, (), tuple(outputs))
    if importer.draws.used:
        params.append(key)
    main = Function(params, results[0] if len(results) == 1 else Tuple(results))
    return ConvertedGraph(
        IRModule({GlobalVar("main"): main, **importer.functions}), tuple(inputs), tuple(outputs), importer.draws.used
    )


def _is_token(node: Any) -> bool:
    """True for an input that only keeps the order of effects: a run is given None for it."""
    # torch is optional
    import torch

    effects = torch.ops.higher_order.with_effects
    return any(user.target is effects and user.args[0] is node for user in node.users)


def _carriers(placeholders: list[Any], constants: Mapping[int, Any], importer: GraphImporter) -> list[tuple[int, Var]]:
    """Places of the integers that are no axis of any tensor given, and inputs that have them as an axis."""
    values = [node.meta.get("val") for node in placeholders]
    known = {
        str(extent)
        for place, value in enumerate(values)
        if hasattr(value, "dtype") and place not in constants
        for extent in value.shape
    }
    carriers = []
    for place, (node, value) in enumerate(zip(placeholders, values)):
        if type(value).__name__ == "SymInt" and value.node.expr.is_Symbol and str(value) not in known:
            extent = importer.sizes.dim(value, node.name)
            carriers.append((place, var(node.name, TensorType((extent, 0), "uint8"))))
            known.add(str(value))
    return carriers


def _output(item: Any, placeholders: list[Any], importer: GraphImporter, results: list[Expr]) -> tuple[str, Any]:
    """What an output is; an expression is entered into `results`."""
    if item in placeholders:
        return "input", placeholders.index(item)
    value = importer.values[item] if hasattr(item, "op") else item
    if isinstance(value, Expr):
        results.append(value)
        return "result", len(results) - 1
    if isinstance(value, Complex):
        results.append(to_last_axis(value))
        return "complex", len(results) - 1
    if value is None or isinstance(value, bool | int | float):
        return "value", value
    if type(item.meta.get("val")).__name__ == "SymInt":
        return "size", _size(item, placeholders)
    raise UnsupportedError(f"the output {item} is a number that a run computes, which is not supported")


def _size(item: Any, placeholders: list[Any]) -> Callable[[Sequence[Any]], int]:
    """A function of the inputs that gives a size which follows from theirs."""
    expr = item.meta["val"].node.expr
    found: dict[Any, tuple[int, int | None]] = {}
    for place, node in enumerate(placeholders):
        value = node.meta.get("val")
        listed = [(None, value)] if type(value).__name__ == "SymInt" else list(enumerate(getattr(value, "shape", ())))
        for axis, extent in listed:
            if type(extent).__name__ == "SymInt" and extent.node.expr.is_Symbol:
                found.setdefault(extent.node.expr, (place, axis))
    unknown = expr.free_symbols - set(found)
    if unknown:
        raise UnsupportedError(f"the output {item} is a size that a run computes, which is not supported")
    needed = {symbol: found[symbol] for symbol in expr.free_symbols}

    @cache
    def value_at(*extents: int) -> int:
        # torch is optional, and brings sympy
        import sympy

        return int(expr.xreplace({symbol: sympy.Integer(extent) for symbol, extent in zip(needed, extents)}))

    def size(args: Sequence[Any]) -> int:
        return value_at(*(args[place] if axis is None else args[place].shape[axis] for place, axis in needed.values()))

    return size
