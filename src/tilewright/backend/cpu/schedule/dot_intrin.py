"""The tensor intrinsic of int8 kernels: a vector of sums takes dot products of four bytes with a panel of weights."""

from __future__ import annotations

import functools

from tilewright import te, tir
from tilewright.tir import op
from tilewright.tir.dot_product import GROUP, dot4


@functools.cache
def dot_16x1x16_uint8_int8_int32() -> te.TensorIntrin:
    """`dot_intrin` of 16 lanes, unsigned data and signed weights: one instruction with AVX-512 VNNI."""
    return dot_intrin(16, "uint8", "int8")


@functools.cache
def dot_intrin(
    lanes: int, data_dtype: str = "uint8", weight_dtype: str = "int8", in_pairs: bool = False
) -> te.TensorIntrin:
    """c[i] += sum over k < 4 of data[k] * weight[i, k], for `lanes` values of i, in int32.

    The four elements of `data` lie side by side, as do the bytes of `weight`, [lanes, 4]; `c` is one vector.
    `in_pairs` says that sums of two neighbouring products fit 16 bits.
    """
    data = te.placeholder((GROUP,), data_dtype, name="data")
    weight = te.placeholder((lanes, GROUP), weight_dtype, name="weight")
    k = te.reduce_axis((0, GROUP), "k")
    c = te.compute(
        (lanes,), lambda i: te.sum(data[k].astype("int32") * weight[i, k].astype("int32"), axis=k), name="dot"
    )

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, tir.Stmt, tir.Stmt]:
        (four, panel), (sums,) = ins, outs
        lane = tir.Ramp(op.const(0), op.const(1), lanes)
        group = tir.Ramp(op.const(0), op.const(1), GROUP)
        word = op.call_intrin("int32", "reinterpret", tir.BufferLoad(four, (group,)))
        spread = op.call_intrin(f"{data_dtype}x{GROUP * lanes}", "reinterpret", tir.Broadcast(word, lanes))
        weights = tir.BufferLoad(panel, (op.const(0), tir.Ramp(op.const(0), op.const(1), GROUP * lanes)))
        zero = tir.Broadcast(op.const(0), lanes)

        def store(start: tir.Expr) -> tir.Stmt:
            return tir.BufferStore(sums, dot4(start, spread, weights, in_pairs), (lane,))

        return store(zero), tir.BufferStore(sums, zero, (lane,)), store(tir.BufferLoad(sums, (lane,)))

    name = f"dot_{lanes}x1x{lanes}_{data_dtype}_{weight_dtype}_int32" + ("_in_pairs" if in_pairs else "")
    return te.decl_tensor_intrin(c.op, statements, name=name)
