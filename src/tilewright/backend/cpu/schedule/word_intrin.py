"""The tensor intrinsic of products of words of two numbers of 16 bits (`topi/nn/narrow_attention.py`).

A tile is in matrix registers (AMX), in vectors of pairs of bfloat16, or in vectors of float16 (`half_intrin`).
"""

from __future__ import annotations

from tilewright import te, tir
from tilewright.backend.cpu.schedule import tile
from tilewright.backend.cpu.schedule.half_intrin import half_statements
from tilewright.backend.cpu.schedule.product import half_tile
from tilewright.backend.cpu.schedule.tile_cost import multiplies_tiles
from tilewright.backend.cpu.schedule.tile_intrin import matrix_statements, tile_starts
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.dot_product import SUMS, dot2, half_of


def in_matrix_registers(operands: str, target: Target) -> bool:
    """True if products of these types are in matrix registers."""
    return operands == "bfloat16" and multiplies_tiles(2, target)


def word_intrin(rows: int, columns: int, words: int, operands: str, target: Target) -> te.TensorIntrin:
    """c[i, j] = sum over w < `words` and both halves of data[i, w] * weight[w, j], in float32."""
    size, wide = SUMS[operands]
    data = te.placeholder((rows, words), "int32", name="data")
    weight = te.placeholder((words, columns), "int32", name="weight")
    w, i = te.reduce_axis((0, words), name="w"), te.reduce_axis((0, size), name="half")

    def element(r: tir.Expr, c: tir.Expr) -> tir.Expr:
        left, right = (half_of(x, i.var, operands).astype(wide) for x in (data[r, w], weight[w, c]))
        return te.sum(left * right, axis=[w, i])

    c = te.compute((rows, columns), element, name="tile")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, None, None]:
        (data, weight), (sums,) = ins, outs
        if in_matrix_registers(operands, target):
            return matrix_statements(data, weight, sums, (rows, columns, words), operands), None, None
        if operands == "float16":
            lanes, most = half_tile(columns, target)
            high, starts = tile_starts(rows, most)
            return half_statements(data, weight, sums, (words, lanes), starts, high), None, None
        return _pairs(data, weight, sums, (rows, columns, words), target), None, None

    matrix = "_matrix" if in_matrix_registers(operands, target) else ""
    name = f"words_{rows}x{columns}x{words}_{operands}{matrix}"
    return te.decl_tensor_intrin(c.op, statements, name=name)


def _pairs(
    data: tir.Buffer, weight: tir.Buffer, sums: tir.Buffer, sizes: tuple[int, int, int], target: Target
) -> tir.Stmt:
    """The sums by `dot2` in vectors, tile by tile of rows."""
    rows, columns, words = sizes
    lanes = target.machine.lanes()
    vectors = columns // lanes
    most = next((high for high in range(rows, 1, -1) if tile.fits(high, vectors, target)), 1)
    high, starts = tile_starts(rows, most)
    kept = tir.Buffer("sums", (high * columns,), "float32", "local")
    vectors_at = [(row, vector * lanes) for row in range(high) for vector in range(vectors)]

    def register(row: int, column: int) -> tuple[tir.Expr, ...]:
        return (tir.Ramp(op.const(row * columns + column), op.const(1), lanes),)

    def spread(first: tir.Expr, row: int, w: tir.Expr) -> tir.Expr:
        word = tir.Broadcast(tir.BufferLoad(data, (first + row, w)), lanes)
        return op.call_intrin(f"bfloat16x{2 * lanes}", "reinterpret", word)

    def step(first: tir.Expr, w: tir.Expr, row: int, column: int) -> tir.Stmt:
        lane = tir.Ramp(op.const(column), op.const(1), lanes)
        weights = op.call_intrin(f"bfloat16x{2 * lanes}", "reinterpret", tir.BufferLoad(weight, (w, lane)))
        at = register(row, column)
        return tir.BufferStore(kept, dot2(tir.BufferLoad(kept, at), spread(first, row, w), weights), at)

    def made(first: tir.Expr) -> tir.Stmt:
        w = tir.Var("w", "int32")
        zero = tir.Broadcast(op.const(0, "float32"), lanes)
        zeros = [tir.BufferStore(kept, zero, register(*at)) for at in vectors_at]
        body = tir.seq(*(step(first, w, *at) for at in vectors_at))
        loop = tir.For(w, op.const(0), op.const(words), tir.ForKind.SERIAL, body)
        stores = [
            tir.BufferStore(
                sums,
                tir.BufferLoad(kept, register(row, column)),
                (first + row, tir.Ramp(op.const(column), op.const(1), lanes)),
            )
            for row, column in vectors_at
        ]
        return tir.seq(*zeros, loop, *stores)

    regular, index = sum(start == i * high for i, start in enumerate(starts)), tir.Var("tile", "int32")
    each = tir.For(index, op.const(0), op.const(regular), tir.ForKind.SERIAL, made(index * high))
    return tir.Allocate(kept, tir.seq(each, *(made(op.const(start)) for start in starts[regular:])))
