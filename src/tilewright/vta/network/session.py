"""A network on an accelerator: its DRAM filled once, then operands brought in as tiles and results taken out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tilewright.vta.dram import Dram
from tilewright.vta.driver import open_driver
from tilewright.vta.isa import Isa
from tilewright.vta.network.block import Plan, config_of, moved, pack_operands, unpack_results
from tilewright.vta.schedule.layout import Array


class Session:
    """The plan and the image of a `network.Compiled`, on a driver of the kind `kind`. `counters` sums up all runs."""

    def __init__(self, plan: Plan, image: Array, kind: str = "native") -> None:
        self.plan, self.config = plan, config_of(plan)
        self.isa = Isa(self.config)
        dram = Dram(self.isa, plan["dram"])
        dram.data[plan["base"] :] = image
        self.driver, self._lock = open_driver(kind, self.isa, dram), threading.Lock()

    @property
    def counters(self) -> Counter[str]:
        """The driver's counters so far."""
        return self.driver.counters

    def run(self, operands: Sequence[Array]) -> list[Array]:
        """The outputs, int8 or int32 [images, channels, rows, columns]."""
        block = np.zeros(self.plan["base"], np.uint8)
        pack_operands(self.plan, operands, block)
        self.execute(block)
        return unpack_results(self.plan, block)

    def execute(self, block: Array) -> None:
        """Run the program on the operands in a block, which its results come to; one run at a time."""
        with self._lock:
            moved(self.plan, block, self.driver.dram.data, results=False)
            self.driver.run(*self.plan["program"])
            moved(self.plan, self.driver.dram.data, block, results=True)
