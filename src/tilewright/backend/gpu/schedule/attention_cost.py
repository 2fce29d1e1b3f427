"""The search spaces of attention on devices, and the time that each configuration is expected to take.

A block goes through the keys in steps; a step takes as long as its arithmetic, its traffic with shared memory or what
it brings from the second-level cache, whichever is longest, but no less than its chain of dependent instructions.
Blocks run in waves of as many as the multiprocessors hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.backend.gpu.schedule.attention_plain import PlainTiling, plain_shared
from tilewright.backend.gpu.schedule.attention_tensor_core import AttentionTiling, padded, shared_bytes
from tilewright.backend.gpu.schedule.machine import GpuMachine, machine_of
from tilewright.backend.gpu.schedule.tensor_core import has_tensor_cores
from tilewright.support.dtype import DType
from tilewright.target import DeviceTarget
from tilewright.tir.tensor_core import CHUNK, COLUMNS, ROWS
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace

#: Depths and widths up to which the sums of a row stay in registers.
MOST_DEPTH = 256
#: Blocks on tensor cores: warps beside each other in rows, tiles of sixteen rows of each, warps that divide the keys.
_BLOCKS = ((4, 1, 1), (4, 2, 1), (2, 1, 2), (1, 1, 4), (2, 1, 1), (8, 1, 1), (1, 1, 2), (1, 1, 8), (2, 1, 4))
#: Keys of a warp in a step, and steps in shared memory.
_KEYS, _STAGES = (64, 32, 16), (2, 3)
#: Parts that the keys may be divided into, and keys of a part at least.
_PARTS, _LEAST_KEYS = (1, 2, 4, 8, 16, 32), 128
#: Blocks on plain arithmetic: threads along rows, rows of each, threads along keys, keys of each.
_PLAIN_BLOCKS = (
    (8, 4, 8, 4), (8, 2, 8, 4), (8, 4, 16, 2), (4, 2, 16, 2), (8, 2, 8, 2), (8, 1, 8, 1), (4, 1, 16, 1), (1, 2, 32, 1),
    (1, 1, 64, 1), (1, 1, 32, 1), (2, 1, 16, 1), (4, 1, 8, 1), (4, 2, 32, 2), (8, 1, 16, 2), (8, 2, 16, 2),
)  # fmt: skip
#: Registers of a thread beside those of its fragments, sums and exponentials: addresses and counters.
_OTHER_REGISTERS = 44
#: Registers of an address.
_ADDRESS = 2
#: Bytes of a sum; a multiprocessor has at least one of so many parts of its threads in use.
_WIDE, _SHARE = 4, 4
#: Waves of blocks from which on keys are not divided, and trips to memory of the kernel that adds parts up.
_TRIPS = 2
#: Registers that the compiler needs free to order instructions; where sums are wider than that, and how many then.
_SPARE_REGISTERS, _LIGHT_WIDTH, _WIDE_SPARE_REGISTERS = 8, 128, 64
#: Depths of queries whose fragments stay in registers.
_HELD_DEPTH = 64
#: Instructions of a thread for each score beside its exponential: maxima, scaling, sums, conversion.
_SCORE_INSTRUCTIONS = 6
#: Cycles of the longest chains: a product of fragments, a shuffle, an exponential (microbenchmarks of Ampere).
_PRODUCT_CHAIN, _SHUFFLE_CHAIN = 33, 30
#: Lanes of an SM that compute exponentials, and that compute at all, in a cycle.
_EXPONENTIALS, _LANES = 16, 128
#: Warps from which on a multiprocessor always finds one that can go on.
_ENOUGH_WARPS = 8


@dataclass(frozen=True)
class AttentionWorkload:
    """`batch` times `heads` attentions of [rows, depth] by [columns, depth] and [columns, width]."""

    batch: int
    heads: int
    group: int
    rows: int
    columns: int
    depth: int
    width: int
    dtype: str
    itemsize: int
    fixed_rows: bool
    fixed_columns: bool
    causal: bool

    def stack(self, rows_of_block: int) -> int:
        """Heads whose rows share a block: those of one head of keys where their queries are few."""
        return self.group if self.fixed_rows and 2 * self.rows <= rows_of_block else 1


def attention_space(facts: AttentionWorkload, target: DeviceTarget) -> ConfigSpace:
    """Blocks, keys of a step, stages and parts that fit the target."""
    found, machine = ConfigSpace(), machine_of(target)
    if on_tensor_cores(facts, target):
        found.define_joint(("warps_rows", "row_tiles", "warps_keys"), _BLOCKS)
        found.define_knob("keys", _KEYS)
        found.define_knob("stages", _STAGES)
        found.require(lambda c: _is_light(c, facts, machine) or _is_wide(c, facts, machine))
        found.require(lambda c: _shared(c, facts) <= target.max_dynamic_shared_memory)
        found.require(lambda c: facts.width > _LIGHT_WIDTH or _fits_quarter(c, facts, machine))
    else:
        fitting = [b for b in _PLAIN_BLOCKS if b[0] * b[2] <= target.max_threads_per_block]
        found.define_joint(("threads_rows", "rows", "threads_keys", "keys"), fitting)
        found.require(lambda c: _shared(c, facts) <= target.max_shared_memory_per_block)
    found.define_knob("parts", _PARTS)
    found.require(lambda c: c["parts"] == 1 or _divides_keys(c, facts, machine))
    return found


def on_tensor_cores(facts: AttentionWorkload, target: DeviceTarget) -> bool:
    """True if tensor cores compute both products."""
    return target.kind == "cuda" and facts.dtype in ("float16", "bfloat16") and has_tensor_cores(target)


def on_cores(config: Mapping[str, int]) -> bool:
    """True for a configuration of tensor cores."""
    return "warps_rows" in config


def has_attention_kernel(depth: int, width: int, dtype: str, target: DeviceTarget) -> bool:
    """True if some block of `target` has room for an attention of such lengths."""
    if max(depth, width) > MOST_DEPTH or not dtype.startswith(("float", "bfloat")):
        return False
    facts = AttentionWorkload(1, 1, 1, 1, 1, depth, width, dtype, DType(dtype).itemsize, True, True, False)
    return any(True for _ in attention_space(facts, target))


def _divides_keys(config: Mapping[str, int], facts: AttentionWorkload, machine: GpuMachine) -> bool:
    """True if there are keys enough for the parts, and without parts too few blocks."""
    enough = facts.columns >= config["parts"] * _LEAST_KEYS
    return enough and _blocks(config, facts) <= _TRIPS * machine.multiprocessors


def _blocks(config: Mapping[str, int], facts: AttentionWorkload) -> int:
    rows = _rows(config, facts)
    stack = facts.stack(rows)
    return facts.batch * (facts.heads // stack) * -(-facts.rows * stack // rows) * config["parts"]


def _rows(config: Mapping[str, int], facts: AttentionWorkload) -> int:
    if on_cores(config):
        return config["warps_rows"] * config["row_tiles"] * ROWS
    return config["threads_rows"] * config["rows"]


def tensor_core_tiling(config: Mapping[str, int], facts: AttentionWorkload, machine: GpuMachine) -> AttentionTiling:
    """The shares of warps of a configuration, with registers for a quarter of a multiprocessor's threads."""
    resident = _quarter(config, machine) if _is_light(config, facts, machine) else 1
    return AttentionTiling(
        config["warps_rows"], config["row_tiles"], config["warps_keys"], config["keys"], config["stages"],
        config["parts"], facts.stack(_rows(config, facts)), resident, facts.depth <= _HELD_DEPTH,
    )  # fmt: skip


