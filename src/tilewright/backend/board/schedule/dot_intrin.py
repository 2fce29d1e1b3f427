"""The tensor intrinsic of products of pairs: a sum takes the products of two words of an image with one of weights."""

from __future__ import annotations

import functools

from tilewright import te, tir
from tilewright.tir import op
from tilewright.topi.nn.byte_conv import dot, weights_of_side


@functools.cache
def dot_intrin(form: str) -> te.TensorIntrin:
    """c += the products of both sides of a word of weights with the two words of data that meet them."""
    data = te.placeholder((2,), "int32", name="data")
    weight = te.placeholder((1,), "int32", name="weight")
    side = te.reduce_axis((0, 2), "side")
    c = te.compute(
        (1,), lambda i: te.sum(dot(data[side], weights_of_side(weight[i], side, form)), axis=side), name="dot"
    )

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, tir.Stmt, tir.Stmt]:
        (words, panel), (sums,) = ins, outs
        zero = op.const(0)

        def store(start: tir.Expr) -> tir.Stmt:
            for at in (0, 1):
                weights = weights_of_side(tir.BufferLoad(panel, (zero,)), op.const(at), form)
                start = dot(tir.BufferLoad(words, (op.const(at),)), weights, start)
            return tir.BufferStore(sums, start, (zero,))

        return store(zero), tir.BufferStore(sums, zero, (zero,)), store(tir.BufferLoad(sums, (zero,)))

    return te.decl_tensor_intrin(c.op, statements, name=f"dot_{form}")
