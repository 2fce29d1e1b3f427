"""The tensor ALU: one operation on all numbers of a tile of accumulators, one tile a cycle.

Stages, by the cycle after the sequencer's indices: 0 both tiles are read, unless the GEMM core reads the same bank; 1
the operation; 2 the result is written.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value, signed

from tilewright.vta.isa import Isa
from tilewright.vta.rtl.gemm import ACC_BITS, forwarded
from tilewright.vta.rtl.parts import choose, repeat
from tilewright.vta.rtl.sequencer import Sequencer


class Alu(Elaboratable):
    """`dst_data` and `src_data` are what was read; `stop` holds a step that could not read."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.sequencer = Sequencer(isa, "ALU", ("op", "use_imm", "imm"))
        index = self.sequencer.index
        size = 8 * isa.memories["ACC"].element_bytes
        self.stop = self.sequencer.stop
        self.read_en, self.dst_addr, self.src_addr = self.sequencer.step, index["dst"], index["src"]
        self.dst_data, self.src_data = Signal(size), Signal(size)
        self.write_en, self.write_addr, self.write_data = Signal(), Signal.like(index["dst"]), Signal(size)
        self.done = Signal()

    def elaborate(self, platform: Any) -> Module:
        """Read, compute, write."""
        m = Module()
        m.submodules.sequencer = loops = self.sequencer
        step, last = Signal(), Signal()
        dst, src = Signal.like(self.dst_addr), Signal.like(self.src_addr)
        held = {k: Signal.like(v) for k, v in loops.fields.items()}
        m.d.sync += [step.eq(loops.step & ~self.stop), last.eq(loops.last & ~self.stop)]
        m.d.sync += [dst.eq(loops.index["dst"]), src.eq(loops.index["src"])]
        m.d.sync += [held[k].eq(v) for k, v in loops.fields.items()]
        m.d.sync += [self.write_en.eq(step), self.write_addr.eq(dst), self.done.eq(last)]
        writes = self.write_en, self.write_addr, self.write_data
        left = forwarded(m, self.dst_data, step, dst, *writes)
        right = forwarded(m, self.src_data, step, src, *writes)
        imm = Signal(signed(ACC_BITS))
        m.d.comb += imm.eq(held["imm"])
        right = Mux(held["use_imm"], repeat(imm, len(right) // ACC_BITS), right)
        results = []
        for at in range(0, len(self.write_data), ACC_BITS):
            a, b = Signal(signed(ACC_BITS)), Signal(signed(ACC_BITS))
            m.d.comb += [a.eq(left[at : at + ACC_BITS]), b.eq(right[at : at + ACC_BITS])]
            results.append(self._result(m, a, b, held["op"]))
        m.d.sync += self.write_data.eq(Cat(*results))
        return m

    def _result(self, m: Module, a: Signal, b: Signal, op: Value) -> Signal:
        """One number. Operations by the names of the table."""
        cases = {
            "MIN": lambda: Mux(a < b, a, b),
            "MAX": lambda: Mux(a > b, a, b),
            "ADD": lambda: a + b,
            "SHR": lambda: _shift(a, b),
            "MUL": lambda: a * b,
            "CLIP": lambda: _clip(a, b[:8].as_signed(), b[8:16].as_signed()),
            "MOV": lambda: b,
            "MUL8": lambda: a[:8].as_signed() * b[:8].as_signed(),
        }
        names = self.isa.formats["ALU"].by_name["op"].names
        assert names is not None
        result = Signal(signed(ACC_BITS))
        m.d.comb += result.eq(choose(op, {number: cases[name]() for name, number in names.items()}, a))
        return result


def _shift(a: Signal, b: Signal) -> Value:
    """To the right with the sign, by a negative number to the left; by 32 or more the sign, or nothing, is left."""
    amount = Mux(b < 0, -b, b)
    far = amount >= ACC_BITS
    bits = amount[:5]
    return Mux(b < 0, Mux(far, 0, (a << bits)[:ACC_BITS].as_signed()), Mux(far, a >> ACC_BITS - 1, a >> bits))


def _clip(a: Signal, low: Value, high: Value) -> Value:
    """Not below `low`, and then not above `high`."""
    risen = Mux(a < low, low, a)
    return Mux(risen > high, high, risen)
