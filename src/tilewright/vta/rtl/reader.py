"""Reader: the LOAD instruction, rows of a matrix in DRAM to a memory on the chip, with padding around them.

Two halves work on up to four instructions: one requests bursts, the other stores what arrives at its address. So the
next instruction's rows are under way while those of the one before still come in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import MEMORY_IDS, Isa
from tilewright.vta.isa import Memory as Kind
from tilewright.vta.rtl.parts import ADDRESS_BITS, ReadPort, burst_beats, choose, fields, log2, queue, repeat

#: Instructions between the halves.
UNDER_WAY = 4


def lanes(kind: Kind, hardware: Hardware) -> int:
    """Parts of an element that are written on their own: one for each beat that it comes in."""
    return max(1, kind.element_bytes // hardware.port_bytes)


@dataclass
class SramWrite:
    """The write side of a memory on the chip: an element's address, its bits, and which of its lanes change."""

    en: Signal
    addr: Signal
    data: Signal

    @classmethod
    def make(cls, kind: Kind, hardware: Hardware) -> SramWrite:
        """All its signals, named."""
        return cls(
            Signal(lanes(kind, hardware), name=f"{kind.name}_en"),
            Signal(max(1, log2(kind.depth)), name=f"{kind.name}_addr"),
            Signal(8 * kind.element_bytes, name=f"{kind.name}_data"),
        )


