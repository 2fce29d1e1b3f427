"""block_sums: long sums in blocks, the same result but for rounding, and nothing else touched."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright import build, te
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, IntImm, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, PrimFunc, seq
from tilewright.tir.transform.block_sums import PRODUCT, SUM, block_sums
from tilewright.tir.transform.statements import walk

S, V = ForKind.SERIAL, ForKind.VECTORIZED
K, J, N = Var("k"), Var("j"), Var("n")
LONG = SUM.longest * 5 + 3


def loop(var, extent, body, kind=S):
    return For(var, const(0), op.convert(extent), kind, body)


def update(target, index, term):
    return BufferStore(target, BufferLoad(target, [index]) + term, (index,))


def sums(buffers, body):
    return PrimFunc("f", buffers, body)


def blocks(func):
    return [t.buffer for t in walk(func.body) if isinstance(t, Allocate)]


@pytest.mark.parametrize("extent", [SUM.longest + 1, 96, 97, LONG, 5000])
def test_a_long_sum_is_made_of_blocks(interpret, extent):
    a, c = Buffer("a", [extent * 4]), Buffer("c", [4])
    func = sums([a, c], loop(K, extent, loop(J, 4, update(c, J, BufferLoad(a, [K * 4 + J])), V)))
    made = block_sums(func)
    levels = 1 if extent <= SUM.longest * SUM.block else 2
    assert [b.constant_shape() for b in blocks(made)] == [(4,)] * levels
    assert longest_chain(made) <= SUM.longest
    x = np.random.default_rng(0).integers(-9, 9, extent * 4).astype(np.float32)
    got = np.full(4, 0.5, np.float32)
    interpret(made, x, got)
    np.testing.assert_array_equal(got, x.reshape(-1, 4).sum(0) + 0.5)


def longest_chain(func):
    """The most iterations of a loop that adds to the same element."""
    found = 0
    for each in walk(func.body):
        if isinstance(each, For) and each.kind is S and isinstance(each.extent, IntImm):
            found = max(found, each.extent.value)
    return found


def test_nested_loops_count_together(interpret):
    """Neither loop is long, but both together are; a block is a few iterations of the outer one."""
    i = Var("i")
    a, c = Buffer("a", [20 * 10]), Buffer("c", [1])
    func = sums([a, c], loop(i, 20, loop(K, 10, update(c, const(0), BufferLoad(a, [i * 10 + K])))))
    made = block_sums(func)
    assert len(blocks(made)) == 1 and len([t for t in walk(made.body) if isinstance(t, For)]) == 3
    x, got = np.arange(200, dtype=np.float32), np.zeros(1, np.float32)
    interpret(made, x, got)
    assert got[0] == x.sum()


def test_products_have_longer_blocks():
    a, b, c = Buffer("a", [4096]), Buffer("b", [4096]), Buffer("c", [1])
    for extent in (SUM.longest + 1, PRODUCT.longest, PRODUCT.longest + 1):
        term = BufferLoad(a, [K]) * BufferLoad(b, [K])
        made = block_sums(sums([a, b, c], loop(K, extent, update(c, const(0), term))))
        assert len(blocks(made)) == (extent > PRODUCT.longest)
    square = BufferLoad(a, [K]) * BufferLoad(a, [K])
    assert blocks(block_sums(sums([a, c], loop(K, 100, update(c, const(0), square)))))


def test_a_symbolic_length_is_as_it_was_where_it_is_short(interpret):
    a, c = Buffer("a", [N]), Buffer("c", [1])
    func = PrimFunc("f", [a, c, N], loop(K, N, update(c, const(0), BufferLoad(a, [K]))))
    made = block_sums(func)
    assert isinstance(made.body, IfThenElse) and made.body.then_case is func.body
    for size in (0, 1, SUM.longest, SUM.longest + 1, 3000):
        x, got = np.arange(size, dtype=np.float32) % 7, np.zeros(1, np.float32)
        interpret(made, x, got, size)
        assert got[0] == x.sum()


def test_conditions_on_elements_stay(interpret):
    """Elements beyond a guard belong to nobody: neither their block nor what it is added to may be touched."""
    a, c = Buffer("a", [LONG * 4]), Buffer("c", [3])
    inner = IfThenElse(op.logical_and(J < 3, K < LONG - 2), update(c, J, BufferLoad(a, [K * 4 + J])))
    made = block_sums(sums([a, c], loop(K, LONG, loop(J, 4, inner))))
    assert blocks(made)
    x, got = np.ones(LONG * 4, np.float32), np.zeros(3, np.float32)
    interpret(made, x, got)
    np.testing.assert_array_equal(got, [LONG - 2] * 3)


def _running():
    c, out = Buffer("c", [1]), Buffer("out", [LONG])
    return sums(
        [c, out], loop(K, LONG, seq(update(c, const(0), const(1.0)), BufferStore(out, BufferLoad(c, [const(0)]), (K,))))
    )


def _whole_numbers():
    a, c = Buffer("a", [LONG], "int32"), Buffer("c", [1], "int32")
    return sums([a, c], loop(K, LONG, update(c, const(0), BufferLoad(a, [K]))))


def _elements():
    a, c = Buffer("a", [LONG]), Buffer("c", [LONG])
    return sums([a, c], loop(K, LONG, update(c, K, BufferLoad(a, [K]))))


def _on_workers():
    a, c = Buffer("a", [LONG * 4]), Buffer("c", [4])
    return sums([a, c], loop(K, LONG, loop(J, 4, update(c, J, BufferLoad(a, [K * 4 + J])), ForKind.PARALLEL)))


def _reset():
    a, c = Buffer("a", [LONG]), Buffer("c", [1])
    body = seq(BufferStore(c, const(0.0), (const(0),)), update(c, const(0), BufferLoad(a, [K])))
    return sums([a, c], loop(K, LONG, body))


def _short():
    a, c = Buffer("a", [LONG]), Buffer("c", [1])
    return sums([a, c], loop(K, SUM.longest, update(c, const(0), BufferLoad(a, [K]))))


def _guard_of_both():
    a, c = Buffer("a", [LONG]), Buffer("c", [4])
    inner = IfThenElse(K + J < 8, update(c, J, BufferLoad(a, [K])))
    return sums([a, c], loop(K, LONG, loop(J, 4, inner)))


@pytest.mark.parametrize(
    "make", [_running, _whole_numbers, _elements, _on_workers, _reset, _short, _guard_of_both], ids=lambda f: f.__name__
)
def test_what_is_no_such_sum_is_left_alone(make):
    func = make()
    assert block_sums(func).body is func.body


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_program_without_a_schedule_has_small_errors(target):
    """A plain loop over 10⁶ elements is off by 1 %; in blocks by less than 10⁻⁶ of the sum."""
    x = te.placeholder((10**6,), name="x")
    k = te.reduce_axis((0, 10**6), name="k")
    total = te.compute((1,), lambda i: te.sum(x[k], axis=k), name="total")
    func = te.lower(te.create_schedule(total.op), [x, total], target=Target(target))
    assert blocks(func)
    values, got = np.full(10**6, 0.1, np.float32), np.zeros(1, np.float32)
    build(func)["main"](values, got)
    exact = math.fsum(map(float, values))
    assert abs(got[0] - exact) < 1e-6 * exact
