"""The tensor intrinsic of products with codes in matrix registers (AMX): sums of one block for a tile of rows.

codes of the block to bytes: [block / 4, panel, 4], in a buffer of this call
for each chunk of up to 64 of the block
  for each vector of columns: load weights
    for each digit: load data, add their product to sums[digit, vector]
store all sums
"""

from __future__ import annotations

import functools

from tilewright import te, tir
from tilewright.tir import op
from tilewright.tir.dot_product import GROUP
from tilewright.tir.matrix_tiles import (
    PRODUCTS,
    REGISTERS,
    ROW_BYTES,
    ROWS,
    tile_load,
    tile_product,
    tile_store,
    tile_zero,
)
from tilewright.topi.nn.dense_blockwise import codes_of_step, products_of_fields
from tilewright.topi.reference.blockwise import step_of


def tile_heights(digits: int, panel: int) -> list[int]:
    """Registers of rows side by side that leave one for data and one for weights, the most first."""
    across = panel // ROWS
    return [high for high in (2, 1) if high * digits * across + 2 <= REGISTERS]


@functools.cache
def code_tile(rows: int, panel: int, steps: int, bits: int, digits: int) -> te.TensorIntrin:
    """c[r, d, i] = sum over t, k of the products of the codes of step t of column i and digit d of row r's data.

    `rows` are those of one register or two, `panel` 16 or 32; a block is a divisor or a multiple of 64 deep.
    """
    held, fields = step_of(bits)
    data = [te.placeholder((rows, digits, steps, GROUP), "int8", name=f"data{field}") for field in range(fields)]
    shape = ((steps - 1) * held + 1, panel, GROUP)
    weights = [te.placeholder(shape, "uint8", name=f"weight{row}") for row in range(held)]
    step, byte = te.reduce_axis((0, steps), "step"), te.reduce_axis((0, GROUP), "byte")

    def element(r: tir.Expr, d: tir.Expr, i: tir.Expr) -> tir.Expr:
        stored = [row[step * held, i, byte] for row in weights]
        values = [four[r, d, step, byte] for four in data]
        return te.sum(products_of_fields(stored, values, bits), axis=[step, byte])

    c = te.compute((rows, digits, panel), element, name="code_tile")

    def statements(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tuple[tir.Stmt, None, None]:
        by_name, (sums,) = {buffer.name: buffer for buffer in ins}, outs
        unpacked = tir.Buffer("unpacked", (steps * fields * panel * GROUP,), "uint8", "local")
        block = _Block(by_name["data0"], unpacked, sums, rows, panel, fields * GROUP)
        body = tir.seq(
            _unpack([by_name[x.op.name] for x in weights], unpacked, panel, (steps, bits)), *block.products()
        )
        return tir.Allocate(unpacked, body), None, None

    return te.decl_tensor_intrin(c.op, statements, name=f"code_tile_{rows}x{panel}x{steps}_{bits}_{digits}")


def _unpack(weights: list[tir.Buffer], unpacked: tir.Buffer, panel: int, kind: tuple[int, int]) -> tir.Stmt:
    """Store a byte for each code, in the order of the depth, of so many steps of codes of so many bits."""
    steps, bits = kind
    held, fields = step_of(bits)
    step, row_bytes = tir.Var("step", "int32"), panel * GROUP
    stores = []
    for first in range(0, row_bytes, ROW_BYTES):
        lanes = tir.Ramp(op.const(0), op.const(1), ROW_BYTES)
        stored = [tir.BufferLoad(weight, (step * held, op.const(first // GROUP), lanes)) for weight in weights]
        for field, code in enumerate(codes_of_step(stored, bits)):
            start = (step * fields + field) * row_bytes + first
            stores.append(tir.BufferStore(unpacked, code, (tir.Ramp(start, op.const(1), ROW_BYTES),)))
    return tir.For(step, op.const(0), op.const(steps), tir.ForKind.SERIAL, tir.seq(*stores))


class _Block:
    """The products of one block: sums of each digit, vector of columns and register of rows."""

    def __init__(
        self, data: tir.Buffer, weight: tir.Buffer, sums: tir.Buffer, rows: int, panel: int, step: int
    ) -> None:
        self.data, self.weight, self.sums, self.panel, self.step = data, weight, sums, panel, step
        digits, runs = (int(size) for size in data.shape[1:3])  # type: ignore[call-overload]
        self.block = runs * step
        self.down, self.across, self.digits = -(-rows // ROWS), panel // ROWS, digits
        self.high, self.chunk = rows // self.down, min(self.block, ROW_BYTES)

    def products(self) -> list[tir.Stmt]:
        """Zero the registers, add the products of all chunks, store the sums."""
        parts = [(i, d, j) for i in range(self.down) for d in range(self.digits) for j in range(self.across)]
        made = [tile_zero(self.register(*part), self.high) for part in parts]
        for first in range(0, self.block, self.chunk):
            made += self.chunk_of(first)
        for i, d, j in parts:
            rest = op.const(d), op.const(ROWS * j)
            corner = [tir.BufferLoad(self.sums, (self.row(i, following), *rest)) for following in (0, 1)]
            made.append(tile_store(self.register(i, d, j), self.high, *corner))
        return made

    def register(self, i: int, d: int, j: int) -> int:
        """The number of the register of sums."""
        return (i * self.digits + d) * self.across + j

    def row(self, i: int, following: int) -> tir.Expr:
        """The first row of register `i`, or the one behind it."""
        return op.const(self.high * i + min(following, self.high - 1))

    def chunk_of(self, first: int) -> list[tir.Stmt]:
        """The products of a chunk of the depth."""
        left, right = REGISTERS - 2, REGISTERS - 1
        groups, row_bytes, made = self.chunk // GROUP, self.panel * GROUP, []
        for j in range(self.across):
            start = first // GROUP * row_bytes + ROW_BYTES * j
            ends = [tir.BufferLoad(self.weight, (op.const(start + row_bytes * next_),)) for next_ in (0, 1)]
            made.append(tile_load(right, groups, ends[0], ends[1]))
            for i in range(self.down):
                for d in range(self.digits):
                    one, next_one = self.data_at(i, d, first)
                    made.append(tile_load(left, self.high, one, next_one, self.chunk))
                    made.append(tile_product(self.register(i, d, j), left, right, PRODUCTS["int8", "uint8"]))
        return made

    def data_at(self, i: int, d: int, first: int) -> list[tir.BufferLoad]:
        """The first elements of the first two rows of digit `d` of register `i`."""
        rest = op.const(d), op.const(first // self.step), op.const(0)
        return [tir.BufferLoad(self.data, (self.row(i, next_), *rest)) for next_ in (0, 1)]
