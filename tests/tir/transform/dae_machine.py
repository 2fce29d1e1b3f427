"""A decoupled access-execute machine: a load, a compute and a store unit, each in order, joined by nothing but tokens.

A program is a lowered function. Its instructions are the statements under the attribute "coproc_scope"; `dma` below is
the copy intrinsic. `execute` runs them in any order that the tokens allow; `simulate` says how long the machine takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir import stmt as s
from tilewright.tir.buffer import Buffer
from tilewright.tir.evaluate import evaluate, interpret
from tilewright.tir.transform.inject_copy_intrin import CopyRegion
from tilewright.tir.visitor import collect

NAMES = {1: "load", 2: "compute", 3: "store"}


def dma(source: CopyRegion, target: CopyRegion, before: Any, after: Any, padding: Any) -> s.Stmt:
    """The copy intrinsic: to memory outside of the chip by the store unit, to memory on it by the load unit."""
    unit = 3 if target.buffer.scope == "global" else 1
    sizes = [x for part in (source.shape, target.strides, source.strides, before, after) for x in part]
    value = op.const(0.0) if padding is None else padding
    pointers = (target.access_ptr("w"), source.access_ptr("r"))
    call = op.call_extern("int32", "dma", *pointers, op.const(len(source.shape)), value, *sizes)
    return s.AttrStmt("coproc_scope", None, op.const(unit), s.Evaluate(call))


@dataclass
class Instruction:
    """A statement that a unit runs, or a token that it pushes or pops."""

    unit: int
    kind: str  # "run", "dep_push", "dep_pop"
    queue: tuple[int, int]
    action: Callable[[], None]
    work: int  # elements stored


class Deadlock(Exception):
    """Every unit waits, or tokens are left at the end."""


class Machine:
    """The instructions of `func` on `arrays`, one for each of its parameters; memory on the chip starts as NaN."""

    def __init__(self, func: s.PrimFunc, *arrays: np.ndarray) -> None:
        self.memory: dict[Buffer, np.ndarray] = dict(zip(func.params, arrays, strict=True))  # type: ignore[arg-type]
        self.program = list(self._unfold(func.body, {}))

    # ------------------------------------------------------------------------------------------------- unfolding
    def _unfold(self, stmt: s.Stmt, env: dict[e.Var, int]) -> Iterator[Instruction]:
        if isinstance(stmt, s.SeqStmt):
            for part in stmt.stmts:
                yield from self._unfold(part, env)
        elif isinstance(stmt, s.For):
            low = evaluate(stmt.min, env)
            for i in range(low, low + evaluate(stmt.extent, env)):
                yield from self._unfold(stmt.body, {**env, stmt.var: i})
        elif isinstance(stmt, s.Allocate):
            shape = stmt.buffer.constant_shape()
            self.memory.setdefault(stmt.buffer, np.full(shape, np.nan, stmt.buffer.dtype.numpy))
            yield from self._unfold(stmt.body, env)
        elif isinstance(stmt, s.IfThenElse):
            taken = stmt.then_case if evaluate(stmt.condition, env) else stmt.else_case
            yield from () if taken is None else self._unfold(taken, env)
        elif isinstance(stmt, s.AttrStmt) and stmt.key == "coproc_scope":
            yield self._instruction(stmt, env)
        else:
            assert isinstance(stmt, s.Evaluate) and isinstance(stmt.value, e.Call), stmt
            first, second = (a.value for a in stmt.value.args)
            unit = first if stmt.value.op == "dep_push" else second
            yield Instruction(unit, stmt.value.op, (first, second), lambda: None, 0)

    def _instruction(self, stmt: s.AttrStmt, env: dict[e.Var, int]) -> Instruction:
        body, unit = stmt.body, stmt.value.value
        if isinstance(body, s.Evaluate):
            call = body.value
            work = int(np.prod([evaluate(x, env) for x in call.args[5 : 5 + call.args[3].value]]))
            return Instruction(unit, "run", (0, 0), lambda: self._dma(call, env), work)
        nodes = collect(body, s.BufferStore, e.BufferLoad)
        buffers = list(dict.fromkeys(x.buffer for x in nodes))
        func = s.PrimFunc("instruction", [*buffers, *env], body)
        work, inner = 1, body
        while isinstance(inner, s.For):
            work, inner = work * inner.extent.value, inner.body
        arrays = [self.memory[b] for b in buffers]
        return Instruction(unit, "run", (0, 0), lambda: interpret(func, *arrays, *env.values()), work)

    def _dma(self, call: e.Call, env: dict[e.Var, int]) -> None:
        _, target, source, rank, value, *rest = call.args
        n = rank.value
        shape, to, of, before, after = np.array([evaluate(x, env) for x in rest]).reshape(5, n)
        whole = self._window(target, shape + before + after, to, env)
        whole[...] = evaluate(value, env)
        inside = tuple(slice(b, b + k) for b, k in zip(before, shape, strict=True))
        if shape.all():
            whole[inside] = self._window(source, shape, of, env)

    def _window(self, pointer: Any, shape: np.ndarray, strides: np.ndarray, env: dict[e.Var, int]) -> np.ndarray:
        load = pointer.args[1]
        array = self.memory[load.buffer]
        start = [evaluate(i, env) for i in load.indices]
        for i, n, size in zip(start, [evaluate(x, env) for x in pointer.args[2:]], array.shape, strict=True):
            assert n == 0 or 0 <= i <= i + n <= size, f"{load.buffer.name}{start} and on"
        flat = array.reshape(-1)[np.ravel_multi_index(start, array.shape) if shape.all() else 0 :]
        return np.lib.stride_tricks.as_strided(flat, tuple(shape), tuple(strides * array.itemsize))

    # ------------------------------------------------------------------------------------------------- execution
    def execute(self, choose: Callable[[list[int]], int]) -> None:
        """Run everything; `choose` picks, among the units whose next instruction may run, the one to go on."""
        waiting = {u: [i for i in self.program if i.unit == u] for u in NAMES}
        tokens: Counter[tuple[int, int]] = Counter()
        position = dict.fromkeys(NAMES, 0)
        while any(position[u] < len(waiting[u]) for u in NAMES):
            heads = {u: waiting[u][position[u]] for u in NAMES if position[u] < len(waiting[u])}
            ready = [u for u, i in heads.items() if i.kind != "dep_pop" or tokens[i.queue]]
            if not ready:
                raise Deadlock(f"units wait for tokens: {heads}")
            unit = choose(ready)
            position[unit] += 1
            heads[unit].action()
            tokens[heads[unit].queue] += {"dep_push": 1, "dep_pop": -1, "run": 0}[heads[unit].kind]
        if any(tokens.values()):
            raise Deadlock(f"tokens are left: {tokens}")

    def simulate(self, latency: Callable[[Instruction], int]) -> tuple[int, dict[str, float]]:
        """Cycles of the whole program, and the share of them that each unit is busy, by its name."""
        free, busy = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
        tokens: dict[tuple[int, int], list[int]] = {}
        for i in self.program:  # the order of the program keeps every push before its pop
            if i.kind == "run":
                busy[i.unit] += latency(i)
                free[i.unit] += latency(i)
            elif i.kind == "dep_push":
                tokens.setdefault(i.queue, []).append(free[i.unit])
            else:
                free[i.unit] = max(free[i.unit], tokens[i.queue].pop(0))
        cycles = max(free.values())
        return cycles, {NAMES[u]: busy[u] / cycles for u in NAMES}


def priority(order: tuple[int, ...]) -> Callable[[list[int]], int]:
    """Always the first unit of `order` that may go on: it runs ahead as far as tokens let it."""
    return lambda ready: next(u for u in order if u in ready)


def at_random(seed: int) -> Callable[[list[int]], int]:
    """Any unit that may go on."""
    return Random(seed).choice
