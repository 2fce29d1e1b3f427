"""Rebuilding with folding: constants merge in sums, unchanged expressions stay the same object."""

from __future__ import annotations

import random

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Ramp, Shuffle, Var
from tilewright.tir.op import const
from tilewright.tir.transform.folding import fold_add, fold_subtract, map_children

I, J, X = Var("i"), Var("j"), Var("x", "float32")


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
        value = map_children(x, lambda y: const(10) if y is I else y) if x is not I else const(10)
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
        assert map_children(node, lambda x: x) is node
        changed = map_children(node, lambda x: k if x is I else (k < J) if x is condition else x)
        assert changed is not node and type(changed) is type(node) and changed.dtype is node.dtype


def test_decided_conditions_pick_their_side():
    def decide(x):
        return const(True) if x is condition else x

    condition = I < J
    assert map_children(op.if_then_else(condition, I, J), decide) is I
    assert map_children(e.Select(condition, I, J), decide) is I
    assert map_children(op.likely(condition), decide) is const(True)
