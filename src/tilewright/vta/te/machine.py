"""VTA as `te.lower` sees it: an `Accelerator` with scopes, copies, the matrix product, and loops of the vector unit.

What a schedule requests becomes calls that `record.py` reads: `vta.load`, `vta.store`, `vta.gemm`, `vta.reset`, and
loops of stores under the attribute of the compute unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar

from tilewright import te, tir
from tilewright.errors import ScheduleError
from tilewright.te.tensor_intrin import TensorIntrin
from tilewright.tir.stmt import Evaluate, For, ForKind, PrimFunc, SeqStmt, Stmt
from tilewright.tir.transform.coproc_sync import KEY, UNITS
from tilewright.tir.transform.inject_copy_intrin import CopyRegion
from tilewright.tir.transform.statements import NO_OP, with_fields
from tilewright.tir.visitor import StmtRewriter
from tilewright.vta.isa import Isa
from tilewright.vta.te.in_place import in_place

COPY, ALU = "dma_copy", "alu"
#: Loops under these are left out: a schedule that measures the rest of itself.
_SKIPPED = ("skip_dma_copy", "skip_alu")
_GLOBAL = "global"


class Machine:
    """An accelerator for schedules. `scopes` are the memories' storage scopes, `gemm` is the matrix unit's intrinsic.

    Loops under the pragma "dma_copy" are transfers, those under "alu" steps of the vector unit.
    """

    scopes: ClassVar = {"INP": "local.inp_buffer", "WGT": "local.wgt_buffer", "ACC": "local.acc_buffer"}

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.memories = {scope: memory for memory, scope in self.scopes.items()}

    @cached_property
    def accelerator(self) -> te.Accelerator:
        """The target for `te.lower`."""
        return te.Accelerator(
            name=f"vta {self.isa.config.name}", copy=self._copy, copy_pragma=COPY, copy_casts=True, passes=(_prepared,)
        )

    # ------------------------------------------------------------------------------------------------- transfers
    def _copy(
        self,
        source: CopyRegion,
        target: CopyRegion,
        before: Sequence[tir.Expr],
        after: Sequence[tir.Expr],
        padding: tir.Expr | None,
    ) -> Stmt:
        positions = source.buffer.scope, target.buffer.scope
        stores = positions[1] == _GLOBAL
        scope = positions[0] if stores else positions[1]
        if positions.count(_GLOBAL) != 1 or scope not in self.memories or (stores and scope != self.scopes["ACC"]):
            raise ScheduleError(
                f"no unit copies {source.buffer!r} to {target.buffer!r}: loads go from DRAM to "
                f"{', '.join(self.memories)}, stores from {self.scopes['ACC']} to DRAM"
            )
        memory = self._memory(source, target, stores, self.memories[scope])
        if padding is not None and not (isinstance(padding, tir.IntImm) and padding.value == 0):
            raise ScheduleError(
                f"the load of {target.buffer.name} pads with {padding!r}; the load unit pads with zeros"
            )
        unit = "store" if stores else "compute" if memory.startswith("ACC") else "load"
        call = tir.call_extern(
            "int32", "vta.store" if stores else "vta.load", memory, target.access_ptr("w"), source.access_ptr("r"),
            *target.shape, *source.strides, *target.strides, *before, *after,
        )  # fmt: skip
        return tir.AttrStmt(KEY, None, tir.const(UNITS[unit]), Evaluate(call))

    def _memory(self, source: CopyRegion, target: CopyRegion, stores: bool, memory: str) -> str:
        """The memory named by LOAD or STORE, by the types of the two sides."""
        name = "OUT" if stores else memory
        there = (target if stores else source).buffer
        if name == "ACC" and str(there.dtype) == self.isa.memories["ACC_8BIT"].dtype.name:
            name = "ACC_8BIT"
        here = (source if stores else target).buffer
        wanted = self.isa.memories[name].dtype.name, self.isa.memories[memory].dtype.name
        if (str(there.dtype), str(here.dtype)) != wanted:
            raise ScheduleError(
                f"a copy between {there!r} and {here!r}: {name} is {wanted[0]} in DRAM and {wanted[1]} on the chip"
            )
        return name

    # ------------------------------------------------------------------------------------------- the matrix unit
    @cached_property
    def gemm(self) -> TensorIntrin:
        """A tile of inputs [batch, block] by the transpose of one of weights [block, block], into accumulators."""
        return self._gemm(self._instruction)

    @cached_property
    def no_gemm(self) -> TensorIntrin:
        """As `gemm`, doing nothing: for schedules that measure the rest."""
        return self._gemm(lambda name, *boxes: NO_OP)

    def _gemm(self, instruction: Callable[..., Stmt]) -> TensorIntrin:
        memories = {name: self.isa.memories[name] for name in self.scopes}
        inp, wgt = (
            te.placeholder(memories[name].shape, memories[name].dtype.name, name.lower()) for name in ("INP", "WGT")
        )
        wide, k = memories["ACC"].dtype.name, te.reduce_axis((0, self.isa.config.block), name="k")
        acc = te.compute(
            memories["ACC"].shape, lambda i, j: te.sum(inp[i, k].astype(wide) * wgt[j, k].astype(wide), axis=k), "acc"
        )
        buffers = {
            tensor: te.decl_buffer(tensor.shape, tensor.dtype, name.lower(), self.scopes[name])
            for tensor, name in ((inp, "INP"), (wgt, "WGT"), (acc, "ACC"))
        }

        def body(ins: Sequence[tir.Buffer], outs: Sequence[tir.Buffer]) -> tuple[Stmt, Stmt, Stmt]:
            update = instruction("gemm", _box(outs[0], "rw"), _box(ins[0], "r"), _box(ins[1], "r"))
            reset = instruction("reset", _box(outs[0], "w"))
            return SeqStmt((reset, update)), reset, update

        return te.decl_tensor_intrin(acc.op, body, "GEMM", buffers)

    @staticmethod
    def _instruction(name: str, *boxes: tir.Expr) -> Stmt:
        call = tir.call_extern("int32", f"vta.{name}", *boxes)
        return tir.AttrStmt(KEY, None, tir.const(UNITS["compute"]), Evaluate(call))


def _box(buffer: tir.Buffer, access: str) -> tir.Expr:
    """A whole buffer as what a call accesses."""
    first = buffer[tuple([0] * len(buffer.shape))]
    return tir.Call("handle", "access_region", (tir.StringImm(access), first, *buffer.shape))


def _prepared(func: PrimFunc) -> PrimFunc:
    """`func` with what is skipped left out, loops of ALU as instructions of compute, and what can be done in place."""
    return in_place(func.with_body(_Marked()(func.body)))


class _Marked(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """The loops under "alu", and those around nothing but one instruction, as one instruction."""
        if any(node.annotations.get(key) for key in _SKIPPED):
            return NO_OP
        if not node.annotations.get(ALU):
            loop: For = self.rebuild(node)
            inside = loop.body
            if loop.kind is not ForKind.SERIAL or not (isinstance(inside, tir.AttrStmt) and inside.key == KEY):
                return loop
            return with_fields(inside, body=with_fields(loop, body=inside.body))
        notes = {key: value for key, value in node.annotations.items() if key != ALU}
        return tir.AttrStmt(KEY, None, tir.const(UNITS["compute"]), with_fields(node, annotations=notes))
