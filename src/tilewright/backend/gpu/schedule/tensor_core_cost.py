"""The search space of products on tensor cores, and the time that each configuration is expected to take.

A block goes through the depth in steps; a step takes as long as the slowest of its multiply-adds, its traffic with
shared memory, its share of the second-level cache, and what is left of the latency that the stages do not hide. Blocks
run in waves of as many as the multiprocessors hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.backend.gpu.schedule.machine import ENOUGH_BLOCKS, GpuMachine, machine_of
from tilewright.backend.gpu.schedule.parts import COUNT_BYTES, parts_cycles
from tilewright.target import DeviceTarget
from tilewright.tir.tensor_core import INSTRUCTIONS, Tiling, shared_bytes
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace

#: Rows and columns of a block, and the warps that share each.
_TILES = (
    (256, 128, 4, 2), (128, 256, 2, 4), (256, 64, 4, 2), (64, 256, 2, 4), (128, 128, 2, 4), (128, 128, 4, 2),
    (128, 128, 2, 2), (128, 64, 4, 2), (64, 128, 2, 4), (128, 64, 2, 2), (64, 128, 2, 2), (64, 64, 2, 2),
    (128, 32, 4, 1), (32, 128, 1, 4), (64, 32, 2, 2), (32, 64, 2, 2), (32, 32, 2, 2), (16, 128, 1, 4), (16, 64, 1, 4),
    (64, 16, 4, 1),
)  # fmt: skip
#: The architecture that has products of warpgroups: none after it does.
_WITH_WARPGROUPS = "sm_90a"
#: The same of warpgroups: four warps of neighbouring rows multiply together.
_WARPGROUP_TILES = (
    (256, 128, 16, 1), (128, 256, 8, 2), (128, 256, 8, 1), (256, 128, 8, 1), (128, 128, 8, 1), (64, 256, 4, 2),
    (64, 128, 4, 2), (128, 64, 8, 1), (64, 128, 4, 1), (64, 64, 4, 1), (64, 32, 4, 1), (128, 32, 8, 1),
)  # fmt: skip
#: Bytes of the depth in a warpgroup's step, and its least stages: one on the way, one that is read, one being left.
_WARPGROUP_DEPTH, _WARPGROUP_STAGES = 128, 3
#: Bytes of an operand's row in a step, and the steps that are in shared memory.
_DEPTHS, _STAGES = (64, 128), (4, 3, 5, 2)
#: Parts that the terms may be divided into, and steps that a part has at least.
_PARTS, _LEAST_STEPS = (1, 2, 3, 4, 6, 8, 12, 16), 4
#: Bytes of the sum of a row's or a column's terms.
_WIDE = 4
#: Registers of a thread beside those of its sums and fragments: addresses and counters.
_OTHER_REGISTERS = 40
#: Warps from which on a multiprocessor always finds one that can go on.
_ENOUGH_WARPS = 8


@dataclass(frozen=True)
class TensorCoreWorkload:
    """So many products of [rows, depth] by [depth, columns] of `dtype`; elements of the result have `out_bytes`.

    `extra_bytes` are those that the epilogue reads for an element of the result. `along_depth`: neighbours along the
    depth are neighbours in memory, of both operands. `centred`: numbers are subtracted from bytes, which takes sums of
    all terms of a row. `in_order` where tiles of the result are tiles of the sums: their axes have the same order, of
    known sizes.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    dtype: str
    out_bytes: int
    extra_bytes: int = 0
    along_depth: bool = False
    centred: bool = False
    in_order: bool = True

    @property
    def itemsize(self) -> int:
        """Bytes of an element of an operand."""
        return INSTRUCTIONS[self.dtype].itemsize


def tiling_of(config: Mapping[str, int], itemsize: int, resident: int = 1) -> Tiling:
    """The shares of warps and the steps of a configuration, for so many blocks on a multiprocessor."""
    return Tiling(
        rows=config["rows"],
        columns=config["columns"],
        warps_rows=config["warps_rows"],
        warps_columns=config["warps_columns"],
        depth=config["depth_bytes"] // itemsize,
        stages=config["stages"],
        resident=resident,
        warpgroups=bool(config["warpgroups"]),
    )


def tensor_core_space(facts: TensorCoreWorkload, target: DeviceTarget) -> ConfigSpace:
    """Tiles, warps, depths and stages that fit the target."""
    found, machine = ConfigSpace(), machine_of(target)
    fitting = [tile for tile in _TILES if 32 * tile[2] * tile[3] <= target.max_threads_per_block]
    rows = [(*tile, 0) for tile in fitting]
    if machine.wgmma and target.arch == _WITH_WARPGROUPS and facts.along_depth:
        rows = [(*tile, 1) for tile in _WARPGROUP_TILES] + rows
    found.define_joint(("rows", "columns", "warps_rows", "warps_columns", "warpgroups"), rows)
    found.define_knob("depth_bytes", _DEPTHS)
    found.define_knob("stages", _STAGES)
    found.define_knob("parts", _PARTS)
    found.require(lambda config: config["parts"] == 1 or (not facts.centred and _divides_terms(config, facts, machine)))
    found.define_knob("joined", (0, 1) if facts.in_order else (0,), absent=0)
    found.require(lambda config: not config["joined"] or config["parts"] > 1)
    found.require(lambda config: _shared(config, facts) <= target.max_dynamic_shared_memory)
    found.require(lambda config: config["stages"] <= max(_WARPGROUP_STAGES, _steps(config, facts) + 1))
    found.require(
        lambda config: (
            not config["warpgroups"]
            or (config["depth_bytes"] == _WARPGROUP_DEPTH and config["stages"] >= _WARPGROUP_STAGES)
        )
    )
    found.require(lambda config: resident_blocks(config, facts, machine) >= least_blocks(config, machine))
    return found


