"""Calls of Intel's matrix instructions (AMX): products of tiles that a core holds in eight registers of its own.

A register holds up to 16 rows of 64 bytes: 16 sums of 32 bits a row, rows of data, or 16 columns of weights, whose rows
are groups of 4 bytes (or 2 bfloat16) of the depth for each column, as dot products take them (`tir/dot_product.py`).

    tile_zero(c, rows)                       sums of 0
    tile_load(r, rows, first, second, bytes) from memory: the addresses of the first and the second row, bytes of each
    tile_product(c, a, b, kind)              c += a @ b; kind says the types of the operands, as in `PRODUCTS`
    tile_store(c, rows, first, second)       sums to memory

Registers are numbers, each of as many rows, of as many bytes, all through a function. Functions with such calls begin
by setting up the registers, which the code generator sees to.
"""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import BufferLoad, Call, Expr, StringImm
from tilewright.tir.stmt import Evaluate, Stmt

#: Rows of a register at most, and the bytes of one.
ROWS, ROW_BYTES = 16, 64
#: Registers of a core.
REGISTERS = 8
#: LLVM's name of the product by the element types of data and weights.
PRODUCTS = {
    ("bfloat16", "bfloat16"): "tdpbf16ps",
    ("uint8", "int8"): "tdpbusd",
    ("int8", "int8"): "tdpbssd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "uint8"): "tdpbuud",
}


def tile_zero(register: int, rows: int) -> Stmt:
    """Make all sums of a register 0."""
    return _effect("tile_zero", op.const(register), op.const(rows))


def tile_load(register: int, rows: int, first: BufferLoad, second: BufferLoad, row_bytes: int = ROW_BYTES) -> Stmt:
    """Load rows of 64 or fewer bytes; `first` and `second` are the elements that the first two rows begin with."""
    ends = _address(first, True), _address(second, True)
    return _effect("tile_load", op.const(register), op.const(rows), *ends, op.const(row_bytes))


def tile_product(sums: int, data: int, weights: int, kind: str) -> Stmt:
    """Add a product of registers to another."""
    return _effect("tile_product", *map(op.const, (sums, data, weights)), StringImm(kind))


def tile_store(register: int, rows: int, first: BufferLoad, second: BufferLoad) -> Stmt:
    """Store rows of 64 bytes, as `tile_load` loads them."""
    return _effect("tile_store", op.const(register), op.const(rows), _address(first, False), _address(second, False))


def _address(element: BufferLoad, reads: bool) -> Expr:
    return Call("handle", "address_of", (element, StringImm("r")) if reads else (element,))


def _effect(name: str, *args: Expr) -> Stmt:
    return Evaluate(Call("int32", name, args))
