"""The cycle simulator behind the driver interface: cycles from the model of time, results by executing in its order."""

from __future__ import annotations

from collections import Counter

from tilewright.vta.codec import unpack
from tilewright.vta.cycle.chip import simulate
from tilewright.vta.dram import Dram
from tilewright.vta.driver import Driver
from tilewright.vta.functional import Simulator
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.usage import Usage


class CycleDriver(Driver):
    """A chip with a clock. `usage` is what its units did in the last run.

    Instructions are executed, and every rule checked, in the order in which the model of time begins them.
    """

    def __init__(self, isa: Isa, dram: Dram, hardware: Hardware | None = None) -> None:
        super().__init__(isa, dram)
        self.hardware = hardware or Hardware()
        self.simulator = Simulator(isa, dram)
        self.usage = Usage(0, {})

    def run(self, address: int, count: int) -> Counter[str]:
        """Time, then results."""
        program = unpack(self.isa, self.fetch(address, count))
        chip = simulate(self.isa, program, self.dram.data, self.hardware, address)
        self.usage = chip.usage()
        before = Counter(self.simulator.counters)
        self.simulator.run(program, order=[position for _, position in sorted(chip.order)])
        new = self.simulator.counters - before
        new["cycles"] = self.usage.cycles
        self.counters += new
        return new
