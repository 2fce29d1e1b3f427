"""`cond` and `while_loop`, whose branches and bodies are graphs of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tilewright.errors import UnsupportedError
from tilewright.frontend.idioms import reshape
from tilewright.relay.ir.expr import Call, Expr, Function, GlobalVar, If, Tuple, Var, var
from tilewright.relay.ir.type import FuncType, TupleType
from tilewright.relay.ir.type_of import tensor_type_of


class Importer(Protocol):
    """The walk of a graph: the values of its nodes, and the functions that loops became."""

    values: dict[Any, Any]
    functions: dict[GlobalVar, Function]

    def run(self, graph: Any) -> None:
        """Convert a graph whose placeholders have values."""


def _inner(importer: Importer, node: Any, position: int, operands: Sequence[Any]) -> list[Expr]:
    """The results of the graph that an argument of `node` is, on `operands`."""
    graph = getattr(node.graph.owning_module, node.args[position].target).graph
    for one in graph.nodes:  # it may have been walked for another call
        importer.values.pop(one, None)
    holders = [one for one in graph.nodes if one.op == "placeholder"]
    importer.values.update(zip(holders, operands))
    importer.run(graph)
    (given,) = next(one for one in graph.nodes if one.op == "output").args
    results = [importer.values.get(one) for one in (given if isinstance(given, list | tuple) else [given])]
    if any(not isinstance(value, Expr) for value in results):
        raise UnsupportedError(f"{node.name}: a branch or body with a result that is no tensor is not supported")
    return results  # type: ignore[return-value]


def convert_cond(importer: Importer, node: Any) -> list[Expr]:
    """One of two graphs, as a truth value says."""
    condition = importer.values.get(node.args[0], node.args[0])
    operands = [importer.values.get(one, one) for one in node.args[3]]
    if not isinstance(condition, Expr):
        return _inner(importer, node, 1 if condition else 2, operands)
    ways = [_inner(importer, node, position, operands) for position in (1, 2)]
    choice = If(reshape(condition, ()), Tuple(ways[0]), Tuple(ways[1]))
    return [choice[index] for index in range(len(ways[0]))]


def convert_while(importer: Importer, node: Any) -> list[Expr]:
    """A graph repeated while another says so: a function that calls itself."""
    carried, handed = ([importer.values.get(one, one) for one in node.args[position]] for position in (2, 3))
    if any(not isinstance(value, Expr) for value in (*carried, *handed)):
        raise UnsupportedError(f"{node.name}: a loop that carries numbers, which are no tensors, is not supported")
    types = [tensor_type_of(value) for value in (*carried, *handed)]
    params: list[Var] = [var(f"carried_{index}", type_) for index, type_ in enumerate(types)]
    (test,) = _inner(importer, node, 0, params)
    results = _inner(importer, node, 1, params)
    if [tensor_type_of(value) for value in results] != types[: len(carried)]:
        raise UnsupportedError(f"{node.name}: a loop whose tensors change their types or shapes is not supported")
    name = GlobalVar(f"while_{len(importer.functions) + 1}")
    kept = TupleType(types[: len(carried)])
    name.set_inferred_type(FuncType(types, kept))
    again = Call(name, [*results, *params[len(carried) :]], span=node.name)
    body = If(reshape(test, ()), again, Tuple(params[: len(carried)]))
    importer.functions[name] = Function(params, body, kept)
    call = Call(name, [*carried, *handed], span=node.name)
    return [call[index] for index in range(len(carried))]
