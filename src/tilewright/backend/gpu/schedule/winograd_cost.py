"""The time of a Winograd convolution on GPUs, and its search space."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backend.gpu.schedule.machine import GpuMachine, machine_of
from tilewright.backend.gpu.schedule.product import ProductWorkload, product_cost, product_space, product_tiles
from tilewright.target import DeviceTarget
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace

#: Threads of a block of the transforms.
_THREADS = (128, 64, 256)
#: Launches beside that of the products, and trips to memory of each: to read and to write.
_TRANSFORMS, _TRIPS = 2, 2
#: Bytes of an element.
FLOAT = 4


@dataclass(frozen=True)
class WinogradWorkload:
    """`points` products of [filters, channels] by [channels, tiles].

    `image` and `result` count elements that the first launch reads and the last writes.
    """

    points: int
    filters: int
    channels: int
    tiles: int
    image: int
    result: int
    fixed_tiles: bool = True

    @property
    def product(self) -> ProductWorkload:
        """The products, as their template sees them."""
        return ProductWorkload(
            self.points, self.filters, self.tiles, self.channels, FLOAT, True, self.fixed_tiles, self.fixed_tiles
        )


def winograd_space(facts: WinogradWorkload, target: DeviceTarget) -> ConfigSpace:
    """The space of the products, where a tile fits these, and the threads of the transforms."""
    found = product_space(facts.product, target) if product_tiles(facts.product, target) else ConfigSpace()
    found.define_knob("threads", [n for n in _THREADS if n <= target.max_threads_per_block])
    return found


def winograd_cost(facts: WinogradWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Three launches one after the other: transforms at the rate of memory, products as their template has them."""
    machine = machine_of(target)
    before, after = (FLOAT * facts.points * n * facts.tiles for n in (facts.channels, facts.filters))
    weights = FLOAT * facts.points * facts.filters * facts.channels
    near = near_rate(before + after, machine)
    moved = FLOAT * (facts.image + facts.result) + before + after
    transforms = moved / near + _TRANSFORMS * (machine.launch + _TRIPS * machine.latency)
    streamed = (before + after) / near + weights / machine.dram_bytes
    products = product_cost(facts.product, config, target).arithmetic if "rows" in config else 0.0
    cycles = max(products, streamed * machine.clock) + transforms * machine.clock
    return Cost(arithmetic=cycles, fixed=machine.launch * machine.clock)


def near_rate(nbytes: float, machine: GpuMachine) -> float:
    """Bytes a second of what is written and read again: by the second-level cache where it holds them."""
    return machine.l2_bytes if nbytes <= machine.l2 else machine.dram_bytes
