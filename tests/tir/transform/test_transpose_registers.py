"""transpose_registers: the same values by whole vectors and shuffles; loops that do not qualify are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr, Ramp, Shuffle, Var
from tilewright.tir.op import const, maximum
from tilewright.tir.stmt import BufferStore, For, ForKind, LetStmt, PrimFunc
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.transpose_registers import transpose_registers
from tilewright.tir.verify import verify
from tilewright.tir.visitor import collect

PITCH = 20
A, B, C = Buffer("a", [16 * PITCH]), Buffer("b", [16]), Buffer("c", [16 * PITCH])
I = Var("i")


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
