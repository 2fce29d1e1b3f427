"""Sequencer: the loops of GEMM and ALU, one step a cycle, with the indices of the step two cycles later.

A step's indices are those of its micro-op plus what the rounds of the two loops have added. The next instruction
follows without a gap.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Signal

from tilewright.vta.isa import Isa
from tilewright.vta.rtl.parts import fields, log2


class Sequencer(Elaboratable):
    """`valid`, `word`, `take` are a queue's read side. `go` lets a step begin, `stop` holds all stages.

    `uop_en` and `uop_addr` read a micro-op, `uop` is there a cycle later; after one more `step` with `index`, `last`
    (of the instruction) and the fields that `carried` names.
    """

    def __init__(self, isa: Isa, name: str, carried: tuple[str, ...]) -> None:
        self.isa, self.name, self.carried = isa, name, carried
        self.form = isa.formats[name]
        self.valid, self.take, self.word = Signal(), Signal(), Signal(isa.instruction_bits)
        self.go, self.stop = Signal(), Signal()
        self.uop_en, self.uop_addr, self.uop = Signal(), Signal(isa.config.log_uop_depth or 1), Signal(isa.uop.bits)
        depths = {"dst": "ACC", "src": "INP" if name == "GEMM" else "ACC", "wgt": "WGT"}
        used = [x for x in depths if f"{x}_factor_in" in self.form.by_name]
        self.index = {x: Signal(max(1, log2(isa.memories[depths[x]].depth)), name=f"{name}_{x}") for x in used}
        self.step, self.last = Signal(), Signal()
        self.fields = {x: Signal.like(fields(self.form, self.word)[x], name=f"{name}_{x}") for x in carried}

    def elaborate(self, platform: Any) -> Module:
        """Counters, and two stages behind them."""
        m = Module()
        x = fields(self.form, current := Signal(self.isa.instruction_bits))
        busy, uop, inner, outer = Signal(), Signal(24), Signal(24), Signal(24)
        new = fields(self.form, self.word)
        ends = [uop + 1 == x["uop_end"], inner + 1 == x["iter_in"], outer + 1 == x["iter_out"]]
        issue, last = Signal(), Signal()
        m.d.comb += [
            issue.eq(busy & self.go & ~self.stop),
            last.eq(ends[0] & ends[1] & ends[2]),
            self.take.eq(self.valid & (~busy | (issue & last))),
            self.uop_en.eq(issue),
            self.uop_addr.eq(uop),
        ]
        offsets = {k: (Signal.like(v, name=f"{k}_out"), Signal.like(v, name=f"{k}_in")) for k, v in self.index.items()}
        with m.If(self.take):
            m.d.sync += [busy.eq(1), current.eq(self.word), uop.eq(new["uop_begin"]), inner.eq(0), outer.eq(0)]
            m.d.sync += [offset.eq(0) for pair in offsets.values() for offset in pair]
        with m.Elif(issue):
            self._advance(m, x, offsets, (uop, inner, outer), ends)
            m.d.sync += busy.eq(~last)
        self._index(m, x, offsets, issue, last)
        return m

    def _advance(self, m: Module, x: Any, offsets: Any, counters: tuple[Signal, ...], ends: list[Any]) -> None:
        """The next micro-op, else the next inner round, else the next outer one."""
        uop, inner, outer = counters
        with m.If(~ends[0]):
            m.d.sync += uop.eq(uop + 1)
        with m.Elif(~ends[1]):
            m.d.sync += [uop.eq(x["uop_begin"]), inner.eq(inner + 1)]
            for k, (_, inside) in offsets.items():
                m.d.sync += inside.eq(inside + x[f"{k}_factor_in"])
        with m.Else():
            m.d.sync += [uop.eq(x["uop_begin"]), inner.eq(0), outer.eq(outer + 1)]
            for k, (outside, inside) in offsets.items():
                m.d.sync += [signal.eq(outside + x[f"{k}_factor_out"]) for signal in (outside, inside)]

    def _index(self, m: Module, x: Any, offsets: Any, issue: Signal, last: Signal) -> None:
        """Stage 1 has the micro-op, stage 2 the indices."""
        reading, reading_last = Signal(), Signal()
        kept = {k: Signal.like(v) for k, v in self.index.items()}
        held = {k: Signal.like(v) for k, v in self.fields.items()}
        base = fields(self.isa.uop, self.uop)
        with m.If(~self.stop):
            m.d.sync += [reading.eq(issue), reading_last.eq(last), self.step.eq(reading)]
            m.d.sync += self.last.eq(reading & reading_last)
            m.d.sync += [kept[k].eq(offsets[k][1]) for k in kept]
            m.d.sync += [self.index[k].eq(base[k] + kept[k]) for k in kept]
            m.d.sync += [held[k].eq(x[k]) for k in held]
            m.d.sync += [self.fields[k].eq(held[k]) for k in held]


def highest(form_fields: dict[str, Any], largest: Any, operand: str) -> Any:
    """The highest index of an operand: that of its largest micro-op with all rounds."""
    rounds = form_fields["iter_out"] - 1, form_fields["iter_in"] - 1
    outer, inner = form_fields[f"{operand}_factor_out"], form_fields[f"{operand}_factor_in"]
    return largest + rounds[0] * outer + rounds[1] * inner
