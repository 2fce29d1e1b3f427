"""Test oracle: tensor expressions evaluated point by point, and loop nests run, both as generated Python.

Indices are checked against the buffers, so a read or write outside of one fails the test; memory starts out as garbage.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.tir import stmt as s
from tilewright.tir.evaluate import interpret

_BINARY = {
    tir.Add: "+", tir.Sub: "-", tir.Mul: "*", tir.Div: "/", tir.FloorDiv: "//", tir.FloorMod: "%", tir.LT: "<",
    tir.LE: "<=", tir.GT: ">", tir.GE: ">=", tir.EQ: "==", tir.NE: "!=", tir.And: "and", tir.Or: "or",
}  # fmt: skip
_FUNCTIONS = {"sqrt": "np.sqrt", "exp": "np.exp", "tanh": "np.tanh", "fabs": "abs"}


class _Source:
    """Turns expressions and statements into Python source; objects are named by their position in `names`."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.lines: list[str] = []

    def name(self, thing: Any) -> str:
        return self.names.setdefault(thing, f"v{len(self.names)}")

    def expr(self, x: Any) -> str:
        kind = type(x)
        if kind in _BINARY:
            return f"({self.expr(x.a)} {_BINARY[kind]} {self.expr(x.b)})"
        if kind is tir.IntImm:
            return f"({x.value})"
        if kind is tir.FloatImm:
            return f"float({str(x.value)!r})"
        if kind in (tir.Var, tir.SizeVar):
            return self.name(x)
        if kind in (tir.Min, tir.Max):
            return f"{'min' if kind is tir.Min else 'max'}({self.expr(x.a)}, {self.expr(x.b)})"
        if kind is tir.Cast:
            return f"{'float' if x.dtype.is_float else 'int'}({self.expr(x.value)})"
        if kind is tir.Not:
            return f"(not {self.expr(x.a)})"
        if kind is tir.Select:
            return f"({self.expr(x.true_value)} if {self.expr(x.condition)} else {self.expr(x.false_value)})"
        if kind is tir.BufferLoad:
            return f"{self.name(x.buffer)}[{self.indices(x.indices)}].item()"
        if kind is tir.ProducerLoad:
            return f"{self.name(x.producer)}[{self.indices(x.indices)}].item()"
        assert kind is tir.Call, kind
        return self.call(x)

    def call(self, x: Any) -> str:
        args = [self.expr(a) for a in x.args]
        if x.op == "likely":
            return args[0]
        if x.op == "if_then_else":
            return f"({args[1]} if {args[0]} else {args[2]})"
        return f"{_FUNCTIONS[x.op]}({args[0]})"

    def indices(self, indices: Sequence[Any]) -> str:
        return "(" + "".join(f"at({self.expr(i)}), " for i in indices) + ")"

    def stmt(self, x: Any, depth: int) -> None:
        pad = "  " * depth
        if isinstance(x, s.SeqStmt):
            self.lines.append(f"{pad}pass")
            for part in x.stmts:
                self.stmt(part, depth)
        elif isinstance(x, s.For):
            low, extent = self.expr(x.min), self.expr(x.extent)
            self.lines.append(f"{pad}for {self.name(x.var)} in range({low}, {low} + {extent}):")
            self.stmt(x.body, depth + 1)
        elif isinstance(x, s.BufferStore):
            self.lines.append(f"{pad}{self.name(x.buffer)}[{self.indices(x.indices)}] = {self.expr(x.value)}")
        elif isinstance(x, s.Allocate):
            shape = "(" + "".join(f"{self.expr(d)}, " for d in x.buffer.shape) + ")"
            self.lines.append(f"{pad}{self.name(x.buffer)} = np.full({shape}, 77, '{x.buffer.dtype}')")
            self.stmt(x.body, depth)
        elif isinstance(x, s.IfThenElse):
            self.lines.append(f"{pad}if {self.expr(x.condition)}:")
            self.stmt(x.then_case, depth + 1)
        elif isinstance(x, s.AttrStmt):
            self.stmt(x.body, depth)
        else:
            assert isinstance(x, s.LetStmt), type(x)
            self.lines.append(f"{pad}{self.name(x.var)} = {self.expr(x.value)}")
            self.stmt(x.body, depth)


def at(index: int) -> int:
    """An index that must not be negative (NumPy would count from the end)."""
    if index < 0:
        raise IndexError(f"index {index}")
    return index


def run(func: tir.PrimFunc, *args: Any) -> None:
    """Run a function of multi-dimensional buffers (before vectorization) on arrays and numbers."""
    source = _Source()
    params = ", ".join(source.name(p) for p in func.params)
    source.stmt(func.body, 1)
    scope: dict[str, Any] = {"np": np, "at": at}
    exec(f"def kernel({params}):\n" + "\n".join(source.lines), scope)
    scope["kernel"](*args)


