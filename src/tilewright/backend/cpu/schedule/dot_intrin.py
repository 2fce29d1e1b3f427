"""The tensor intrinsic of int8 and bfloat16 kernels: a vector of sums takes dot products with a panel of weights."""

from __future__ import annotations

import functools

from tilewright import te, tir
from tilewright.tir import op
from tilewright.tir.dot_product import SUMS, dot2, dot4


@functools.cache
def dot_16x1x16_uint8_int8_int32() -> te.TensorIntrin:
    """`dot_intrin` of 16 lanes, unsigned data and signed weights: one instruction with AVX-512 VNNI."""
    return dot_intrin(16, "uint8", "int8")


@functools.cache
def dot_intrin(
    lanes: int, data_dtype: str = "uint8", weight_dtype: str = "int8", in_pairs: bool = False
) -> te.TensorIntrin:
    """c[i] += sum over k < 4 of data[k] * weight[i, k], for `lanes` values of i, in int32.

    Of bfloat16 k < 2, in float32; of data of int16 too, whose weights are widened. The elements of `data` lie side by
    side, as do those of `weight`, [lanes, 4]; `c` is one vector. `in_pairs` says that sums of two neighbouring products
    fit 16 bits.
    """
    size, wide = SUMS[data_dtype]
    data = te.placeholder((size,), data_dtype, name="data")
    weight = te.placeholder((lanes, size), weight_dtype, name="weight")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((lanes,), lambda i: te.sum(data[k].astype(wide) * weight[i, k].astype(wide), axis=k), name="dot")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, tir.Stmt, tir.Stmt]:
        (few, panel), (sums,) = ins, outs
        lane = tir.Ramp(op.const(0), op.const(1), lanes)
        group = tir.Ramp(op.const(0), op.const(1), size)
        word = op.call_intrin("int32", "reinterpret", tir.BufferLoad(few, (group,)))
        spread = op.call_intrin(f"{data_dtype}x{size * lanes}", "reinterpret", tir.Broadcast(word, lanes))
        weights = tir.BufferLoad(panel, (op.const(0), tir.Ramp(op.const(0), op.const(1), size * lanes)))
        zero = tir.Broadcast(op.const(0, wide), lanes)

        def store(start: tir.Expr) -> tir.Stmt:
            if size == 2:
                added = dot2(start, spread, weights.astype(f"{data_dtype}x{size * lanes}"))
            else:
                added = dot4(start, spread, weights, in_pairs)
            return tir.BufferStore(sums, added, (lane,))

        return store(zero), tir.BufferStore(sums, zero, (lane,)), store(tir.BufferLoad(sums, (lane,)))

    name = f"dot_{lanes}x1x{lanes}_{data_dtype}_{weight_dtype}_{wide}" + ("_in_pairs" if in_pairs else "")
    return te.decl_tensor_intrin(c.op, statements, name=name)
