"""Sorting as a template: the threads of a block and how many pairs each of them has (kernels: `sort_kernels.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.sort_kernels import DeviceSort, SortTiling, is_selected, longest_run
from tilewright.backend.gpu.schedule.written_loops import find_written, schedule_written
from tilewright.target import DeviceTarget
from tilewright.topi import tag
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import shape_of
from tilewright.topi.schedule.template import Template

_THREADS, _ELEMENTS = (32, 64, 128, 256), (1, 2, 4, 8)
#: Bytes of a pair's position, and shared bytes beside the pairs.
_POSITION, _BESIDE = 4, 8
#: Accesses of shared memory by which a round moves a pair, beside those of the search, and cycles until one answers.
_MOVES, _ANSWER = 6, 30
#: Accesses of memory that a launch waits for: it reads and writes.
_ACCESSES = 2
#: Kernels of sorting keep more values than others: registers of a thread, beside those of its pairs.
_REGISTERS, _OF_PAIR = 32, 4


@dataclass(frozen=True)
class SortWorkload:
    """So many rows of `size` elements of `itemsize` bytes; the first `count` positions are wanted, 0 stands for all."""

    rows: int
    size: int
    itemsize: int
    count: int = 0


def fits_sort(outs: list[te.Tensor]) -> te.Tensor | None:
    """The argsort that the computation of `outs` has; None where it has none, or other loops too."""
    return find_written(outs, tag.SORT)


def workload(anchor: te.Tensor, out: te.Tensor) -> SortWorkload:
    """The sizes of an argsort."""
    (source,), attrs = anchor.op.input_tensors, anchor.op.attrs
    shape = shape_of(source)
    size = shape[attrs["axis"]]
    others = math.prod(shape[: attrs["axis"]]) * math.prod(shape[attrs["axis"] + 1 :])
    return SortWorkload(others, size, max(1, source.dtype.itemsize), attrs["count"] or 0)


def space(facts: SortWorkload, target: DeviceTarget) -> ConfigSpace:
    """Tiles of pairs that shared memory holds."""
    found = ConfigSpace()
    found.define_knob("threads", [n for n in _THREADS if n <= target.max_threads_per_block])
    found.define_knob("elements", _ELEMENTS)
    most = target.max_shared_memory_per_block
    found.require(lambda c: _shared(c["threads"] * c["elements"], facts) <= most)
    return found


def _shared(tile: int, facts: SortWorkload) -> int:
    return tile * (facts.itemsize + _POSITION) + _BESIDE


def cost(facts: SortWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles: the rounds of each tile by its accesses of shared memory or their delay, and the launches that follow."""
    machine = machine_of(target)
    tile = config["threads"] * config["elements"]
    run = longest_run(facts.size, tile)
    rounds = max(run.bit_length() - 1, 0)
    searched = sum(range(1, rounds + 1))
    words = (facts.itemsize + _POSITION) / _POSITION
    work = tile * words * (searched + _MOVES * rounds)
    registers = _REGISTERS + _OF_PAIR * config["elements"]
    resident = min(
        machine.threads // config["threads"],
        machine.blocks,
        machine.registers // (config["threads"] * registers),
        machine.shared_per_multiprocessor // (_shared(tile, facts) + machine.shared_reserved),
    )

    def seconds(tiles: float, accesses: float, answers: float) -> float:
        """A launch over so many tiles."""
        held = max(1.0, min(resident, tiles / machine.multiprocessors))
        waves = math.ceil(tiles / (machine.multiprocessors * held))
        cycles = waves * max(held * accesses * _POSITION / machine.shared_bytes, answers * _ANSWER)
        moved = tiles * tile * (facts.itemsize + _POSITION) * 2 / machine.dram_bytes
        return max(cycles / machine.clock, moved) + _ACCESSES * machine.latency + machine.launch

    tiles = facts.rows * facts.size / run / max(1, tile // run)
    total = seconds(max(1.0, tiles), work, searched + _MOVES * rounds)
    left = facts.size
    if is_selected(facts.count, tile):
        while left > tile:
            left = -(-left // tile) * facts.count
            total += seconds(facts.rows * max(1.0, left / tile), work, searched + _MOVES * rounds)
    elif left > tile:
        steps = tile.bit_length()
        merging = seconds(facts.rows * left / tile, tile * words * (steps + _MOVES), steps + _MOVES)
        probes = 2 * left.bit_length() * machine.latency
        total += math.ceil(math.log2(left / tile)) * (merging + probes)
    return Cost(arithmetic=total * machine.clock, fixed=machine.launch * machine.clock)


def schedule(s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config) -> None:
    """Sort by the kernels of a configuration of `space`."""
    attrs, tiling = anchor.op.attrs, SortTiling(config["threads"], config["elements"])
    schedule_written(
        s, anchor, out, target,
        lambda source, result: DeviceSort(
            source, result, attrs["axis"], attrs["is_ascend"], attrs["count"], tiling
        ).statement(),
    )  # fmt: skip


SORT = Template("sort", workload, space, cost, schedule)  # type: ignore[arg-type]
