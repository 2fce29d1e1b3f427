"""The tensor intrinsic of int8 and bfloat16 kernels: a vector of sums takes dot products with a panel of weights."""

from __future__ import annotations

import functools

from tilewright import te, tir
from tilewright.tir import op
from tilewright.tir.dot_product import SUMS, dot2, dot4
from tilewright.tir.matrix_tiles import PRODUCTS, ROW_BYTES, ROWS, tile_load, tile_product, tile_store, tile_zero
from tilewright.tir.tensor_core import integer


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


def tile_intrin(rows: int, columns: int, depth: int, data_dtype: str, weight_dtype: str) -> te.TensorIntrin:
    """c[i, j] = sum over k < `depth` of data[i, k] * weight[k / g, j, k % g] in matrix registers (AMX).

    `rows` are up to 16, or up to 32 and even, `columns` 16 or 32, a row of `depth` whole lines of 64 bytes; g elements
    have 4 bytes.
    """
    size, wide = SUMS[data_dtype]
    data = te.placeholder((rows, depth), data_dtype, name="data")
    weight = te.placeholder((depth // size, columns, size), weight_dtype, name="weight")
    outer, inner = te.reduce_axis((0, depth // size), "outer"), te.reduce_axis((0, size), "inner")

    def element(i: tir.Expr, j: tir.Expr) -> tir.Expr:
        return te.sum(
            data[i, outer * size + inner].astype(wide) * weight[outer, j, inner].astype(wide), axis=[outer, inner]
        )

    c = te.compute((rows, columns), element, name="tile")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, None, None]:
        (data, weight), (sums,) = ins, outs
        return _tile_statements(data, weight, sums, PRODUCTS[data_dtype, weight_dtype]), None, None

    return te.decl_tensor_intrin(c.op, statements, name=f"tile_{rows}x{columns}x{depth}_{data_dtype}_{weight_dtype}")


def _tile_statements(data: tir.Buffer, weight: tir.Buffer, sums: tir.Buffer, kind: str) -> tir.Stmt:
    """Registers of sums, then of data and of weights; a step of the depth is one row of a register."""
    rows, columns = map(integer, sums.shape)
    down, across = range(-(-rows // ROWS)), range(columns // ROWS)
    high = rows // len(down)
    left, right = len(down) * len(across), len(down) * (len(across) + 1)
    step, k = ROW_BYTES // data.dtype.itemsize, tir.Var("k", "int32")

    def sum_of(i: int, j: int) -> int:
        return i * len(across) + j

    def first_two(buffer: tir.Buffer, row: tir.Expr, *others: tir.Expr) -> tuple[tir.BufferLoad, tir.BufferLoad]:
        """The elements that a register's rows begin with, of the first row and of the second if there is one."""
        following = row + op.const(min(1, rows - 1)) if buffer is not weight else row + op.const(1)
        return tir.BufferLoad(buffer, (row, *others)), tir.BufferLoad(buffer, (following, *others))

    def corner(i: int, j: int) -> tuple[tir.BufferLoad, tir.BufferLoad]:
        return first_two(sums, op.const(high * i), op.const(ROWS * j))

    zero = op.const(0)
    loads = [tile_load(left + i, high, *first_two(data, op.const(high * i), k * step)) for i in down]
    loads += [tile_load(right + j, ROWS, *first_two(weight, k * ROWS, op.const(ROWS * j), zero)) for j in across]
    products = [tile_product(sum_of(i, j), left + i, right + j, kind) for i in down for j in across]
    steps = integer(data.shape[1]) // step
    loop = tir.For(k, op.const(0), op.const(steps), tir.ForKind.SERIAL, tir.seq(*loads, *products))
    return tir.seq(
        *(tile_zero(sum_of(i, j), high) for i in down for j in across),
        loop,
        *(tile_store(sum_of(i, j), high, *corner(i, j)) for i in down for j in across),
    )
