"""The load unit: inputs and weights, in the order of its queue, each when its tokens are there."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib.memory import Memory

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.rtl.gemm import Gemm
from tilewright.vta.rtl.parts import Tokens, fields
from tilewright.vta.rtl.reader import Reader


class Load(Elaboratable):
    """`valid`, `word`, `take` are its queue's read side. The memories that `gemm` reads are here."""

    def __init__(self, isa: Isa, hardware: Hardware, tokens: dict[str, Tokens], gemm: Gemm) -> None:
        self.isa, self.tokens, self.gemm = isa, tokens, gemm
        self.valid, self.take, self.word = Signal(), Signal(), Signal(isa.instruction_bits)
        self.reader = Reader(isa, hardware, ("INP", "WGT"))
        #: For traces: waits for a token, loads.
        self.status = Signal(2)

    def elaborate(self, platform: Any) -> Module:
        """A reader behind the tokens."""
        m = Module()
        m.submodules.reader = reader = self.reader
        flags = fields(self.isa.formats["LOAD"], self.word)
        waits = self.tokens["compute to load"]
        m.d.comb += [
            reader.word.eq(self.word),
            reader.valid.eq(self.valid & (~flags["pop_next"] | waits.there)),
            self.take.eq(reader.valid & reader.ready),
            waits.take.eq(self.take & flags["pop_next"]),
            self.tokens["load to compute"].push.eq(reader.push_next),
            self.status[0].eq(self.valid & flags["pop_next"] & ~waits.there),
            self.status[1].eq(reader.busy),
        ]
        indices = self.gemm.sequencer.index
        for name, addr, data in (("INP", indices["src"], self.gemm.inp), ("WGT", indices["wgt"], self.gemm.wgt)):
            kind, write = self.isa.memories[name], reader.writes[name]
            m.submodules[name] = memory = Memory(shape=8 * kind.element_bytes, depth=kind.depth, init=[])
            port, sink = memory.read_port(), memory.write_port(granularity=8 * kind.element_bytes // len(write.en))
            m.d.comb += [port.addr.eq(addr), port.en.eq(1), data.eq(port.data)]
            m.d.comb += [sink.addr.eq(write.addr), sink.data.eq(write.data), sink.en.eq(write.en)]
        return m
