"""transpose_registers: the same values by whole vectors and shuffles; loops that do not qualify are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr, Ramp, Shuffle, Var
from tilewright.tir.op import broadcast, const, if_then_else, maximum
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.transpose_registers import transpose_registers
from tilewright.tir.verify import verify
from tilewright.tir.visitor import collect

PITCH = 20
A, B, C = Buffer("a", [16 * PITCH]), Buffer("b", [16]), Buffer("c", [16 * PITCH])
D = Buffer("d", [16 * PITCH])
I, N = Var("i"), Var("n")


def transposing(rows: int, lanes: int, source: Buffer = A, first: int = 0, stride: int = PITCH) -> PrimFunc:
    """`for i in range(first, rows)`: one vector of `c` from a column of `a`, with b[i] added and negatives cut off."""
    column: Expr = BufferLoad(source, [Ramp(I + 2, const(stride), lanes)])
    value = maximum(column + BufferLoad(B, [I]), const(0.0))
    store = BufferStore(C, value, (Ramp(I * lanes, const(1), lanes),))
    loop = For(I, const(first), const(rows), ForKind.SERIAL, store)
    return PrimFunc("f", [A, B, C], loop)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("rows", [4, 7, 8, 12, 15, 16])
@pytest.mark.parametrize("first", [0, 1])
def test_equals_the_loop(interpret, rows, lanes, first):
    generator = np.random.default_rng(rows * lanes)
    a, b = (generator.standard_normal(int(n), dtype=np.float32) for n in (A.shape[0].value, 16))
    before = transposing(rows - first, lanes, first=first)
    after = transpose_registers(before)
    verify(after)
    results = [np.zeros(A.shape[0].value, np.float32) for _ in range(2)]
    interpret(before, a, b, results[0])
    interpret(after, a, b, results[1])
    np.testing.assert_array_equal(*results)
    assert np.any(results[0])
    if rows - first >= 4:
        assert not any(isinstance(s, For) for s in walk(after.body))
        assert collect(after.body, Shuffle)


def test_four_by_four_takes_two_rounds_of_shuffles():
    lets = [s.value for s in walk(transpose_registers(transposing(4, 4)).body) if isinstance(s, LetStmt)]
    loads, shuffles = lets[:4], lets[4:]
    assert [load.indices[0].base.value for load in loads] == [2, 2 + PITCH, 2 + 2 * PITCH, 2 + 3 * PITCH]
    assert [s.indices for s in shuffles] == [(0, 4, 1, 5), (2, 6, 3, 7)] * 4


@pytest.mark.parametrize(
    "func",
    [
        transposing(3, 16),  # too few rows
        transposing(16, 16, stride=1),  # rows already
        transposing(16, 16, source=C),  # reads what it writes
        transposing(16, 32),  # longer than the vectors that are shuffled
    ],
)
def test_other_loops_stay(func):
    assert transpose_registers(func).body is func.body


def test_sides_of_a_choice_load_nothing_for_each_other(interpret):
    """`a` ends where the other side begins to read: beside a concatenation lies no memory."""
    columns = [BufferLoad(buffer, [Ramp(I + N * 4, const(PITCH), 4)]) for buffer in (A, D)]
    store = BufferStore(C, if_then_else(N < 1, *columns), (Ramp(I * 4, const(1), 4),))
    loop = For(N, const(0), const(2), ForKind.SERIAL, For(I, const(0), const(4), ForKind.SERIAL, store))
    after = transpose_registers(PrimFunc("f", [A, D, C], loop))
    verify(after)
    (choice,) = [s for s in walk(after.body) if isinstance(s, IfThenElse)]
    for side, source in ((choice.then_case, A), (choice.else_case, D)):
        assert {load.buffer for load in collect(side, BufferLoad)} == {source} and collect(side, Shuffle)


def test_a_guarded_load_inside_a_sum_stays_where_it_is():
    column = BufferLoad(A, [Ramp(I + 2, const(PITCH), 4)])
    guarded = if_then_else(I < 2, column, broadcast(const(0.0), 4)) + BufferLoad(D, [Ramp(I, const(PITCH), 4)])
    store = BufferStore(C, guarded, (Ramp(I * 4, const(1), 4),))
    after = transpose_registers(PrimFunc("f", [A, D, C], For(I, const(0), const(4), ForKind.SERIAL, store)))
    verify(after)
    loaded = [s.value.buffer for s in walk(after.body) if isinstance(s, LetStmt) and isinstance(s.value, BufferLoad)]
    assert loaded == [D] * 4
