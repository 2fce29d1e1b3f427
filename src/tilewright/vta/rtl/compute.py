"""The compute unit: loads of micro-ops and accumulators, GEMM, ALU, FINISH.

Instructions are taken in their order, but GEMM and ALU may work at the same time where that cannot be seen. Before one
of them is handed out its micro-ops are read through for the lowest and highest accumulator that it reaches; it waits
while one that the other core still works on reaches into the same stretch. Loads wait for both cores and they for
loads. Tokens are given in the order of the program, when all that came before is done, as if one instruction followed
another.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib.memory import Memory

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.rtl.accumulators import Accumulators
from tilewright.vta.rtl.alu import Alu
from tilewright.vta.rtl.gemm import Gemm
from tilewright.vta.rtl.parts import Tokens, fields, log2, opcode_is, queue
from tilewright.vta.rtl.reader import Reader
from tilewright.vta.rtl.sequencer import highest

#: Instructions that a core has and has before it; instructions that are not done.
GEMM_DEPTH, ALU_DEPTH, RETIRE_DEPTH = 4, 16, 32
NOTHING, LOADING, MULTIPLYING, VECTOR = range(4)


class Stretches:
    """The accumulators that a core's instructions reach: from `low` to `high` each, freed in their order."""

    def __init__(self, name: str, depth: int, bits: int) -> None:
        self.used = [Signal(name=f"{name}_used_{i}") for i in range(depth)]
        self.low = [Signal(bits, name=f"{name}_low_{i}") for i in range(depth)]
        self.high = [Signal(bits, name=f"{name}_high_{i}") for i in range(depth)]
        self.free, self.take = Signal(name=f"{name}_free"), Signal(name=f"{name}_take")
        self.first, self.next = Signal(range(depth), name=f"{name}_first"), Signal(range(depth), name=f"{name}_next")
        self.any, self.room = Cat(*self.used).any(), ~Cat(*self.used).all()

    def meets(self, low: Signal, high: Signal) -> Any:
        """True if some accumulator from `low` to `high` is among them."""
        return Cat(*(u & (a <= high) & (b >= low) for u, a, b in zip(self.used, self.low, self.high))).any()

    def keep(self, m: Module, low: Signal, high: Signal) -> None:
        """The logic: `take` enters a stretch, `free` drops the oldest."""
        m.d.sync += [self.next.eq(self.next + self.take), self.first.eq(self.first + self.free)]
        for i, used in enumerate(self.used):
            with m.If(self.take & (self.next == i)):
                m.d.sync += [used.eq(1), self.low[i].eq(low), self.high[i].eq(high)]
            with m.Elif(self.free & (self.first == i)):
                m.d.sync += used.eq(0)


