"""The one interface behind which an accelerator runs programs, whatever it is made of.

    dram = Dram(isa, 1 << 20)
    driver = open_driver("checked", isa, dram)
    address = dram.put_bytes(pack(isa, program))
    counters = driver.run(address, len(program))

Instructions, micro-ops and data lie in DRAM. A run is what the control registers of the chip do: the address and the
number of the instructions are written, launch is set, and finish is awaited. All that a run changes is DRAM, the
memories on the chip, which keep what they hold until the next run, and the counters.

To add a kind: a class of `Driver` with `run`, and a line in `DRIVERS`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections import Counter

from tilewright.errors import InputError
from tilewright.vta.dram import Dram
from tilewright.vta.isa import Isa

#: The counters that every driver has: bytes moved by memory, and steps, a tile each, of the two loops.
COUNTERS = (
    "INP bytes", "WGT bytes", "ACC bytes", "ACC_8BIT bytes", "UOP bytes", "OUT bytes", "GEMM steps", "ALU steps",
)  # fmt: skip

#: Kinds of drivers: where the class of each is. They are imported on use, as some need more than others.
DRIVERS = {
    "native": "tilewright.vta.native:NativeDriver",  # fast, in one order
    "checked": "tilewright.vta.functional:CheckedDriver",  # every rule checked, races found, any order
    "cycle": "tilewright.vta.cycle.driver:CycleDriver",  # checked, with the time that it takes
    "rtl": "tilewright.vta.rtl.verilator:VerilatedDriver",  # the RTL, cycle by cycle
}


class Driver(ABC):
    """An accelerator and its DRAM. `counters` sums up all runs; drivers that know time count "cycles" as well."""

    def __init__(self, isa: Isa, dram: Dram) -> None:
        self.isa, self.dram = isa, dram
        self.counters: Counter[str] = Counter()

    @abstractmethod
    def run(self, address: int, count: int) -> Counter[str]:
        """Execute the `count` instructions at byte `address` of DRAM until FINISH; what this run counted.

        Raises `ProgramError` for what the accelerator refuses or waits for in vain.
        """

    def fetch(self, address: int, count: int) -> bytes:
        """The bytes of a program. `InputError` where DRAM ends before it does."""
        size = count * self.isa.instruction_bits // 8
        if address < 0 or count < 0 or address + size > self.dram.data.size:
            raise InputError(
                f"{count} instructions at byte {address} reach beyond DRAM, which has {self.dram.data.size} bytes"
            )
        return self.dram.data[address : address + size].tobytes()


def open_driver(kind: str, isa: Isa, dram: Dram) -> Driver:
    """A driver of `DRIVERS`. `InputError` with the kinds there are."""
    if kind not in DRIVERS:
        raise InputError(f"there is no accelerator {kind!r}; there are: {', '.join(DRIVERS)}")
    module, _, name = DRIVERS[kind].partition(":")
    made = getattr(importlib.import_module(module), name)(isa, dram)
    assert isinstance(made, Driver)
    return made
