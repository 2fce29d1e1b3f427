"""Random programs, compiled, do what an interpreter does: what is hoisted, shared or forgotten must not show.

The programs nest loops, branches, lets and stores over a few small buffers, and take their expressions from a pool, so
that the same expression is met again before and after stores that change its value.
"""

from __future__ import annotations

import operator
import random
from typing import Any

import numpy as np
import pytest

from tilewright.backend import build
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir import stmt as s
from tilewright.tir.buffer import Buffer

SIZE, LANES = 16, 4
BINARY = {
    e.Add: operator.add,
    e.Sub: operator.sub,
    e.Mul: operator.mul,
    e.FloorDiv: operator.floordiv,
    e.FloorMod: operator.mod,
    e.Min: np.minimum,
    e.Max: np.maximum,
    e.LT: operator.lt,
    e.EQ: operator.eq,
}


class Interpreter:
    """Runs loop IR on NumPy int32 arrays."""

    def __init__(self, memory: dict[Buffer, np.ndarray]) -> None:
        self.memory, self.values = memory, dict[Any, Any]()

    def expr(self, x: Any) -> Any:
        kind = type(x)
        if kind in BINARY:
            with np.errstate(over="ignore"):
                return BINARY[kind](self.expr(x.a), self.expr(x.b))
        if kind is e.IntImm:
            return np.int32(x.value)
        if kind is e.Var:
            return self.values[x]
        if kind is e.BufferLoad:
            return self.memory[x.buffer][self.expr(x.indices[0])]
        if kind is e.Ramp:
            return self.expr(x.base) + self.expr(x.stride) * np.arange(x.lanes, dtype="i4")
        if kind is e.Broadcast:
            return np.full(x.lanes, self.expr(x.value))
        if kind is e.Let:
            self.values[x.var] = self.expr(x.value)
            return self.expr(x.body)
        condition, true, false = x.fields() if kind is e.Select else x.args
        return self.expr(true if self.expr(condition) else false)

    def stmt(self, x: Any) -> None:
        kind = type(x)
        if kind is s.SeqStmt:
            for part in x.stmts:
                self.stmt(part)
        elif kind is s.BufferStore:
            value = self.expr(x.value)
            self.memory[x.buffer][self.expr(x.indices[0])] = value
        elif kind is s.For:
            low, extent = self.expr(x.min), self.expr(x.extent)
            for i in range(int(low), int(low + extent)):
                self.values[x.var] = np.int32(i)
                self.stmt(x.body)
        elif kind is s.LetStmt:
            self.values[x.var] = self.expr(x.value)
            self.stmt(x.body)
        elif kind is s.IfThenElse:
            chosen = x.then_case if self.expr(x.condition) else x.else_case
            if chosen is not None:
                self.stmt(chosen)
        else:  # Allocate
            self.stmt(x.body)


