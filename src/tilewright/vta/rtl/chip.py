"""The whole chip: units, queues between them, the memory port, and the registers of the host.

Registers of 32 bits, by address: 0x00 launch (bit 0, written) and finish (bit 1), 0x04 cycles, 0x08 how many
instructions, 0x0c their address, 0x10 to 0x20 the addresses at which micro-ops, inputs, weights, accumulators and
outputs begin; all addresses in bytes.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal

from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.registers import REGISTERS
from tilewright.vta.rtl.compute import Compute
from tilewright.vta.rtl.fetch import Fetch
from tilewright.vta.rtl.load import Load
from tilewright.vta.rtl.parts import ADDRESS_BITS, ReadPort, Tokens, WritePort, choose, queue
from tilewright.vta.rtl.store import Store

TOKENS = ("load to compute", "compute to load", "compute to store", "store to compute")


class Chip(Elaboratable):
    """`reg_*` is the host's side; `ar_*`, `r_*`, `aw_*`, `w_*`, `b_*` the memory's; `status` is for traces."""

    def __init__(self, isa: Isa, hardware: Hardware) -> None:
        self.isa, self.hardware = isa, hardware
        self.reg_write = Signal()
        self.reg_addr = Signal(8)
        self.reg_value = Signal(32)
        self.reg_read = Signal(32)
        self.read, self.write = ReadPort.make(hardware, ""), WritePort.make(hardware, "")
        self.status = Signal(8)
        tokens = self.tokens = {name: Tokens(name.replace(" ", "_")) for name in TOKENS}
        self.compute = Compute(isa, hardware, tokens)
        self.load = Load(isa, hardware, tokens, self.compute.gemm)
        self.store = Store(isa, hardware, tokens)
        self.fetch = Fetch(isa, hardware)

    def ports(self) -> list[Signal]:
        """All signals that leave the chip."""
        return [
            self.reg_write, self.reg_addr, self.reg_value, self.reg_read, self.status,
            *vars(self.read).values(), *vars(self.write).values(),
        ]  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        """Connections."""
        m = Module()
        m.submodules.fetch, m.submodules.load, m.submodules.store = self.fetch, self.load, self.store
        m.submodules.compute = self.compute
        for token in self.tokens.values():
            token.count_up(m)
        units: dict[str, Load | Compute | Store] = {"load": self.load, "compute": self.compute, "store": self.store}
        for name, unit in units.items():
            commands = queue(m, f"{name}_queue", self.isa.instruction_bits, self.hardware.queue)
            m.d.comb += [
                commands.w_data.eq(self.fetch.word), commands.w_en.eq(self.fetch.valid[name]),
                self.fetch.ready[name].eq(commands.w_rdy),
                unit.valid.eq(commands.r_rdy), unit.word.eq(commands.r_data), commands.r_en.eq(unit.take),
            ]  # fmt: skip
        bank = self.compute.accumulators
        m.d.comb += [bank.out_addr.eq(self.store.out_addr), self.store.out_data.eq(bank.out_data)]
        m.d.comb += [getattr(self.write, k).eq(v) for k, v in vars(self.store.port).items() if k in _OUTWARDS]
        m.d.comb += [v.eq(getattr(self.write, k)) for k, v in vars(self.store.port).items() if k not in _OUTWARDS]
        m.d.comb += self.status.eq(Cat(self.load.status, self.compute.status, self.store.status))
        arbitrate(m, self.read, [self.fetch.port, self.load.reader.port, self.compute.reader.port], self.hardware)
        self._registers(m)
        return m

    def _registers(self, m: Module) -> None:
        """The registers that the host writes and reads."""
        held = {name: Signal(ADDRESS_BITS, name=name) for name in REGISTERS if name not in ("control", "cycles")}
        cycles, running, finished = Signal(32), Signal(), Signal()
        launch = self.reg_write & (self.reg_addr == REGISTERS["control"]) & self.reg_value[0]
        for name, signal in held.items():
            with m.If(self.reg_write & (self.reg_addr == REGISTERS[name])):
                m.d.sync += signal.eq(self.reg_value)
        with m.If(launch):
            m.d.sync += [cycles.eq(0), running.eq(1), finished.eq(0)]
        with m.Elif(running):
            m.d.sync += [cycles.eq(cycles + 1), running.eq(~self.compute.finish), finished.eq(self.compute.finish)]
        values = {REGISTERS[name]: signal for name, signal in held.items()}
        values |= {REGISTERS["control"]: Cat(running, finished), REGISTERS["cycles"]: cycles}
        m.d.comb += self.reg_read.eq(choose(self.reg_addr, values, 0))
        m.d.comb += [self.fetch.launch.eq(launch), self.fetch.address.eq(held["instructions"])]
        m.d.comb += [self.fetch.count.eq(held["count"]), self.store.base.eq(held["OUT"])]
        for reader in (self.load.reader, self.compute.reader):
            for name, base in reader.bases.items():
                m.d.comb += base.eq(held["OUT" if name == "ACC_8BIT" else name])


_OUTWARDS = {"aw_valid", "aw_addr", "aw_len", "w_valid", "w_data", "w_strb", "w_last"}


def arbitrate(m: Module, out: ReadPort, clients: list[ReadPort], hardware: Hardware) -> None:
    """One read port for several: requests in turns, data to the requester, in the order of the requests."""
    bits = 2
    turn, chosen = Signal(bits), Signal(bits)
    asked = queue(m, "asked", bits, hardware.requests)
    # The client whose turn it is, else the next one that asks.
    for start in range(len(clients)):
        found: Any = start
        for step in reversed(range(len(clients))):
            number = (start + step) % len(clients)
            found = Mux(clients[number].ar_valid, number, found)
        with m.If(turn == start):
            m.d.comb += chosen.eq(found)
    for number, client in enumerate(clients):
        with m.If(chosen == number):
            m.d.comb += [out.ar_valid.eq(client.ar_valid & asked.w_rdy), out.ar_addr.eq(client.ar_addr)]
            m.d.comb += [out.ar_len.eq(client.ar_len), client.ar_ready.eq(out.ar_ready & asked.w_rdy)]
        with m.If(asked.r_rdy & (asked.r_data == number)):
            m.d.comb += [client.r_valid.eq(out.r_valid), out.r_ready.eq(client.r_ready)]
        m.d.comb += [client.r_data.eq(out.r_data), client.r_last.eq(out.r_last)]
    m.d.comb += [asked.w_data.eq(chosen), asked.w_en.eq(out.ar_valid & out.ar_ready)]
    m.d.comb += asked.r_en.eq(out.r_valid & out.r_ready & out.r_last)
    with m.If(asked.w_en):
        m.d.sync += turn.eq(Mux(chosen == len(clients) - 1, 0, chosen + 1))