def _steps(config: Mapping[str, int], facts: TensorCoreWorkload) -> int:
    """Steps of a block along its part of the depth."""
    return -(-facts.depth * facts.itemsize // (config["depth_bytes"] * config["parts"]))


def _divides_terms(config: Mapping[str, int], facts: TensorCoreWorkload, machine: GpuMachine) -> bool:
    """True if there are terms enough for the parts, and without parts too few blocks."""
    blocks = facts.batch * -(-facts.rows // config["rows"]) * -(-facts.columns // config["columns"])
    return _steps(config, facts) >= _LEAST_STEPS and blocks * config["parts"] <= ENOUGH_BLOCKS * machine.multiprocessors


def _threads(config: Mapping[str, int]) -> int:
    return 32 * config["warps_rows"] * config["warps_columns"]


def _shared(config: Mapping[str, int], facts: TensorCoreWorkload) -> int:
    totals = _WIDE * (config["rows"] + config["columns"]) if facts.centred else 0
    return shared_bytes(tiling_of(config, facts.itemsize), facts.itemsize) + totals + COUNT_BYTES * config["joined"]


def registers_of(config: Mapping[str, int]) -> int:
    """Registers that a thread is expected to need."""
    rows, columns = config["rows"] // config["warps_rows"], config["columns"] // config["warps_columns"]
    fragments = 0 if config["warpgroups"] else (rows + columns) // 4
    return _OTHER_REGISTERS + rows * columns // 32 + fragments


def least_blocks(config: Mapping[str, int], machine: GpuMachine) -> int:
    """Blocks by which a quarter of a multiprocessor's threads is in use, which hides most of what they wait for."""
    return -(-machine.threads // 4 // _threads(config))


def resident_blocks(config: Mapping[str, int], facts: TensorCoreWorkload, machine: GpuMachine) -> int:
    """Blocks that a multiprocessor holds at a time, at least one."""
    threads = _threads(config)
    registers = -(-registers_of(config) // 8) * 8
    held = min(
        machine.threads // threads,
        machine.registers // (threads * registers),
        machine.shared_per_multiprocessor // (_shared(config, facts) + machine.shared_reserved),
        machine.blocks,
    )
    return max(1, held)


def tensor_core_cost(facts: TensorCoreWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles of a multiprocessor: waves of blocks, each as long as its steps and its epilogue."""
    machine = machine_of(target)
    rows, columns = -(-facts.rows // config["rows"]), -(-facts.columns // config["columns"])
    blocks = facts.batch * rows * columns * config["parts"]
    held = resident_blocks(config, facts, machine)
    whole, rest = divmod(blocks, machine.multiprocessors * held)
    cycles = whole * _wave(config, facts, machine, held)
    if rest:
        cycles += _wave(config, facts, machine, -(-rest // machine.multiprocessors))
    operands = facts.batch * (facts.rows + facts.columns) * facts.depth * facts.itemsize
    results = facts.batch * facts.rows * facts.columns * (facts.out_bytes + facts.extra_bytes)
    memory = (operands + results) / machine.dram_bytes * machine.clock
    if config["parts"] > 1:
        sums, tile = facts.batch * facts.rows * facts.columns, config["rows"] * config["columns"]
        cycles += parts_cycles(machine, config["parts"], bool(config["joined"]), sums, tile)
    return Cost(arithmetic=cycles, memory=memory, fixed=machine.launch * machine.clock)


def _wave(config: Config, facts: TensorCoreWorkload, machine: GpuMachine, held: int) -> float:
    """Cycles of one wave, in which a multiprocessor has `held` blocks."""
    itemsize, depth = facts.itemsize, config["depth_bytes"] // facts.itemsize
    rows, columns = config["rows"], config["columns"]
    warps = config["warps_rows"] * config["warps_columns"]
    steps = _steps(config, facts)
    rate = machine.tensor_float16 if itemsize == 2 else machine.tensor_int8
    busy = min(1.0, held * warps / _ENOUGH_WARPS)
    share = machine.wgmma if config["warpgroups"] else machine.mma_sync
    products = held * rows * columns * depth / (rate * share * busy)
    readers = config["warps_rows"] // 4 if config["warpgroups"] else config["warps_rows"]
    fragments = rows * config["warps_columns"] + columns * readers  # each read by the warps beside it
    shared = held * (fragments + rows + columns) * depth * itemsize / machine.shared_bytes
    share = machine.l2_bytes / machine.multiprocessors / machine.clock
    brought = held * (rows + columns) * depth * itemsize / share
    latency = machine.latency * machine.clock
    ahead = config["stages"] - 2 if config["warpgroups"] else config["stages"] - 1
    longest = max(products, shared, brought)
    step = longest + max(0.0, latency - ahead * longest) / ahead
    written = held * rows * columns * (facts.out_bytes + facts.extra_bytes) / share
    stored = held * rows * columns * 8 / machine.shared_bytes
    return latency + steps * step + written + stored + latency
