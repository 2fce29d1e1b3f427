"""Sums over threads by subgroups of every size, run for all threads of a block in step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatchmethod
from typing import Any

import numpy as np
import pytest

from tilewright.tir import expr as e
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import Allocate, BufferStore, IfThenElse, SeqStmt, Stmt
from tilewright.tir.transform.subgroup_reduction import fits_subgroups, subgroup_reduction

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    e.Add: np.add, e.Sub: np.subtract, e.Mul: np.multiply, e.LT: np.less, e.LE: np.less_equal,
}  # fmt: skip


class _Block:
    """Threads in rows of `count`, in subgroups of `size`; a value is an array with an element for each thread."""

    def __init__(self, rows: int, count: int, size: int) -> None:
        self.number, self.size = np.arange(rows * count), size
        self.values: dict[e.Var, Any] = {}
        self.memory: dict[Buffer, np.ndarray] = {}  # of all threads, or [thread, element]

    def run(self, stmt: Stmt, active: Any = True) -> None:
        if isinstance(stmt, SeqStmt):
            for one in stmt.stmts:
                self.run(one, active)
        elif isinstance(stmt, Allocate):
            self.memory[stmt.buffer] = np.full((self.number.size, 1), np.nan, "float32")
            self.run(stmt.body, active)
        elif isinstance(stmt, IfThenElse):
            self.run(stmt.then_case, active & np.broadcast_to(self.value(stmt.condition), self.number.shape))
        else:
            assert isinstance(stmt, BufferStore)
            value = np.broadcast_to(self.value(stmt.value), self.number.shape)
            at = np.broadcast_to(self.value(stmt.indices[0]), self.number.shape)
            for thread in self.number[np.broadcast_to(active, self.number.shape)]:
                row = () if stmt.buffer.scope == "shared" else (thread,)
                self.memory[stmt.buffer][(*row, at[thread])] = value[thread]

    @singledispatchmethod
    def value(self, x: Any) -> Any:
        return _OPERATORS[type(x)](self.value(x.a), self.value(x.b))

    @value.register
    def _(self, x: e.IntImm) -> Any:
        return x.value

    @value.register
    def _(self, x: e.Var) -> Any:
        return self.values[x]

    @value.register
    def _(self, x: e.BufferLoad) -> Any:
        at, memory = self.value(x.indices[0]), self.memory[x.buffer]
        at = np.clip(
            np.broadcast_to(at, self.number.shape), 0, memory.shape[-1] - 1
        )  # of threads that do not take part
        return memory[at] if x.buffer.scope == "shared" else memory[self.number, at]

    @value.register
    def _(self, x: e.Call) -> Any:
        lane = self.number % self.size
        if x.op in ("subgroup_size", "subgroup_lane"):
            return self.size if x.op == "subgroup_size" else lane
        first, second = (self.value(arg) for arg in x.args)
        if x.op == "bitwise_and":
            return first & second
        other = second + (lane if x.op == "subgroup_shuffle_down" else 0)
        reached = (other < self.size) & (self.number - lane + other < self.number.size)
        return np.where(reached, first[np.where(reached, self.number - lane + other, 0)], np.nan)


def _tree(parts: np.ndarray) -> np.ndarray:
    """The sum of each row, the second half of its terms added to the first again and again."""
    while parts.shape[1] > 1:
        half = parts.shape[1] // 2
        parts = parts[:, :half] + parts[:, half:]
    return parts[:, 0]


def _add(mine: Sequence[Buffer], at: Any, others: Sequence[Buffer], there: Any) -> Stmt:
    return BufferStore(mine[0], e.BufferLoad(mine[0], (at,)) + e.BufferLoad(others[0], (there,)), (at,))


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize(("rows", "count"), [(1, 2), (1, 4), (5, 4), (4, 16), (3, 32), (1, 256), (2, 128)])
def test_every_thread_has_the_bits_of_the_tree(rows: int, count: int, size: int) -> None:
    parts = np.random.default_rng(count).standard_normal((rows, count)).astype("float32")
    part, shared = Buffer("part", [1], "float32", "local"), Buffer("parts", [rows * count], "float32", "shared")
    position, first = e.Var("position", "int32"), e.Var("first", "int32")
    block = _Block(rows, count, size)
    block.values = {position: block.number % count, first: block.number - block.number % count}
    block.memory = {part: parts.reshape(-1, 1).copy(), shared: np.full(rows * count, np.nan, "float32")}
    block.run(subgroup_reduction([part], [shared], (position, first, count), _add))
    np.testing.assert_array_equal(block.memory[part].reshape(rows, count), np.repeat(_tree(parts)[:, None], count, 1))


def test_what_subgroups_do_not_combine() -> None:
    part = Buffer("part", [1], "float32", "local")
    assert fits_subgroups([part], 64)
    assert not any(fits_subgroups([part], count) for count in (1, 24))
    assert not fits_subgroups([part, Buffer("found", [1], "bool", "local")], 64)