class Reader(Elaboratable):
    """`valid` with `word` hands it an instruction that need not wait; `done` with `pushes` says that one is finished.

    `memories` are those that it fills; `writes` their write sides, by the memory on the chip.
    """

    def __init__(self, isa: Isa, hardware: Hardware, memories: tuple[str, ...]) -> None:
        self.isa, self.hardware = isa, hardware
        self.kinds = [isa.memories[name] for name in memories]
        self.valid, self.ready, self.word = Signal(), Signal(), Signal(isa.instruction_bits)
        self.done, self.push_prev, self.push_next = Signal(), Signal(), Signal()
        self.bases = {name: Signal(ADDRESS_BITS, name=f"{name}_base") for name in memories}
        self.port = ReadPort.make(hardware, "_".join(memories) + "_")
        self.writes = {name: SramWrite.make(isa.memories[name], hardware) for name in memories if name != "ACC_8BIT"}
        self.busy = Signal()

    def _pick(self, mem_id: Value, values: list[Any]) -> Any:
        """The value of the memory that an instruction names."""
        return choose(mem_id, {MEMORY_IDS[k.name]: v for k, v in zip(self.kinds[1:], values[1:])}, values[0])

    def elaborate(self, platform: Any) -> Module:
        """Both halves and the queue between them."""
        m = Module()
        pending = queue(m, "pending", self.isa.instruction_bits, UNDER_WAY)
        asking = self._ask(m, pending)
        self._position(m, pending)
        m.d.comb += self.busy.eq(asking | pending.r_rdy)
        return m

    def _ask(self, m: Module, pending: Any) -> Signal:
        """Bursts for each row."""
        width = log2(self.hardware.port_bytes)
        asking, rows, row = Signal(), Signal(24), Signal(ADDRESS_BITS)
        size, stride, beat, left = (Signal(ADDRESS_BITS, name=x) for x in ("size", "stride", "beat", "left"))
        new = fields(self.isa.formats["LOAD"], self.word)
        shifts = [log2(kind.element_bytes) for kind in self.kinds]
        scaled = {x: self._pick(new["mem_id"], [new[x] << s for s in shifts]) for x in ("dram", "x_size", "x_stride")}
        start = scaled["dram"] + self._pick(new["mem_id"], list(self.bases.values()))
        m.d.comb += [self.ready.eq(~asking & pending.w_rdy), pending.w_data.eq(self.word)]
        m.d.comb += pending.w_en.eq(self.valid & self.ready)

        def begin(address: Value, length: Value) -> list[Any]:
            first, last = address[width:ADDRESS_BITS], (address + length - 1)[width:ADDRESS_BITS]
            return [row.eq(address), beat.eq(first), left.eq(last - first + 1)]

        length = Signal(9)
        m.d.comb += [
            length.eq(burst_beats(beat, left, self.hardware)),
            self.port.ar_valid.eq(asking),
            self.port.ar_addr.eq(beat << width),
            self.port.ar_len.eq(length - 1),
        ]
        with m.If(pending.w_en & (new["x_size"] != 0)):
            m.d.sync += [asking.eq(1), rows.eq(new["y_size"]), size.eq(scaled["x_size"])]
            m.d.sync += [stride.eq(scaled["x_stride"]), *begin((start + 0)[:ADDRESS_BITS], scaled["x_size"])]
        with m.Elif(asking & self.port.ar_ready):
            m.d.sync += [beat.eq(beat + length), left.eq(left - length)]
            with m.If(left == length):
                m.d.sync += [rows.eq(rows - 1), *begin((row + stride)[:ADDRESS_BITS], size), asking.eq(rows != 1)]
        return asking

    def _position(self, m: Module, pending: Any) -> None:
        """Elements one after another: padding at one a cycle, data as their beats come."""
        x = fields(self.isa.formats["LOAD"], pending.r_data)
        row, column, at, beat, skipped = Signal(24), Signal(24), Signal(24), Signal(16), Signal(16)
        last_column = column == x["x_pad_0"] + x["x_size"] + x["x_pad_1"] - 1
        last_row = row == x["y_pad_0"] + x["y_size"] + x["y_pad_1"] - 1
        data_row = (row >= x["y_pad_0"]) & (row < x["y_pad_0"] + x["y_size"])
        is_data = data_row & (column >= x["x_pad_0"]) & (column < x["x_pad_0"] + x["x_size"])
        width = self.hardware.port_bytes
        per_beat = [max(1, width // k.element_bytes) for k in self.kinds]
        beats = [max(1, k.element_bytes // width) for k in self.kinds]
        # Which element of the beat this is, where a beat has several.
        element = Signal(16)
        m.d.comb += element.eq(
            (x["dram"] + skipped + column - x["x_pad_0"]) & self._pick(x["mem_id"], [n - 1 for n in per_beat])
        )
        last_of_beat = element == self._pick(x["mem_id"], [n - 1 for n in per_beat])
        last_of_row = column == x["x_pad_0"] + x["x_size"] - 1
        several = self._pick(x["mem_id"], [int(n > 1) for n in per_beat])
        last_beat = beat == self._pick(x["mem_id"], [n - 1 for n in beats])
        work, placed = Signal(), Signal()
        m.d.comb += [
            work.eq(pending.r_rdy & (x["x_size"] != 0)),
            self.port.r_ready.eq(work & is_data & (~several | last_of_beat | last_of_row)),
            placed.eq(work & Mux(is_data, self.port.r_valid & last_beat, 1)),
            self.done.eq(pending.r_rdy & ((x["x_size"] == 0) | (placed & last_column & last_row))),
            pending.r_en.eq(self.done),
            self.push_prev.eq(self.done & x["push_prev"]),
            self.push_next.eq(self.done & x["push_next"]),
        ]
        with m.If(self.done):
            m.d.sync += [signal.eq(0) for signal in (row, column, at, beat, skipped)]
        with m.Elif(placed):
            m.d.sync += [at.eq(at + 1), beat.eq(0), column.eq(Mux(last_column, 0, column + 1))]
            with m.If(last_column):
                m.d.sync += [row.eq(row + 1), skipped.eq(skipped + Mux(data_row, x["x_stride"], 0))]
        with m.Elif(work & is_data & self.port.r_valid):
            m.d.sync += beat.eq(beat + 1)
        self._write(m, x, x["sram"] + at, work & (~is_data | self.port.r_valid), is_data, beat, element)

    def _write(self, m: Module, x: dict[str, Any], at: Any, now: Any, is_data: Any, beat: Any, element: Any) -> None:
        """A beat, an element of one, or padding to the memory that the instruction names."""
        pad = x.get("pad_value", 0)
        for kind in self.kinds:
            short = kind.name == "ACC_8BIT"
            write = self.writes["ACC" if short else kind.name]
            here, size = x["mem_id"] == MEMORY_IDS[kind.name], 8 * kind.element_bytes
            bits = 8 * kind.dtype.itemsize
            data = self.port.r_data
            if size < len(data):
                data = data.word_select(element[: log2(len(data) // size)], size)
            if short:
                bits, data = 32, _extended(data)
            beats = lanes(kind, self.hardware)
            padding = Signal(bits, name=f"padding_{kind.name}")
            m.d.comb += padding.eq(pad)
            with m.If(here):
                lane = Const(-1, len(write.en)) if beats == 1 else _lane(beat, beats, len(write.en))
                filled = repeat(data, len(write.data) // len(data))
                m.d.comb += [
                    write.addr.eq(at),
                    write.data.eq(Mux(is_data, filled, repeat(padding, len(write.data) // bits))),
                    write.en.eq(Mux(now, Mux(is_data, lane, Const(-1, len(write.en))), 0)),
                ]


def _extended(data: Value) -> Value:
    """Bytes as 32-bit numbers."""
    parts = []
    for at in range(0, len(data), 8):
        byte = data[at : at + 8]
        parts += [byte, repeat(byte[7], 24)]
    return Cat(*parts)


def _lane(beat: Value, beats: int, width: int) -> Any:
    """The lanes that a beat of an element fills: one, or several where its numbers become wider."""
    group = width // beats
    return Cat(*[repeat(beat == n, group) for n in range(beats)])
