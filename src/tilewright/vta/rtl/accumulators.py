"""The accumulators: two banks, the lower and the upper half, so that GEMM works on one while ALU works on the other.

Each bank is there twice, for two reads a cycle, and a third time cut to the width of outputs, which the store unit
reads. Where GEMM reads a bank, ALU waits with its step if that needs the same one. Both write two cycles after they
read, so writes never meet. Padding and loads are written while neither works.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib.memory import Memory

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.rtl.alu import Alu
from tilewright.vta.rtl.gemm import ACC_BITS, Gemm
from tilewright.vta.rtl.parts import log2
from tilewright.vta.rtl.reader import SramWrite, lanes


class Accumulators(Elaboratable):
    """Connects the memories to `gemm`, `alu`, what is loaded (`write`) and the store unit (`out_*`)."""

    def __init__(self, isa: Isa, hardware: Hardware, gemm: Gemm, alu: Alu, write: SramWrite) -> None:
        self.isa, self.hardware, self.gemm, self.alu, self.write = isa, hardware, gemm, alu, write
        self.kind, out = isa.memories["ACC"], isa.memories["OUT"]
        self.out_addr, self.out_data = Signal(max(1, log2(self.kind.depth))), Signal(8 * out.element_bytes)

    def elaborate(self, platform: Any) -> Module:
        """Both banks, and who gets what they read."""
        m = Module()
        gemm, alu = self.gemm, self.alu
        banks = 2 if self.kind.depth > 1 else 1
        meet = gemm.read_addr[-1] == alu.dst_addr[-1] if banks == 2 else 1
        m.d.comb += alu.stop.eq(alu.read_en & gemm.read_en & meet)
        parts = [self._bank(m, number, banks) for number in range(banks)]
        readers = {"gemm": gemm.read_addr, "dst": alu.dst_addr, "src": alu.src_addr, "out": self.out_addr}
        chosen = {}
        for name, addr in readers.items():
            chosen[name] = Signal(name=f"{name}_bank")
            if banks == 2:
                m.d.sync += chosen[name].eq(addr[-1])
        first = [Mux(chosen[name], parts[-1][i], parts[0][i]) for i, name in enumerate(("gemm", "src", "out"))]
        m.d.comb += [gemm.read_data.eq(first[0]), alu.src_data.eq(first[1]), self.out_data.eq(first[2])]
        m.d.comb += alu.dst_data.eq(Mux(chosen["dst"], parts[-1][0], parts[0][0]))
        return m

    def _bank(self, m: Module, number: int, banks: int) -> tuple[Any, Any, Any]:
        """One bank; what its three memories read."""
        gemm, alu, write, depth = self.gemm, self.alu, self.write, self.kind.depth // banks

        def mine(addr: Any) -> Any:
            return addr[-1] == number if banks == 2 else 1

        def within(addr: Any) -> Any:
            return addr[:-1] if banks == 2 else addr

        by_gemm, by_alu = Signal(name=f"gemm_writes_{number}"), Signal(name=f"alu_writes_{number}")
        m.d.comb += by_gemm.eq(gemm.write_en & mine(gemm.write_addr))
        m.d.comb += by_alu.eq(alu.write_en & mine(alu.write_addr))
        addr = Mux(by_gemm, within(gemm.write_addr), Mux(by_alu, within(alu.write_addr), within(write.addr)))
        data = Mux(by_gemm, gemm.write_data, Mux(by_alu, alu.write_data, write.data))
        loaded = Mux(mine(write.addr), write.en, 0)
        en = Mux(by_gemm | by_alu, -1, loaded)
        reads_gemm = gemm.read_en & mine(gemm.read_addr)
        left = Mux(reads_gemm, within(gemm.read_addr), within(alu.dst_addr))
        outputs = []
        bits = 1 << self.isa.config.log_inp_width
        cut = Cat(*(data[at : at + bits] for at in range(0, len(data), ACC_BITS)))
        pieces = lanes(self.kind, self.hardware)
        for name, read, value in (("left", left, data), ("right", within(alu.src_addr), data), ("out", None, cut)):
            memory = Memory(shape=len(value), depth=max(depth, 1), init=[])
            m.submodules[f"{name}_{number}"] = memory
            port, sink = memory.read_port(), memory.write_port(granularity=len(value) // pieces)
            m.d.comb += [port.addr.eq(within(self.out_addr) if read is None else read), port.en.eq(1)]
            m.d.comb += [sink.addr.eq(addr), sink.data.eq(value), sink.en.eq(en)]
            outputs.append(port.data)
        return outputs[0], outputs[1], outputs[2]
