"""The functional simulator: what programs compute, in NumPy, without time.

Units run in any order that the tokens allow: by a seed at random, so that a program which is right by luck is not right
for long. Every instruction is checked before it is executed, races among them.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tilewright.vta.check import admit, elements
from tilewright.vta.codec import Instruction, pack, unpack
from tilewright.vta.dram import Dram
from tilewright.vta.driver import Driver
from tilewright.vta.isa import ALU_OPS, Isa
from tilewright.vta.loops import UopMemory, dram_elements, memory_of, sram_shape, steps
from tilewright.vta.order import RaceDetector, unit_of, walk

_INT32_BITS = 32


class Simulator:
    """A chip: its memories, which keep what they hold from one program to the next, all zero at first.

    `counters` sums up the bytes that were loaded and stored, by memory, and the steps of GEMM and ALU.
    """

    def __init__(self, isa: Isa, dram: Dram) -> None:
        self.isa, self.dram = isa, dram
        memories = isa.memories
        self.inp = np.zeros((memories["INP"].depth, *memories["INP"].shape), memories["INP"].dtype)
        self.wgt = np.zeros((memories["WGT"].depth, *memories["WGT"].shape), memories["WGT"].dtype)
        self.acc = np.zeros((memories["ACC"].depth, *memories["ACC"].shape), np.int32)
        self.uops = UopMemory(isa)
        self.counters: Counter[str] = Counter()

    def run(
        self, program: bytes | Iterable[Instruction], seed: int | None = None, order: Sequence[int] | None = None
    ) -> None:
        """Execute a program; with a seed the order is a random one of those that the tokens allow.

        `order` lists positions in the order that is wanted, as far as the tokens allow it.

        Raises `ProgramError` as `check_program` does, at the instruction; what was executed before it stays done.
        """
        program = unpack(self.isa, program if isinstance(program, bytes) else pack(self.isa, program))
        chance = random.Random(seed)
        choose: Callable[[list[str]], str] = chance.choice if seed is not None else lambda ready: ready[0]
        if order is not None:
            wanted = deque(unit_of(self.isa, program[position]) for position in order)
            choose = lambda ready: wanted.popleft() if wanted[0] in ready else ready[0]  # noqa: E731
        races = RaceDetector(self.isa, program, self.dram.data.size)
        execute = {"LOAD": self._load, "STORE": self._store, "GEMM": self._gemm, "ALU": self._alu}
        for step in walk(self.isa, program, choose):
            admit(self.isa, step, self.dram.data.size, self.uops, races)
            if step.instruction.name in execute:
                execute[step.instruction.name](step.instruction)

    def _load(self, x: Instruction) -> None:
        if not x["x_size"]:
            return
        memory = memory_of(self.isa, x)
        values = elements(self.isa, memory, self.dram.data)[dram_elements(x)]
        self.counters[f"{memory} bytes"] += values.nbytes
        if memory == "UOP":
            self.uops.write(x["sram"], values.ravel())
            return
        chip = {"INP": self.inp, "WGT": self.wgt}.get(memory, self.acc)
        rows, columns = sram_shape(x)
        region = chip[x["sram"] : x["sram"] + rows * columns].reshape(rows, columns, *chip.shape[1:])
        region[...] = dict(x.values).get("pad_value", 0)
        region[x["y_pad_0"] :, x["x_pad_0"] :][: x["y_size"], : x["x_size"]] = values

    def _store(self, x: Instruction) -> None:
        if not x["x_size"]:
            return
        target = elements(self.isa, "OUT", self.dram.data)
        tiles = self.acc[x["sram"] : x["sram"] + x["y_size"] * x["x_size"]].astype(target.dtype)
        for row in range(x["y_size"]):  # one after another: rows may overlap, and the last one stays
            first = x["dram"] + row * x["x_stride"]
            target[first : first + x["x_size"]] = tiles[row * x["x_size"] : (row + 1) * x["x_size"]]
        self.counters["OUT bytes"] += tiles.nbytes

    def _gemm(self, x: Instruction) -> None:
        for dst, src, wgt in steps(self.isa, x, self.uops):
            self.counters["GEMM steps"] += dst.size
            if x["reset"]:
                self.acc[dst] = 0
                continue
            # Sums of up to 128 products of 30 bits are exact in float64, where NumPy's product is fast.
            product = self.inp[src].astype(np.float64) @ self.wgt[wgt].astype(np.float64).swapaxes(1, 2)
            np.add.at(self.acc, dst, product.astype(np.int64).astype(np.int32))

    def _alu(self, x: Instruction) -> None:
        op = {number: name for name, number in ALU_OPS.items()}[x["op"]]
        for dst, src, _ in steps(self.isa, x, self.uops):
            self.counters["ALU steps"] += dst.size
            imm = np.int32(x["imm"]) if x["use_imm"] else None
            if np.unique(dst).size == dst.size and (imm is not None or not np.isin(src[src != dst], dst).any()):
                self.acc[dst] = alu(op, self.acc[dst], self.acc[src] if imm is None else imm)
                continue
            for to, by in zip(dst, src):  # a step reads what another one writes: one after another
                self.acc[to] = alu(op, self.acc[to], self.acc[by] if imm is None else imm)


def alu(op: str, left: np.ndarray, right: np.ndarray | np.int32) -> np.ndarray:
    """The result of ALU on 32-bit integers, which wrap around.

    SHR is arithmetic, and by a negative number shifts left; by 32 or more nothing but the sign (left: zero) is left.
    CLIP has two bounds in its right operand, each a byte with its sign, the lower one lowest; where they are the wrong
    way round the upper one wins. MUL8 multiplies the lowest bytes with their signs, MOV is the right operand.
    """
    if op == "MIN":
        return np.minimum(left, right)
    if op == "MAX":
        return np.maximum(left, right)
    if op == "MOV":
        return np.broadcast_to(right, left.shape)
    wide, by = left.astype(np.int64), np.asarray(right, np.int64)
    if op == "CLIP":
        wide = np.minimum(np.maximum(wide, by.astype(np.int8)), (by >> 8).astype(np.int8))
        return wide.astype(np.int32)
    if op == "MUL8":
        wide, by, op = wide.astype(np.int8).astype(np.int64), by.astype(np.int8).astype(np.int64), "MUL"
    if op == "SHR":
        result = np.where(by >= 0, wide >> np.clip(by, 0, _INT32_BITS), wide << np.clip(-by, 0, _INT32_BITS))
    else:
        result = wide + by if op == "ADD" else wide * by
    return result.astype(np.int32)


class CheckedDriver(Driver):
    """The functional simulator as an accelerator: every rule is checked at every instruction."""

    def __init__(self, isa: Isa, dram: Dram, seed: int | None = None) -> None:
        super().__init__(isa, dram)
        self.simulator, self.seed = Simulator(isa, dram), seed

    def run(self, address: int, count: int) -> Counter[str]:
        """In an order by chance, where there is a seed."""
        before = self.simulator.counters.copy()
        self.simulator.run(self.fetch(address, count), self.seed)
        new = self.simulator.counters - before
        self.counters += new
        return new
