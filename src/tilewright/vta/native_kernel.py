"""The functional simulator as one function of the loop IR, compiled by Tilewright: a loop over decoded instructions.

Instructions come as rows of a table, a column a field (`COLUMNS`), in an order that the tokens allow. DRAM is bytes;
on the chip, numbers are int32, and weights lie transposed, [input][output], so that a step of GEMM adds vectors.
Before an instruction is executed, all that it reaches is checked; `status[0]` is the row of the first that is to be
refused, or -1. Nothing is executed from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tilewright import tir
from tilewright.target import Target
from tilewright.tir import ir_builder
from tilewright.tir.ir_builder import BufferVar
from tilewright.tir.transform.pipeline import HOST, result
from tilewright.vta.config import WIDE, Config
from tilewright.vta.isa import MEMORY_IDS, OPCODES, Isa, Memory

#: The fields of all instructions, each once, in the order of the table of instructions.
COLUMNS = tuple(dict.fromkeys(f.name for form in Isa(Config(isa_version=WIDE)).formats.values() for f in form.fields))
#: What the function counts, by its position in `counters`: elements moved by memory, and steps.
COUNTED = (*MEMORY_IDS, "GEMM", "ALU")

_LAST_BIT, _BYTE, _UPPER = 31, 8, 24


def kernel(isa: Isa, target: Target) -> tir.PrimFunc:
    """`run(rows, dram_bytes, table, dram, inp, wgt, acc, uop, uop_loaded, counters, status)` of a configuration."""
    return result(HOST.lower, _Kernel(isa).function(), target)


def _all(*conditions: Any) -> Any:
    return tir.all(*conditions)


class _Kernel:
    """The function under construction: parameters, and the row that the loop is at."""

    def __init__(self, isa: Isa) -> None:
        self.isa, self.block = isa, isa.config.block
        self.tile = isa.config.batch * self.block
        self.ib = ir_builder.create()
        self.rows, self.dram_bytes = tir.Var("rows", "int32"), tir.Var("dram_bytes", "int32")
        depth = {name: memory.depth for name, memory in isa.memories.items()}
        self.table = self._pointer("table", self.rows * len(COLUMNS))
        self.dram = self._pointer("dram", self.dram_bytes, "int8")
        self.inp = self._pointer("inp", depth["INP"] * self.tile)
        self.wgt = self._pointer("wgt", depth["WGT"] * self.block**2)
        self.acc = self._pointer("acc", depth["ACC"] * self.tile)
        self.uop = self._pointer("uop", depth["UOP"], "int64")
        self.loaded = self._pointer("uop_loaded", depth["UOP"])
        self.counters = self._pointer("counters", len(COUNTED), "int64")
        self.status = self._pointer("status", 1)
        self.row: Any = None

    def _pointer(self, name: str, size: Any, dtype: str = "int32") -> BufferVar:
        return self.ib.pointer(dtype, name, (size,))

    def __getitem__(self, field: str) -> Any:
        """A field of the present instruction."""
        return self.table[self.row * len(COLUMNS) + COLUMNS.index(field)]

    def _named(self, *fields: str) -> list[Any]:
        return [self.ib.let(field, self[field]) for field in fields]

    def function(self) -> tir.PrimFunc:
        ib, kinds = self.ib, {"GEMM": self._gemm, "ALU": self._alu}
        self.status[0] = -1
        with ib.for_range(0, self.rows, name="row") as row:
            self.row = row
            with ib.if_scope(self.status[0] < 0):
                for name, memory in self.isa.memories.items():
                    opcode = OPCODES["STORE" if name == "OUT" else "LOAD"]
                    here = _all(self["opcode"].equal(opcode), self["mem_id"].equal(MEMORY_IDS[name]))
                    with ib.if_scope(_all(here, self["x_size"] > 0)):
                        self._transfer(memory)
                for name, emit in kinds.items():
                    with ib.if_scope(self["opcode"].equal(OPCODES[name])):
                        emit()
        buffers = [
            self.table, self.dram, self.inp, self.wgt, self.acc, self.uop, self.loaded, self.counters, self.status,
        ]  # fmt: skip
        return tir.PrimFunc("run", [self.rows, self.dram_bytes, *(b.buffer for b in buffers)], ib.get())

    @contextmanager
    def _admitted(self, *conditions: Any) -> Iterator[None]:
        """A scope whose statements run if all conditions hold; else the instruction is refused."""
        held = self.ib.let("held", tir.cast("int32", _all(*conditions)))
        with self.ib.if_scope(held < 1):
            self.status[0] = self.row
        with self.ib.if_scope(held > 0):
            yield

    def _count(self, name: str, amount: Any) -> None:
        at = COUNTED.index(name)
        self.counters[at] = self.counters[at] + tir.cast("int64", amount)

    # --------------------------------------------------------------------------------------------- LOAD and STORE
    def _transfer(self, memory: Memory) -> None:
        ib = self.ib
        sram, dram, stride, y_size, x_size = self._named("sram", "dram", "x_stride", "y_size", "x_size")
        above, below, left, right = self._named("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
        rows, columns = ib.let("rows_there", above + y_size + below), ib.let("columns", left + x_size + right)
        wide = ib.let("last", tir.cast("int64", dram) + tir.cast("int64", (y_size - 1)) * stride + x_size)
        fits = (wide * memory.element_bytes <= tir.cast("int64", self.dram_bytes), dram >= 0, y_size > 0)
        padded = above + below + left + right
        plain = (padded.equal(0),) if memory.name in ("UOP", "OUT") else ()
        inside = tir.cast("int64", sram) + tir.cast("int64", rows) * columns <= memory.depth
        with self._admitted(*fits, *plain, inside):
            self._count(memory.name, y_size * x_size)
            if memory.name == "OUT":
                self._store(memory, sram, dram, stride, y_size, x_size)
                return
            with ib.if_scope(padded > 0), ib.for_range(0, rows * columns, name="at") as at:
                self._pad(memory, sram + at)
            with ib.for_range(0, y_size, name="y") as y, ib.for_range(0, x_size, name="x") as x:
                to, source = sram + (y + above) * columns + left + x, dram + y * stride + x
                self._element(memory, ib.let("to", to), ib.let("source", source))

    def _chip(self, memory: Memory) -> BufferVar:
        return {"UOP": self.uop, "INP": self.inp, "WGT": self.wgt}.get(memory.name, self.acc)

    def _numbers(self, memory: Memory) -> int:
        return memory.element_bytes // memory.dtype.itemsize

    def _pad(self, memory: Memory, element: Any) -> None:
        numbers = self._numbers(memory)
        with self.ib.for_range(0, numbers, name="n") as n:
            self._chip(memory)[element * numbers + n] = (
                tir.const(0, "int64") if memory.name == "UOP" else self["pad_value"]
            )

    def _element(self, memory: Memory, to: Any, source: Any) -> None:
        """One element from DRAM."""
        ib, chip = self.ib, self._chip(memory)
        if memory.name == "WGT":
            with ib.for_range(0, self.block, name="o") as o, ib.for_range(0, self.block, name="i") as i:
                number = self._number(memory, (source * self.block + o) * self.block + i)
                chip[(to * self.block + i) * self.block + o] = number
            return
        numbers = self._numbers(memory)
        with ib.for_range(0, numbers, name="n") as n:
            chip[to * numbers + n] = self._number(memory, source * numbers + n)
        if memory.name == "UOP":
            self.loaded[to] = 1

    def _number(self, memory: Memory, index: Any) -> Any:
        """A number in DRAM, the lowest byte first, its highest byte with the sign."""
        size, wide = memory.dtype.itemsize, "int64" if memory.name == "UOP" else "int32"
        parts = [tir.cast(wide, self.dram[index * size + byte]) for byte in range(size)]
        value, byte, mask = parts[-1], tir.const(8, wide), tir.const(255, wide)
        for part in reversed(parts[:-1]):
            value = tir.bitwise_or(tir.shift_left(value, byte), tir.bitwise_and(part, mask))
        return value

    def _store(self, memory: Memory, sram: Any, dram: Any, stride: Any, y_size: Any, x_size: Any) -> None:
        ib, size = self.ib, memory.dtype.itemsize
        with ib.for_range(0, y_size, name="y") as y, ib.for_range(0, x_size, name="x") as x:
            source = ib.let("source", (sram + y * x_size + x) * self.tile)
            to = ib.let("to", (dram + y * stride + x) * self.tile)
            with ib.for_range(0, self.tile, name="n") as n:
                for byte in range(size):
                    value = tir.shift_right(self.acc[source + n], 8 * byte)
                    self.dram[(to + n) * size + byte] = tir.cast("int8", value)

    # ------------------------------------------------------------------------------------------------ GEMM and ALU
    def _uop_field(self, name: str, word: Any) -> Any:
        field = self.isa.uop.by_name[name]
        shifted = tir.shift_right(word, tir.const(field.low, "int64"))
        return tir.cast("int32", tir.bitwise_and(shifted, tir.const((1 << field.width) - 1, "int64")))

    @contextmanager
    def _loops(self, limits: Sequence[tuple[str, int, Any]], *more: Any) -> Iterator[Callable[[], list[Any]]]:
        """The instruction, if `limits`, operands with the depth of their memory and if they are used, and `more` hold.

        Yields a function that opens the three loops; within them it returns the operands' indices.
        """
        ib = self.ib
        begin, end, outer, inner = self._named("uop_begin", "uop_end", "iter_out", "iter_in")
        factors = {name: self._named(f"{name}_factor_out", f"{name}_factor_in") for name, _, _ in limits}
        sound = ib.allocate("int32", 1, "sound", scope="local")
        strange = ~self.isa.uop.mask & (1 << self.isa.uop.bits) - 1
        some = _all(begin < end, outer > 0, inner > 0, end <= self.isa.memories["UOP"].depth, *more)
        sound[0] = tir.cast("int32", some)
        with ib.if_scope(sound[0] > 0), ib.for_range(begin, end, name="u") as u:
            word = ib.let("word", self.uop[u])
            reach = [
                tir.any(
                    tir.logical_not(used),
                    self._uop_field(name, word) + (outer - 1) * factors[name][0] + (inner - 1) * factors[name][1]
                    < depth,
                )
                for name, depth, used in limits
            ]
            known = [self.loaded[u] > 0]
            if strange:
                rest = tir.bitwise_and(word, tir.const(_signed(strange), "int64"))
                known.append(rest.equal(tir.const(0, "int64")))
            with ib.if_scope(tir.logical_not(_all(*known, *reach))):
                sound[0] = 0
        with self._admitted(sound[0] > 0), ExitStack() as stack:

            def steps() -> list[Any]:
                i = stack.enter_context(ib.for_range(0, outer, name="i"))
                j = stack.enter_context(ib.for_range(0, inner, name="j"))
                u = stack.enter_context(ib.for_range(begin, end, name="u"))
                word = ib.let("word", self.uop[u])
                return [
                    ib.let(name, self._uop_field(name, word) + i * factors[name][0] + j * factors[name][1])
                    for name, _, _ in limits
                ]

            self._count("GEMM" if len(limits) == 3 else "ALU", (end - begin) * outer * inner)
            yield steps

    def _gemm(self) -> None:
        ib, depth = self.ib, {name: memory.depth for name, memory in self.isa.memories.items()}
        sums = ib.let("sums", self["reset"]).equal(0)
        limits = (("dst", depth["ACC"], tir.const(True)), ("src", depth["INP"], sums), ("wgt", depth["WGT"], sums))
        with self._loops(limits) as steps:
            dst, src, wgt = steps()
            with ib.for_range(0, self.isa.config.batch, name="b") as b:
                at = ib.let("at", dst * self.tile + b * self.block)
                with ib.if_scope(tir.logical_not(sums)), ib.for_range(0, self.block, name="o", kind="vectorized") as o:
                    self.acc[at + o] = 0
                with ib.if_scope(sums):
                    self._dot(at, ib.let("row", src * self.tile + b * self.block), wgt * self.block**2)

    def _dot(self, at: Any, source: Any, weights: Any) -> None:
        """acc[at …] += inp[source …] times the tile of weights; sums stay in registers."""
        ib, block = self.ib, self.block
        sums = ib.allocate("int32", block, "sums", scope="local")
        with ib.for_range(0, block, name="o", kind="vectorized") as o:
            sums[o] = self.acc[at + o]
        kind = "unrolled" if block <= 16 else "serial"
        with (
            ib.for_range(0, block, name="k", kind=kind) as k,
            ib.for_range(0, block, name="o", kind="vectorized") as o,
        ):
            sums[o] = sums[o] + self.inp[source + k] * self.wgt[weights + k * block + o]
        with ib.for_range(0, block, name="o", kind="vectorized") as o:
            self.acc[at + o] = sums[o]

    def _alu(self) -> None:
        ib, depth = self.ib, self.isa.memories["ACC"].depth
        immediate = ib.let("use_imm", self["use_imm"]) > 0
        imm, op = self._named("imm", "op")
        limits = (("dst", depth, tir.const(True)), ("src", depth, tir.logical_not(immediate)))
        with self._loops(limits, self["reset"].equal(0)) as steps:
            dst, src = steps()
            src = ib.let("from", tir.select(immediate, dst, src))
            ops = self.isa.formats["ALU"].by_name["op"].names or {}
            for name, number in ops.items():
                with (
                    ib.if_scope(op.equal(number)),
                    ib.for_range(0, self.tile, name="n", kind="vectorized") as n,
                ):
                    right = tir.select(immediate, imm, self.acc[src * self.tile + n])
                    self.acc[dst * self.tile + n] = _alu(name, self.acc[dst * self.tile + n], right)


def _signed(word: int) -> int:
    """The signed number of the same 64 bits."""
    return word - (1 << 64) if word >> 63 else word


def _alu(name: str, left: Any, right: Any) -> Any:
    """The result of `functional.alu`, on numbers of the loop IR."""
    if name == "MIN":
        return tir.minimum(left, right)
    if name == "MAX":
        return tir.maximum(left, right)
    if name == "SHR":
        by = tir.minimum(tir.maximum(right, 0), _LAST_BIT)
        back = tir.minimum(tir.maximum(0 - right, 0), _LAST_BIT)
        up = tir.select(right < -_LAST_BIT, tir.const(0), tir.shift_left(left, back))
        return tir.select(right < 0, up, tir.shift_right(left, by))
    if name == "CLIP":
        return tir.minimum(tir.maximum(left, _byte(right)), _byte(tir.shift_right(right, _BYTE)))
    if name == "MUL8":
        return _byte(left) * _byte(right)
    if name == "MOV":
        return right
    return left + right if name == "ADD" else left * right


def _byte(value: Any) -> Any:
    """The lowest byte with its sign."""
    return tir.shift_right(tir.shift_left(value, _UPPER), _UPPER)
