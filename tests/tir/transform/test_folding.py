"""Rebuilding with folding: constants merge in sums, unchanged expressions stay the same object."""

from __future__ import annotations

import random

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Ramp, Shuffle, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, seq
from tilewright.tir.transform.folding import FoldingRewriter, fold_add, fold_subtract, substitute_var

I, J, X = Var("i"), Var("j"), Var("x", "float32")


def rebuilt(node, known):
    rewriter = FoldingRewriter()
    rewriter.memo.update(known)
    return rewriter.rebuild(node)


def test_integer_constants_are_merged_on_the_right():
    assert fold_add(I + 3, const(4)) is I + 7
    assert fold_add(const(4), I) is I + 4
    assert fold_add(I + 3, J + 4) is (I + J) + 7
    assert fold_add(I, J + 4) is (I + J) + 4
    assert fold_subtract(I + 3, const(3)) is I


def test_float_sums_keep_their_order():
    assert fold_add(X + 3.0, const(4.0)) is (X + 3.0) + 4.0


def test_random_integer_sums_keep_their_value():
    rng = random.Random(1)
    for _ in range(200):
        x, expected = I, 10
        for _ in range(rng.randint(1, 6)):
            number, join = rng.randint(-9, 9), rng.choice([fold_add, fold_subtract])
            x = join(x, const(number))
            expected += number if join is fold_add else -number
        value = rebuilt(x, {I: const(10)}) if x is not I else const(10)
        assert value is const(expected)


def test_every_kind_of_node_is_kept_or_rebuilt():
    a = Buffer("a", [8])
    condition = I < J
    nodes = [
        I + J, I * J, I // J, I % J, op.minimum(I, J), condition, op.logical_not(condition), op.all(condition, J < I),
        e.Cast("float32", I), e.Select(condition, I, J), e.Let(J, I, J + I), Ramp(I, J, 4), e.Broadcast(I, 4),
        Shuffle([I, J], [1, 0]), BufferLoad(a, [I]), op.if_then_else(condition, I, J),
        op.likely(condition),
    ]  # fmt: skip
    k = Var("k")
    for node in nodes:
        assert rebuilt(node, {}) is node
        changed = rebuilt(node, {condition: k < J, I: k})
        assert changed is not node and type(changed) is type(node) and changed.dtype is node.dtype


def test_decided_conditions_pick_their_side():
    condition = I < J
    true = {condition: const(True)}
    assert rebuilt(op.if_then_else(condition, I, J), true) is I
    assert rebuilt(e.Select(condition, I, J), true) is I
    assert rebuilt(op.likely(condition), true) is const(True)


def test_substitute_var_folds_in_statements():
    a, n = Buffer("a", [8]), Var("n")
    store = BufferStore(a, const(1.0), (I,))
    loop = For(I, const(0), n, ForKind.SERIAL, IfThenElse(n > I, seq(store, store)))
    assert substitute_var(loop, Var("other"), const(1)) is loop
    result = substitute_var(loop.body, I, const(3))
    assert result.condition is (n > 3)
    assert result.then_case.stmts[0].indices == (const(3),)
    assert substitute_var(loop, n, const(8)).extent is const(8)