def evaluate(outputs: Sequence[te.Tensor], values: Mapping[te.Tensor, np.ndarray]) -> list[np.ndarray]:
    """The tensors' values by definition: every element of every operation computed on its own, in int or float."""
    known = dict(values)
    for tensor in outputs:
        _compute(tensor, known)
    return [known[t] for t in outputs]


def _compute(tensor: te.Tensor, known: dict[te.Tensor, np.ndarray]) -> None:
    if tensor in known:
        return
    op = tensor.op
    if isinstance(op, te.ScanOp):
        _scan(op, known)
        return
    for source in op.input_tensors:
        _compute(source, known)
    if isinstance(op, te.ExternOp):
        arrays = [np.zeros([int(d.value) for d in t.shape], t.dtype.numpy) for t in op.outputs]
        body = tir.PrimFunc("extern", [*op.input_buffers, *op.output_buffers], op.body)
        interpret(body, *[np.ascontiguousarray(known[t]) for t in op.inputs], *arrays)
        known.update(zip(op.outputs, arrays, strict=True))
        return
    assert isinstance(op, te.ComputeOp)
    shape = [int(iv.dom.extent.value) for iv in op.axis]
    arrays = [np.zeros(shape, t.dtype.numpy) for t in op.outputs]
    for point in itertools.product(*map(range, shape)):
        where = dict(zip([iv.var for iv in op.axis], point, strict=True))
        for array, value in zip(arrays, _element(op, where, known), strict=True):
            array[point] = value
    known.update(zip(op.outputs, arrays, strict=True))


def _scan(op: te.ScanOp, known: dict[te.Tensor, np.ndarray]) -> None:
    """Step by step; what depends on the state is computed for the step at hand, of which it has the first index."""
    for first in op.init:
        _compute(first, known)
    for state, first in zip(op.states, op.init, strict=True):
        known[state] = np.full([int(d.value) for d in state.shape], 99, state.dtype.numpy)
        known[state][: len(known[first])] = known[first]
    steps = op.scan_axis.dom
    for t in range(steps.min.value, steps.min.value + steps.extent.value):
        made: dict[te.Operation, None] = {}
        for update in op.update:
            _step(update, t, set(op.states), known, made)
        for state, update in zip(op.states, op.update, strict=True):
            known[state][t] = known[update][t]
    known.update((out, known[state]) for out, state in zip(op.outputs, op.states, strict=True))


def _step(
    tensor: te.Tensor, t: int, states: set[te.Tensor], known: dict[te.Tensor, np.ndarray], made: dict[Any, None]
) -> None:
    """Row `t` of a tensor within a scan, after those it reads; a tensor outside of it whole."""
    op = tensor.op
    if tensor in states or op in made:
        return
    if not _within(tensor, states):
        _compute(tensor, known)
        return
    made[op] = None
    assert isinstance(op, te.ComputeOp)
    for source in op.input_tensors:
        _step(source, t, states, known, made)
    shape = [int(iv.dom.extent.value) for iv in op.axis]
    for out in op.outputs:
        known.setdefault(out, np.zeros(shape, out.dtype.numpy))
    for point in itertools.product((t,), *map(range, shape[1:])):
        where = dict(zip([iv.var for iv in op.axis], point, strict=True))
        for out, value in zip(op.outputs, _element(op, where, known), strict=True):
            known[out][point] = value


def _within(tensor: te.Tensor, states: set[te.Tensor]) -> bool:
    """True if the tensor depends on a state of the scan."""
    return tensor in states or any(_within(source, states) for source in tensor.op.input_tensors)


def _element(op: te.ComputeOp, where: dict[Any, int], known: Mapping[te.Tensor, np.ndarray]) -> list[Any]:
    if not op.is_reduction:
        return [_value(x, where, known) for x in op.body]
    reduce = op.body[0]
    assert isinstance(reduce, tir.Reduce)
    state = [_value(x, where, known) for x in reduce.init or reduce.combiner.identity]
    spans = [range(iv.dom.min.value, iv.dom.min.value + iv.dom.extent.value) for iv in reduce.axis]
    for point in itertools.product(*spans):
        here = {**where, **dict(zip([iv.var for iv in reduce.axis], point, strict=True))}
        if _value(reduce.condition, here, known):
            terms = [_value(x, here, known) for x in reduce.source]
            inner = dict(zip((*reduce.combiner.lhs, *reduce.combiner.rhs), (*state, *terms), strict=True))
            state = [_value(x, inner, known) for x in reduce.combiner.result]
    return state


_compiled: dict[Any, Any] = {}


def _value(x: tir.Expr, where: Mapping[Any, Any], known: Mapping[Any, np.ndarray]) -> Any:
    if x not in _compiled:
        source = _Source()
        text = source.expr(x)
        things = list(source.names)
        scope: dict[str, Any] = {"np": np, "at": at}
        _compiled[x] = eval(f"lambda {', '.join(source.names.values())}: {text}", scope), things
    function, things = _compiled[x]
    return function(*[where[t] if isinstance(t, tir.Var) else known[t] for t in things])