def plain_tiling(config: Mapping[str, int], facts: AttentionWorkload) -> PlainTiling:
    """The shares of threads of a configuration."""
    return PlainTiling(
        config["threads_rows"], config["rows"], config["threads_keys"], config["keys"], config["parts"],
        facts.stack(_rows(config, facts)),
    )  # fmt: skip


def _quarter(config: Mapping[str, int], machine: GpuMachine) -> int:
    """Blocks by which a quarter of a multiprocessor's threads is in use."""
    return -(-machine.threads // _SHARE // (32 * config["warps_rows"] * config["warps_keys"]))


def _fits_quarter(config: Mapping[str, int], facts: AttentionWorkload, machine: GpuMachine) -> bool:
    """True if so many blocks have shared memory enough."""
    each = _shared(config, facts) + machine.shared_reserved
    return _quarter(config, machine) * each <= machine.shared_per_multiprocessor


def _is_light(config: Mapping[str, int], facts: AttentionWorkload, machine: GpuMachine) -> bool:
    """True if a quarter of a multiprocessor's threads have registers enough."""
    return _registers(config, facts) + _SPARE_REGISTERS <= _SHARE * machine.registers // machine.threads


def _is_wide(config: Mapping[str, int], facts: AttentionWorkload, machine: GpuMachine) -> bool:
    """True if the sums are too wide for that, and a thread has registers enough."""
    fits = _registers(config, facts) + _WIDE_SPARE_REGISTERS <= machine.registers_per_thread
    return facts.width > _LIGHT_WIDTH and fits


def _registers(config: Mapping[str, int], facts: AttentionWorkload) -> int:
    """Registers that a thread on tensor cores is expected to need."""
    tiles, sums = config["row_tiles"], padded(facts.width) // COLUMNS * 4
    held = padded(facts.depth) // ROWS if facts.depth <= _HELD_DEPTH else 1
    found = _OTHER_REGISTERS + tiles * (sums + config["keys"] // COLUMNS * 4 + held * 4)
    whole = facts.fixed_columns and facts.columns % (config["keys"] * config["warps_keys"]) == 0
    return found if whole else found + _ADDRESS * _copies(config, facts)


def _copies(config: Mapping[str, int], facts: AttentionWorkload) -> int:
    """Copies of a thread for a step; those beyond the last key wrap around, so that each has an address of its own."""
    nbytes = config["keys"] * config["warps_keys"] * (padded(facts.depth) + padded(facts.width)) * facts.itemsize
    return -(-nbytes // (CHUNK * 32 * config["warps_rows"] * config["warps_keys"]))


def _shared(config: Mapping[str, int], facts: AttentionWorkload) -> int:
    if not on_cores(config):
        return plain_shared(facts.depth, facts.width, max(_WIDE, facts.itemsize), plain_tiling({**config, "parts": 1},
                                                                                          facts))  # fmt: skip
    tiling = AttentionTiling(config["warps_rows"], config["row_tiles"], config["warps_keys"], config["keys"],
                             config["stages"], 1, 1, 1, True)  # fmt: skip
    return shared_bytes(facts.depth, facts.width, tiling)


def attention_cost(facts: AttentionWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles of a multiprocessor: waves of blocks, each as long as its steps and its end."""
    machine = machine_of(target)
    blocks, threads, registers = _blocks(config, facts), *_held(config, facts)
    held = max(1, min(
        machine.threads // threads, machine.registers // (threads * registers), machine.blocks,
        machine.shared_per_multiprocessor // (_shared(config, facts) + machine.shared_reserved),
    ))  # fmt: skip
    whole, rest = divmod(blocks, machine.multiprocessors * held)
    cycles = whole * _wave(config, facts, machine, held)
    if rest:
        cycles += _wave(config, facts, machine, -(-rest // machine.multiprocessors))
    read = facts.batch * facts.heads * facts.itemsize * (
        facts.rows * (facts.depth + facts.width) + facts.columns * (facts.depth + facts.width) / facts.group
    )  # fmt: skip
    if config["parts"] > 1:
        moved = _WIDE * (config["parts"] + 1) * facts.batch * facts.heads * facts.rows * (facts.width + 2)
        cycles += (machine.launch + _TRIPS * machine.latency + moved / machine.l2_bytes) * machine.clock
    memory = read / machine.dram_bytes * machine.clock
    return Cost(arithmetic=cycles, memory=memory, fixed=machine.launch * machine.clock)


def _held(config: Mapping[str, int], facts: AttentionWorkload) -> tuple[int, int]:
    """Threads of a block and registers of a thread."""
    if on_cores(config):
        return 32 * config["warps_rows"] * config["warps_keys"], _registers(config, facts)
    sums = config["rows"] * (-(-facts.width // config["threads_keys"]) + config["keys"] + 1)
    return config["threads_rows"] * config["threads_keys"], _OTHER_REGISTERS + sums


def _wave(config: Config, facts: AttentionWorkload, machine: GpuMachine, held: int) -> float:
    """Cycles of one wave, in which a multiprocessor has `held` blocks."""
    tensor_cores = on_cores(config)
    step = config["warps_keys" if tensor_cores else "threads_keys"] * config["keys"]
    columns = facts.columns / 2 if facts.causal else facts.columns  # about half of the scores are seen
    steps = max(1.0, -(-columns // step) / config["parts"])
    rows, sizes = _rows(config, facts), padded(facts.depth) + padded(facts.width)
    scores = held * rows * step
    share = machine.l2_bytes / machine.multiprocessors / machine.clock
    brought = held * step * (facts.depth + facts.width) * facts.itemsize / share
    latency = machine.latency * machine.clock
    if tensor_cores:
        warps = config["warps_rows"] * config["warps_keys"]
        busy = min(1.0, held * warps / _ENOUGH_WARPS)
        products = scores * sizes / (machine.tensor_float16 * machine.mma_sync * busy)
        softmax = scores / _EXPONENTIALS + scores * _SCORE_INSTRUCTIONS / _LANES
        shared = held * config["warps_rows"] * step * sizes * facts.itemsize / machine.shared_bytes
        fragments = padded(facts.depth) // ROWS + config["keys"] // ROWS
        chain = fragments * _PRODUCT_CHAIN + 4 * _SHUFFLE_CHAIN
        ahead = config["stages"] - 1
        longest = max(products + softmax, shared, brought, chain)
        each = longest + max(0.0, latency - ahead * longest) / ahead
    else:
        busy = min(1.0, held * config["threads_rows"] * config["threads_keys"] / (_ENOUGH_WARPS * machine.warp))
        products = scores * (facts.depth + facts.width) / (machine.fma * machine.fma_share * busy)
        reads = (1 / config["rows"] + 1 / config["keys"]) * scores * (facts.depth + facts.width) * 4
        each = max(products, reads / machine.shared_bytes / 2) + scores / _EXPONENTIALS + brought + latency
    written = held * rows * facts.width * (4 * config["warps_keys"] if tensor_cores else 4) * 2 / machine.shared_bytes
    return 2 * latency + steps * each + written