class Compute(Elaboratable):
    """`valid`, `word`, `take` are its queue's read side; `tokens` by name are shared with the other units."""

    def __init__(self, isa: Isa, hardware: Hardware, tokens: dict[str, Tokens]) -> None:
        self.isa, self.hardware, self.tokens = isa, hardware, tokens
        self.valid, self.take, self.word = Signal(), Signal(), Signal(isa.instruction_bits)
        self.reader = Reader(isa, hardware, ("UOP", "ACC", "ACC_8BIT"))
        self.gemm, self.alu = Gemm(isa), Alu(isa)
        self.accumulators = Accumulators(isa, hardware, self.gemm, self.alu, self.reader.writes["ACC"])
        self.finish = Signal()
        #: For traces: waits for a token, loads, a step of GEMM, a step of ALU.
        self.status = Signal(4)

    def elaborate(self, platform: Any) -> Module:
        """The front, which hands out instructions, and the end, which signals tokens."""
        m = Module()
        m.submodules.reader, m.submodules.gemm, m.submodules.alu = self.reader, self.gemm, self.alu
        m.submodules.accumulators = self.accumulators
        bits = max(1, log2(self.isa.memories["ACC"].depth))
        self.low, self.high = Signal(bits), Signal(bits)
        self.of_gemm = Stretches("gemm", GEMM_DEPTH, bits)
        self.of_alu = Stretches("alu", ALU_DEPTH, bits)
        self.retire = queue(m, "retire", 5, RETIRE_DEPTH)
        for core, stretches in ((self.gemm, self.of_gemm), (self.alu, self.of_alu)):
            stretches.keep(m, self.low, self.high)
            m.d.comb += stretches.free.eq(core.done)
        self._front(m)
        self._end(m)
        return m

    def _front(self, m: Module) -> None:
        """Head of the queue; scan of its micro-ops; its stretch; handing out."""
        flags = fields(self.isa.formats["FINISH"], self.word)
        prev, following = self.tokens["load to compute"], self.tokens["store to compute"]
        there = (~flags["pop_prev"] | prev.there) & (~flags["pop_next"] | following.there)
        head = self.valid & self.retire.w_rdy
        is_load = opcode_is(self.isa, self.word, "LOAD")
        moves = is_load & (fields(self.isa.formats["LOAD"], self.word)["x_size"] != 0)
        is_gemm, is_alu = opcode_is(self.isa, self.word, "GEMM"), opcode_is(self.isa, self.word, "ALU")
        current, vector = Signal(self.isa.instruction_bits), Signal()
        scan, issue, waiting, loads = Signal(), Signal(), Signal(), Signal(range(RETIRE_DEPTH + 1))
        idle = ~self.of_gemm.any & ~self.of_alu.any
        m.d.comb += [waiting.eq(self.valid & ~there), self.reader.word.eq(self.word)]
        ready = self._hand_out(m, current, vector, issue)
        scanned = self._scan(m, current, scan)
        with m.FSM():
            with m.State("HEAD"), m.If(head & there):
                with m.If(moves):
                    m.d.comb += self.reader.valid.eq(idle)
                    m.d.comb += self.take.eq(idle & self.reader.ready)
                with m.Elif(is_gemm | is_alu):
                    m.d.comb += self.take.eq(loads == 0)
                    m.d.sync += [current.eq(self.word), vector.eq(is_alu)]
                    with m.If(self.take):
                        m.next = "SCAN"
                with m.Else():
                    m.d.comb += self.take.eq(1)
            with m.State("SCAN"):
                m.d.comb += scan.eq(1)
                with m.If(scanned):
                    m.next = "STRETCH"
            with m.State("STRETCH"):
                self._stretch(m, current, vector)
                m.next = "ISSUE"
            with m.State("ISSUE"):
                m.d.comb += issue.eq(ready & self.retire.w_rdy)
                with m.If(issue):
                    m.next = "HEAD"
        m.d.comb += [prev.take.eq(self.take & flags["pop_prev"]), following.take.eq(self.take & flags["pop_next"])]
        now = Mux(issue, current, self.word)
        kept = fields(self.isa.formats["FINISH"], now)
        kind = Mux(issue, Mux(vector, VECTOR, MULTIPLYING), Mux(moves, LOADING, NOTHING))
        ended = ~issue & opcode_is(self.isa, self.word, "FINISH")
        m.d.comb += self.retire.w_en.eq(issue | (self.take & ~is_gemm & ~is_alu))
        m.d.comb += self.retire.w_data.eq(Cat(kind[:2], kept["push_prev"], kept["push_next"], ended))
        m.d.sync += loads.eq(loads + (self.take & moves) - self.reader.done)
        for bit, value in enumerate((waiting, self.reader.busy, self.gemm.write_en, self.alu.write_en)):
            m.d.comb += self.status[bit].eq(value)

    def _scan(self, m: Module, current: Signal, scan: Signal) -> Any:
        """Least and largest indices of the micro-ops, read through the port of ALU, which pauses; true at the end."""
        memory = Memory(shape=self.isa.uop.bits, depth=self.isa.memories["UOP"].depth, init=[])
        m.submodules.uops = memory
        write = self.reader.writes["UOP"]
        sink = memory.write_port(granularity=self.isa.uop.bits // len(write.en))
        m.d.comb += [sink.addr.eq(write.addr), sink.data.eq(write.data), sink.en.eq(write.en)]
        mine, shared = memory.read_port(), memory.read_port()
        loops, vectors = self.gemm.sequencer, self.alu.sequencer
        x = fields(self.isa.formats["GEMM"], current)
        at, began, reading = Signal(24), Signal(), Signal()
        address = Mux(began, at, x["uop_begin"])
        wanted = scan & (~began | (at != x["uop_end"]))
        asks = Signal()
        m.d.comb += [
            asks.eq(wanted & ~self.alu.stop),
            loops.go.eq(1), mine.en.eq(loops.uop_en), mine.addr.eq(loops.uop_addr), loops.uop.eq(mine.data),
            vectors.go.eq(~asks), shared.en.eq(vectors.uop_en | asks), vectors.uop.eq(shared.data),
            shared.addr.eq(Mux(asks, address, vectors.uop_addr)),
        ]  # fmt: skip
        with m.If(asks):
            m.d.sync += [at.eq(address + 1), began.eq(1)]
        m.d.sync += reading.eq(asks)
        base = fields(self.isa.uop, shared.data)
        self.least = {k: Signal.like(base[k], name=f"least_{k}") for k in ("dst", "src")}
        self.largest = {k: Signal.like(base[k], name=f"largest_{k}") for k in ("dst", "src")}
        for k in self.least:
            with m.If(~began):
                m.d.sync += [self.least[k].eq(-1), self.largest[k].eq(0)]
            with m.Elif(reading):
                m.d.sync += self.least[k].eq(Mux(base[k] < self.least[k], base[k], self.least[k]))
                m.d.sync += self.largest[k].eq(Mux(base[k] > self.largest[k], base[k], self.largest[k]))
        ended = began & ~wanted & ~reading
        with m.If(ended):
            m.d.sync += began.eq(0)
        m.d.comb += [self.gemm.sequencer.stop.eq(0)]
        return ended

    def _stretch(self, m: Module, current: Signal, vector: Signal) -> None:
        """From the least index to the largest with all rounds; ALU reads accumulators at src as well."""
        x = fields(self.isa.formats["ALU"], current)
        both = vector & ~x["use_imm"]
        low, high = self.least["dst"], highest(x, self.largest["dst"], "dst")
        other_low, other_high = self.least["src"], highest(x, self.largest["src"], "src")
        m.d.sync += self.low.eq(Mux(both & (other_low < low), other_low, low))
        m.d.sync += self.high.eq(Mux(both & (other_high > high), other_high, high))

    def _hand_out(self, m: Module, current: Signal, vector: Signal, issue: Signal) -> Any:
        """To the core's queue, if that has room and the other core does not work on the same accumulators."""
        ready = []
        for core, own, other, depth, chosen in (
            (self.gemm, self.of_gemm, self.of_alu, GEMM_DEPTH, ~vector),
            (self.alu, self.of_alu, self.of_gemm, ALU_DEPTH, vector),
        ):
            loops = core.sequencer
            fifo = queue(m, f"for_{loops.name}", self.isa.instruction_bits, depth)
            ready.append(chosen & own.room & ~other.meets(self.low, self.high))
            m.d.comb += [fifo.w_data.eq(current), fifo.w_en.eq(issue & chosen), own.take.eq(issue & chosen)]
            m.d.comb += [loops.word.eq(fifo.r_data), loops.valid.eq(fifo.r_rdy), fifo.r_en.eq(loops.take)]
        return ready[0] | ready[1]

    def _end(self, m: Module) -> None:
        """The oldest instruction is done when its core says so; then its tokens are given."""
        kind, pushes, ended = self.retire.r_data[:2], self.retire.r_data[2:4], self.retire.r_data[4]
        done = {LOADING: self.reader.done, MULTIPLYING: self.gemm.done, VECTOR: self.alu.done}
        ready = kind == NOTHING
        for number, pulse in done.items():
            count, here = Signal(6, name=f"done_{number}"), kind == number
            ready = ready | (here & (count != 0))
            m.d.sync += count.eq(count + pulse - (self.retire.r_en & here))
        m.d.comb += [
            self.retire.r_en.eq(self.retire.r_rdy & ready),
            self.tokens["compute to load"].push.eq(self.retire.r_en & pushes[0]),
            self.tokens["compute to store"].push.eq(self.retire.r_en & pushes[1]),
            self.finish.eq(self.retire.r_en & ended),
        ]
