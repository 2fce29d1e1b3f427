"""The GEMM core: a tile of inputs by a tile of weights, added to a tile of accumulators, one a cycle.

Stages, by the cycle after the sequencer's indices: 0 inputs and weights are read; 1 products; 2 sums of some products;
3 the whole sums, while accumulators are read; 4 both are added; 5 the result is written. A step that reads what one of
the two before it is still writing gets it from there.
"""

from __future__ import annotations

import math
from typing import Any

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, signed

from tilewright.vta.isa import Isa
from tilewright.vta.rtl.parts import total
from tilewright.vta.rtl.sequencer import Sequencer

ACC_BITS = 32


class Gemm(Elaboratable):
    """`inp_*` and `wgt_*` are read sides of memories; `read_*` and `write_*` those of the accumulators."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.sequencer = Sequencer(isa, "GEMM", ("reset",))
        acc = isa.memories["ACC"]
        index = self.sequencer.index
        self.inp = Signal(8 * isa.memories["INP"].element_bytes)
        self.wgt = Signal(8 * isa.memories["WGT"].element_bytes)
        self.read_en, self.read_addr = Signal(), Signal.like(index["dst"])
        self.read_data = Signal(8 * acc.element_bytes)
        self.write_en, self.write_addr, self.write_data = (
            Signal(),
            Signal.like(index["dst"]),
            Signal(len(self.read_data)),
        )
        self.done = Signal()

    def elaborate(self, platform: Any) -> Module:
        """Control beside data, stage by stage."""
        m = Module()
        m.submodules.sequencer = loops = self.sequencer
        stage = (loops.step, loops.last, loops.fields["reset"], loops.index["dst"])
        stages = []
        for number in range(5):
            following = tuple(Signal.like(signal, name=f"stage{number}_{i}") for i, signal in enumerate(stage))
            m.d.sync += [after.eq(before) for after, before in zip(following, stage)]
            stages.append(stage := following)
        sums = self._multiply(m)
        m.d.comb += [self.read_en.eq(stages[2][0]), self.read_addr.eq(stages[2][3])]
        m.d.comb += [self.write_en.eq(stages[4][0]), self.write_addr.eq(stages[4][3]), self.done.eq(stages[4][1])]
        self._accumulate(m, sums, stages[3])
        return m

    def _multiply(self, m: Module) -> list[Signal]:
        """The sums of products, one for each number of a tile of outputs, three cycles after the tiles are there."""
        config = self.isa.config
        bits = 1 << config.log_inp_width, 1 << config.log_wgt_width
        group = 1 << math.ceil(config.log_block / 2)
        sums = []
        for row in range(config.batch):
            for column in range(config.block):
                products = []
                for k in range(config.block):
                    left = self.inp.word_select(row * config.block + k, bits[0]).as_signed()
                    right = self.wgt.word_select(column * config.block + k, bits[1]).as_signed()
                    m.d.sync += (product := Signal(signed(sum(bits)))).eq(left * right)
                    products.append(product)
                parts = []
                for at in range(0, config.block, group):
                    m.d.sync += (part := Signal(signed(ACC_BITS))).eq(total(products[at : at + group]))
                    parts.append(part)
                m.d.sync += (whole := Signal(signed(ACC_BITS))).eq(total(parts))
                sums.append(whole)
        return sums

    def _accumulate(self, m: Module, sums: list[Signal], stage: tuple[Signal, ...]) -> None:
        """The old accumulator, or the one about to be written, plus the sums; zero plus zero for a reset."""
        step, _, reset, dst = stage
        before = forwarded(m, self.read_data, step, dst, self.write_en, self.write_addr, self.write_data)
        added = [before.word_select(i, ACC_BITS) + whole for i, whole in enumerate(sums)]
        m.d.sync += self.write_data.eq(Mux(reset, 0, Cat(*(value[:ACC_BITS] for value in added))))


def forwarded(m: Module, data: Signal, step: Signal, addr: Signal, en: Signal, wrote: Signal, written: Signal) -> Any:
    """The accumulators seen by a read: the last two results are newer than the memory's.

    `en`, `wrote` and `written` are the write that goes on now; the one before it was not in memory when it was read.
    """
    older_en, older_addr, older = Signal(), Signal.like(wrote), Signal.like(written)
    m.d.sync += [older_en.eq(en), older_addr.eq(wrote), older.eq(written)]
    return Mux(en & (wrote == addr), written, Mux(older_en & (older_addr == addr), older, data))
