"""The reference of formats that have no engine here: the Relay interpreter, operator by operator in NumPy.

It shows faults of the compiler, not those of the importer, which it shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend.reference import Array, Arrays, Engine, Graph, Node, Reference
from tilewright.relay.interpreter.interpreter import evaluate, interpret
from tilewright.relay.ir.adt import Match
from tilewright.relay.ir.expr import Call, Expr, Function, Let, Tuple, Var, var
from tilewright.relay.ir.json import save_json
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import all_vars, children, post_order, rewrite

Shapes = Mapping[str, Sequence[Any]]


class InterpreterReference(Reference):
    """`convert` returns the module of the model for the shapes of its inputs."""

    engines: tuple[str, ...] = ("interpreter",)
    engines_with_values: tuple[str, ...] = ("interpreter",)
    suffix = ".json"

    def __init__(self, convert: Callable[[Shapes | None], IRModule]) -> None:
        self._convert = convert

    def open(self, engine: str, inputs: Arrays, threads: int, exact: bool = True) -> Engine:
        """On one thread."""
        self.check(engine)
        mod, feed = self._convert(_shapes(inputs)), dict(inputs)
        return Engine("the Relay interpreter", np.__version__, lambda: interpret(mod, feed), feed.update)

    def values(self, inputs: Arrays, names: Sequence[str], engine: str) -> dict[str, Any]:
        """By the names of the model's nodes."""
        return self.straight_line(inputs, engine).values(inputs, names, engine)

    def nodes(self) -> Sequence[Node]:
        """Those that became calls, by the name that is the calls' span."""
        return RelayGraph(self._convert(None)).nodes

    def straight_line(self, inputs: Arrays, engine: str) -> Graph:
        """The module for these shapes."""
        return RelayGraph(self._convert(_shapes(inputs)))

    def number_kinds(self) -> set[str]:
        """The types of all calls and parameters."""
        kinds = set()
        for function in self._convert(None).functions.values():
            for node in (*function.params, *post_order(function.body)):
                if isinstance(node, Call | Var):
                    kinds |= {str(leaf.dtype) for leaf in _tensors(node)}
                if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "qnn.quantize":
                    kinds.add("codes")
        return kinds


class RelayGraph(Graph):
    """`main` of a module, its calls gathered by the node that they come from; a value has the name of its node."""

    def __init__(self, mod: IRModule) -> None:
        self._mod, self._main = mod, mod["main"]
        order = post_order(self._main.body)
        if any(isinstance(node, Let | Match | Function) for node in order):
            raise UnsupportedError("the interpreter returns inner values of graphs without bindings and functions only")
        self._ends = {node.span: node for node in order if isinstance(node, Call) and node.span}
        ends = [node for node in order if isinstance(node, Call) and self._ends.get(node.span) is node]
        position = {node.span: index for index, node in enumerate(ends)}
        read: dict[str, dict[str, None]] = {name: {} for name in position}
        sources: dict[Expr, frozenset[str]] = {}
        for node in order:
            below: frozenset[str] = frozenset().union(*(sources[kid] for kid in children(node)))
            if isinstance(node, Call) and node.span:
                read[node.span] |= dict.fromkeys(sorted(below - {node.span}))
            if isinstance(node, Call) and self._ends.get(node.span) is node:
                below = frozenset({node.span})
            sources[node] = below
        self.nodes = [
            Node(
                name,
                name,
                _operator(self._ends[name]),
                tuple(n for n in read[name] if position[n] < position[name]),
                (name,),
            )
            for name in position
        ]
        fields = self._main.body.fields if isinstance(self._main.body, Tuple) else (self._main.body,)
        self.outputs = [field.span for field in fields if isinstance(field, Call) and field.span in self._ends]

    def model(self, indices: Sequence[int], outputs: Sequence[str], given: Arrays, values: Arrays) -> Any:
        """An `IRModule`."""
        fresh = {name: var(name, TensorType(array.shape, str(array.dtype))) for name, array in given.items()}
        memo: dict[Expr, Expr] = {self._ends[name]: made for name, made in fresh.items()}
        bodies = [rewrite(self._ends[name], lambda _: None, memo) for name in outputs]
        body = bodies[0] if len(bodies) == 1 else Tuple(bodies)
        used = set(all_vars(body))
        params = [param for param in (*self._main.params, *fresh.values()) if param in used]
        main = Function(params, body, attrs={"output_names": tuple(outputs)})
        return self._mod.with_function("main", main)

    def values(self, inputs: Arrays, names: Sequence[str], engine: str) -> dict[str, Any]:
        """Of nodes; a node of several results has none."""
        wanted = [name for name in names if name in self._ends]
        body = Tuple([self._ends[name] for name in wanted])
        found: Any = evaluate(self._mod.with_function("main", Function(self._main.params, body)), inputs)
        return {name: value for name, value in zip(wanted, found) if isinstance(value, np.ndarray)}

    def inputs(self, model: Any) -> Sequence[str]:
        """The parameters of `main`."""
        return [param.name for param in model["main"].params]

    def size(self, model: Any) -> int:
        """The nodes that its calls come from."""
        return len({node.span for node in post_order(model["main"].body) if isinstance(node, Call) and node.span})

    def save(self, model: Any, path: Path) -> None:
        """As Relay's JSON, for `relay.load_json`."""
        path.write_text(save_json(model))


def _operator(call: Call) -> str:
    return call.op.name if isinstance(call.op, Op) else "call"


def _tensors(node: Expr) -> list[TensorType]:
    try:
        return tensor_types(type_of(node))
    except TypeError:  # nothing but tensors has numbers
        return []


def _shapes(inputs: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(array) for name, array in inputs.items()}
