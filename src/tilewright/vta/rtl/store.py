"""The store unit: tiles of outputs to rows of a matrix in DRAM.

It reads a tile ahead of the bus, and signals its tokens when the memory has answered the last burst.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.rtl.parts import ADDRESS_BITS, Tokens, WritePort, burst_beats, fields, log2, repeat


class Store(Elaboratable):
    """`valid`, `word`, `take` are its queue's read side; `out_addr` requests the tile that `out_data` has next."""

    def __init__(self, isa: Isa, hardware: Hardware, tokens: dict[str, Tokens]) -> None:
        self.isa, self.hardware, self.tokens = isa, hardware, tokens
        self.kind = isa.memories["OUT"]
        self.valid, self.take, self.word = Signal(), Signal(), Signal(isa.instruction_bits)
        self.base, self.port = Signal(ADDRESS_BITS), WritePort.make(hardware, "store_")
        self.out_addr, self.out_data = Signal(max(1, log2(self.kind.depth))), Signal(8 * self.kind.element_bytes)
        #: For traces: waits for a token, stores.
        self.status = Signal(2)

    def elaborate(self, platform: Any) -> Module:
        """One burst after another; then the answers."""
        m = Module()
        x = fields(self.isa.formats["STORE"], self.word)
        waits, port, size = self.tokens["compute to store"], self.port, log2(self.kind.element_bytes)
        width = log2(self.hardware.port_bytes)
        wide = size >= width
        beats = 1 << size - width if wide else 1
        # The row at hand: its address, the beat (or the element, where a beat has several), how many are left.
        unit = width if wide else size
        row, at, left, rows = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS), Signal(32), Signal(24)
        tile, beat, burst, answers = Signal(24), Signal(range(max(beats, 2))), Signal(9), Signal(16)
        ready, moved, length = Signal(), Signal(), Signal(9)
        m.d.comb += ready.eq(self.valid & (~x["pop_prev"] | waits.there))
        m.d.comb += length.eq(burst_beats(at, left, self.hardware) if wide else 1)
        m.d.comb += [port.aw_addr.eq((at << unit >> width) << width), port.aw_len.eq(length - 1)]
        m.d.sync += answers.eq(answers + (port.aw_valid & port.aw_ready) - port.b_valid)

        def begin(address: Any) -> list[Any]:
            return [row.eq(address), at.eq(address[unit:]), left.eq(x["x_size"] << (size - width if wide else 0))]

        with m.FSM():
            with m.State("HEAD"):
                m.d.sync += [tile.eq(x["sram"]), rows.eq(x["y_size"])]
                m.d.sync += begin((self.base + (x["dram"] << size))[:ADDRESS_BITS])
                with m.If(ready & (x["x_size"] != 0)):
                    m.next = "ADDRESS"
                with m.Elif(ready):
                    m.d.comb += self.take.eq(1)
            with m.State("ADDRESS"):
                m.d.comb += port.aw_valid.eq(1)
                m.d.sync += burst.eq(length)
                with m.If(port.aw_ready):
                    m.d.sync += [at.eq(at + length), left.eq(left - length)]
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += [port.w_valid.eq(1), port.w_last.eq(burst == 1), moved.eq(port.w_ready)]
                with m.If(moved):
                    m.d.sync += [burst.eq(burst - 1), beat.eq(beat + 1 if beats > 1 else 0)]
                    with m.If(port.w_last):
                        m.next = "ADDRESS"
                        with m.If(left == 0):
                            m.d.sync += [rows.eq(rows - 1), *begin((row + (x["x_stride"] << size))[:ADDRESS_BITS])]
                            with m.If(rows == 1):
                                m.next = "ANSWERS"
            with m.State("ANSWERS"), m.If(answers == 0):
                m.d.comb += self.take.eq(1)
                m.next = "HEAD"
        following = tile + (moved & (beat == beats - 1))
        with m.If(moved):
            m.d.sync += tile.eq(following)
        m.d.comb += self.out_addr.eq(Mux(moved, following, tile))
        self._data(m, beat, at)
        m.d.comb += [
            waits.take.eq(self.take & x["pop_prev"]),
            self.tokens["store to compute"].push.eq(self.take & x["push_prev"]),
            self.status[0].eq(self.valid & ~ready),
            self.status[1].eq(ready),
        ]
        return m

    def _data(self, m: Module, beat: Signal, at: Signal) -> None:
        """The beat of the tile, or the tile at its position within the beat."""
        port, width, size = self.port, self.hardware.port_bytes, self.kind.element_bytes
        if size >= width:
            m.d.comb += [port.w_data.eq(self.out_data.word_select(beat, 8 * width)), port.w_strb.eq(-1)]
            return
        position = Signal(range(width // size))
        with m.If(port.aw_valid):
            m.d.sync += position.eq(at[: len(position)])
        m.d.comb += port.w_data.eq(repeat(self.out_data, width // size))
        m.d.comb += port.w_strb.eq(((1 << size) - 1) << (position * size))
