"""Fetch: reads instructions from DRAM, as many ahead as it has room for, and hands them to the queues of the units."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import MEMORY_IDS, Isa
from tilewright.vta.rtl.parts import ADDRESS_BITS, ReadPort, burst_beats, fields, log2, opcode_is, queue

#: Instructions that are requested ahead of those that the units took.
AHEAD = 32


class Fetch(Elaboratable):
    """`launch` with `address` (bytes) and `count` starts it; `out_*` are the queues' write sides, by unit."""

    def __init__(self, isa: Isa, hardware: Hardware) -> None:
        self.isa, self.hardware = isa, hardware
        self.launch, self.address, self.count = Signal(), Signal(ADDRESS_BITS), Signal(32)
        self.port = ReadPort.make(hardware, "fetch_")
        self.word = Signal(isa.instruction_bits)
        self.valid = {unit: Signal(name=f"to_{unit}") for unit in ("load", "compute", "store")}
        self.ready = {unit: Signal(name=f"{unit}_has_room") for unit in self.valid}

    def elaborate(self, platform: Any) -> Module:
        """Requests, assembly of instructions, dispatch."""
        m = Module()
        staged = queue(m, "staged", self.isa.instruction_bits, AHEAD)
        self._request(m, staged.r_en)
        self._assemble(m, staged)
        m.d.comb += self.word.eq(staged.r_data)
        load = fields(self.isa.formats["LOAD"], self.word)
        is_load = opcode_is(self.isa, self.word, "LOAD")
        moves = (load["mem_id"] == MEMORY_IDS["INP"]) | (load["mem_id"] == MEMORY_IDS["WGT"])
        goes = {"load": is_load & moves, "store": opcode_is(self.isa, self.word, "STORE")}
        goes["compute"] = ~goes["load"] & ~goes["store"]
        for unit, here in goes.items():
            m.d.comb += self.valid[unit].eq(staged.r_rdy & here & self.ready[unit])
        m.d.comb += staged.r_en.eq(self.valid["load"] | self.valid["compute"] | self.valid["store"])
        return m

    def _request(self, m: Module, freed: Signal) -> None:
        """Bursts for what is left, as long as there is room for all that was requested."""
        size, width = self.isa.instruction_bits // 8, self.hardware.port_bytes
        left, beat, room = Signal(32), Signal(ADDRESS_BITS), Signal(range(AHEAD + 1), init=AHEAD)
        skipped, asked, length = Signal(4), Signal(32), Signal(9)
        if size >= width:
            each = size // width
            limit = min(AHEAD // 2, self.hardware.burst // each)
            wanted = Mux(left < limit, left, limit) * each
            m.d.comb += [length.eq(burst_beats(beat, wanted, self.hardware)), asked.eq(length >> log2(each))]
        else:  # one beat at a time, which has several; the first ones of the first beat may not be requested
            here = width // size - skipped
            m.d.comb += [length.eq(1), asked.eq(Mux(left < here, left, here))]
        taken = Signal()
        m.d.comb += [
            self.port.ar_valid.eq((left != 0) & (room >= asked)),
            self.port.ar_addr.eq(beat << log2(width)),
            self.port.ar_len.eq(length - 1),
            taken.eq(self.port.ar_valid & self.port.ar_ready),
        ]
        m.d.sync += room.eq(room + freed - Mux(taken, asked, 0))
        with m.If(self.launch):
            m.d.sync += [left.eq(self.count), beat.eq(self.address >> log2(width))]
            if width > size:
                m.d.sync += skipped.eq(self.address[log2(size) : log2(width)])
        with m.Elif(taken):
            m.d.sync += [left.eq(left - asked), beat.eq(beat + length), skipped.eq(0)]

    def _assemble(self, m: Module, staged: Any) -> None:
        """Beats to instructions. There is always room: no more was requested."""
        size, width = self.isa.instruction_bits // 8, self.hardware.port_bytes
        port = self.port
        if size > width:
            kept, at = Signal(8 * (size - width)), Signal(range(size // width))
            m.d.comb += [staged.w_data.eq(kept | (port.r_data << len(kept))), port.r_ready.eq(1)]
            m.d.comb += staged.w_en.eq(port.r_valid & (at == size // width - 1))
            with m.If(port.r_valid):
                m.d.sync += at.eq(at + 1)
                merged = (kept >> 8 * width) | (port.r_data << (len(kept) - 8 * width))
                m.d.sync += kept.eq(merged)
            return
        per_beat = width // size
        at, left = Signal(max(1, log2(per_beat))), Signal(32)
        is_last = (at == per_beat - 1) | (left == 1)
        m.d.comb += [staged.w_en.eq(port.r_valid), port.r_ready.eq(is_last)]
        m.d.comb += staged.w_data.eq(port.r_data.word_select(at, 8 * size) if per_beat > 1 else port.r_data)
        with m.If(self.launch):
            m.d.sync += [left.eq(self.count), at.eq((self.address >> log2(size)) if per_beat > 1 else 0)]
        with m.Elif(port.r_valid):
            m.d.sync += [left.eq(left - 1), at.eq(Mux(is_last, 0, at + 1) if per_beat > 1 else 0)]
