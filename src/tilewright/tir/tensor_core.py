"""Calls of NVIDIA's warp-level matrix instructions and asynchronous copies, and the lanes that hold their operands.

Fragments are buffers of scope "local": 32-bit registers of each lane of a warp, in the order of the PTX ISA ("Matrix
multiply-accumulate operation using mma instruction"). An element of a buffer among the arguments is a position.

    ptx_ldmatrix(registers, shared, transposed)     four 8 x 8 tiles of 16-bit elements, lane l has the address of row
                                                    l % 8 of tile l // 8; lane l gets row l // 4, columns l % 4 * 2
                                                    and the next of each, or of their transposes
    ptx_mma(c, a, b, kind)                          c += a @ b: 16 x 8 sums, rows l // 4 and l // 4 + 8, columns
                                                    l % 4 * 2 and the next
    ptx_wgmma(c, a, b, columns, kind)               c += a @ b by four warps: 64 x `columns` sums, operands in shared
                                                    memory in lines of 128 bytes whose chunks are permuted by
                                                    eight; a warp's sums lie as those of so many `ptx_mma`
    ptx_wgmma_fence(), _commit(), _wait(n)          before the first; a group of them; at most n groups are running
    ptx_fence_proxy()                               what this thread has seen arrive, these may read
    ptx_pack(register, low, high, kind)             two floats, rounded to 16 bits each, as one register
    ptx_cp_async(shared, global, bytes, condition)  4, 8 or 16 bytes, on the way; zeros where the condition fails
    ptx_commit_group()                              closes a group of copies
    ptx_wait_group(n)                               waits until at most n groups of this thread are on the way
    copy_vector(target, source, bytes)              so many bytes at once, both aligned to them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.tir import op
from tilewright.tir.expr import Call, Expr, IntImm, StringImm
from tilewright.tir.stmt import Evaluate, Stmt

#: Calls whose first argument is written and whose others, where they are elements of buffers, are positions.
CALLS = ("ptx_ldmatrix", "ptx_mma", "ptx_wgmma", "ptx_pack", "ptx_cp_async", "copy_vector")
#: The annotation of a loop nest that becomes a product on tensor cores; its value is a `Tiling`.
ANNOTATION = "tensor_core"
#: The attribute of a function whose kernels shall leave registers for so many blocks on a multiprocessor.
RESIDENT = "resident_blocks"
#: Bytes at whose multiples tiles begin: those after which the order of chunks repeats.
ALIGNMENT = 1024
#: Bytes of a row of the 8 x 8 tiles that `ldmatrix` loads, and of the largest asynchronous copy.
CHUNK = 16
#: Rows and columns of the sums of one instruction.
ROWS, COLUMNS = 16, 8


@dataclass(frozen=True)
class Instruction:
    """One `mma.sync`: its kind in names of functions, its depth, the bytes of an element, the type of the sums."""

    kind: str
    depth: int
    itemsize: int
    sums: str


#: By the element type of both operands.
INSTRUCTIONS = {
    "float16": Instruction("f16", 16, 2, "float32"),
    "bfloat16": Instruction("bf16", 16, 2, "float32"),
    "int8": Instruction("s8", 32, 1, "int32"),
    "uint8": Instruction("u8", 32, 1, "int32"),
}


@dataclass(frozen=True)
class Tiling:
    """A block's tile, the share of a warp in it, and the way through the depth.

    `rows` x `columns` of the result are shared by `warps_rows` times `warps_columns` warps, which advance by `depth`
    elements a step; `stages` steps are in shared memory at a time, all but one of them on the way. Registers are left
    for `resident` blocks on a multiprocessor. With `warpgroups` four warps of neighbouring rows multiply together
    (wgmma, compute capability 9.0a).
    """

    rows: int
    columns: int
    warps_rows: int
    warps_columns: int
    depth: int
    stages: int
    resident: int = 1
    warpgroups: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_rows * self.warps_columns

    def __str__(self) -> str:
        warps = f"{self.warps_rows}x{self.warps_columns} warps"
        return f"{self.rows}x{self.columns} by {warps}, depth {self.depth}, {self.stages} stages"


def is_tensor_core_call(x: Any) -> bool:
    """True for one of `CALLS`."""
    return isinstance(x, Call) and x.op in CALLS


def shared_bytes(tiling: Tiling, itemsize: int) -> int:
    """Bytes of shared memory that a tile takes: the stages of its operands, or later its sums."""
    operands = tiling.stages * (tiling.rows + tiling.columns) * tiling.depth * itemsize
    return max(operands, tiling.rows * sums_stride(tiling) * 4)


def sums_stride(tiling: Tiling) -> int:
    """Elements from one row of sums to the next: such that the lanes of a warp store to different banks."""
    return -(-tiling.columns // _BANKS) * _BANKS + _SUMS_PADDING


#: Banks of shared memory, each four bytes wide, and the distance of two rows of sums modulo that.
_BANKS, _SUMS_PADDING = 32, 8


def effect(name: str, *args: Expr | int | str) -> Stmt:
    """The call `name` as a statement."""
    made = [StringImm(a) if isinstance(a, str) else op.const(a) if isinstance(a, int) else a for a in args]
    return Evaluate(Call("int32", name, tuple(made)))


def integer(x: Expr) -> int:
    """The value of an argument that is a number."""
    assert isinstance(x, IntImm)
    return x.value