class Generator:
    """Makes random programs; `scope` holds the variables and expressions in reach."""

    def __init__(self, seed: int, buffers: list[Buffer]) -> None:
        self.random, self.buffers = random.Random(seed), buffers
        self.scope: list[list[e.Expr]] = [[op.const(1), op.const(5)]]
        self.vars = [e.Var(f"v{k}") for k in range(4)]
        self.loops = [e.Var(f"i{k}") for k in range(4)]

    def pick(self) -> e.Expr:
        return self.random.choice(self.random.choice([level for level in self.scope if level]))

    def index(self, span: int = SIZE) -> e.Expr:
        return op.floormod(self.expr(1), span) if self.random.random() < 0.6 else op.const(self.random.randrange(span))

    def expr(self, depth: int = 2) -> e.Expr:
        made = self._expr(depth)
        self.scope[-1].append(made)
        return made

    def _expr(self, depth: int) -> e.Expr:
        choice = self.random.random()
        if depth == 0 or choice < 0.25:
            return self.pick()
        if choice < 0.5:
            return e.BufferLoad(self.random.choice(self.buffers), (self.index(),))
        a, b = self.expr(depth - 1), self.expr(depth - 1)
        if choice < 0.8:
            return self.random.choice([op.add, op.subtract, op.multiply, op.minimum, op.maximum])(a, b)
        if choice < 0.86:
            return self.random.choice([op.floordiv, op.floormod])(a, self.random.choice([2, 3, 8]))
        condition = self.random.choice([op.less, op.eq])(a, b)
        if choice < 0.92:
            return op.select(condition, a, b)
        self.scope.append([])
        guarded = [self.expr(depth - 1), self.expr(depth - 1)]
        self.scope.pop()
        return op.if_then_else(condition, *guarded)

    def store(self) -> s.Stmt:
        target = self.random.choice(self.buffers)
        if self.random.random() < 0.7:
            return s.BufferStore(target, self.expr(), (self.index(),))
        stride = self.random.choice([1, 1, 2, 3])
        source, position = (
            e.Ramp(self.index(SIZE - 3 * t), op.const(t), LANES) for t in (self.random.choice([1, 2]), stride)
        )
        value = e.BufferLoad(self.random.choice(self.buffers), (source,)) + e.Broadcast(self.expr(), LANES)
        return s.BufferStore(target, value, (position,))

    def block(self, depth: int) -> s.Stmt:
        self.scope.append([])
        made = s.seq(*[self.stmt(depth) for _ in range(self.random.randint(1, 4))])
        self.scope.pop()
        return made

    def stmt(self, depth: int) -> s.Stmt:
        choice = self.random.random()
        if depth == 0 or choice < 0.4:
            return self.store()
        if choice < 0.7:
            return self.loop(depth)
        if choice < 0.85:
            condition = op.less(self.expr(), self.expr())
            other = self.block(depth - 1) if self.random.random() < 0.5 else None
            return s.IfThenElse(condition, self.block(depth - 1), other)
        var, value = self.vars[depth], self.expr()
        self.scope.append([var])
        body = self.block(depth - 1)
        self.scope.pop()
        repeated = s.LetStmt(var, self.expr(), body)  # as unrolling does: the same body under another value
        return s.seq(s.LetStmt(var, value, body), repeated)

    def loop(self, depth: int) -> s.Stmt:
        var = self.loops[depth]
        low: e.Expr = op.const(self.random.randrange(3))
        extent = op.const(self.random.randrange(4)) if self.random.random() < 0.7 else op.floormod(self.expr(), 4)
        self.scope.append([var])
        body = self.block(depth - 1)
        self.scope.pop()
        return s.For(var, low, extent, s.ForKind.SERIAL, body)


@pytest.mark.parametrize("first", range(0, 120, 10))
@pytest.mark.sample(4)
def test_compiled_programs_do_what_the_interpreter_does(first):
    funcs, buffers = [], []
    for seed in range(first, first + 10):
        params = [Buffer(name, (SIZE,), "int32") for name in "xyz"]
        local = Buffer("local", (SIZE,), "int32", "local")
        body = Generator(seed, [*params, local]).block(3)
        clear = [s.BufferStore(local, op.const(k), (op.const(k),)) for k in range(SIZE)]
        attrs = {"noalias": bool(seed % 3)}
        funcs.append(s.PrimFunc(f"f{seed}", params, s.Allocate(local, s.seq(*clear, body)), attrs))
        buffers.append([*params, local])
    module = build(funcs, threads=1)
    for func, used in zip(funcs, buffers, strict=True):
        start = np.random.default_rng(0).integers(-9, 9, (3, SIZE), dtype="i4")
        expected = {buffer: row.copy() for buffer, row in zip(used, [*start, np.arange(SIZE, dtype="i4")], strict=True)}
        Interpreter(expected).stmt(func.body)
        module[func.name](*start)
        for buffer, row in zip(func.params, start, strict=True):
            np.testing.assert_array_equal(row, expected[buffer], f"{func.name}: {buffer.name}\n{func}")
