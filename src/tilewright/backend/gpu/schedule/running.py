"""Running sums and products as a template: by groups in shared memory or by pieces (kernels: `running_kernels.py`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.running_kernels import ByGroups, ByPieces, group_of
from tilewright.backend.gpu.schedule.written_loops import find_written, schedule_written
from tilewright.support.dtype import DType
from tilewright.target import DeviceTarget
from tilewright.tir.expr import IntImm
from tilewright.topi import tag
from tilewright.topi.cumulative import BLOCK, level_count
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import shape_of
from tilewright.topi.schedule.template import Template
from tilewright.topi.util import accumulator_dtype

#: Threads of a block that adds up pieces.
_THREADS = (32, 64, 128, 256)
#: Bytes that the memory moves for one request.
_SECTOR = 32


@dataclass(frozen=True)
class RunningWorkload:
    """`outer` times `lanes` rows of `size` elements that lie `lanes` apart, with sums of `itemsize` bytes."""

    outer: int
    size: int
    lanes: int
    itemsize: int
    fixed: bool = True


def fits_running(outs: list[te.Tensor]) -> te.Tensor | None:
    """The scan that the computation of `outs` has; None where it has none, or other loops too."""
    return find_written(outs, tag.RUNNING)


def workload(anchor: te.Tensor, out: te.Tensor) -> RunningWorkload:
    """The sizes of a scan."""
    (source,), axis = anchor.op.input_tensors, anchor.op.attrs["axis"]
    shape = shape_of(source)
    wide = DType(accumulator_dtype(str(anchor.dtype)))
    fixed = isinstance(source.shape[axis], IntImm)
    outer, lanes = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return RunningWorkload(outer, shape[axis], lanes, max(1, wide.itemsize), fixed)


def space(facts: RunningWorkload, target: DeviceTarget) -> ConfigSpace:
    """By groups where shared memory holds one, and by pieces, with so many threads a block."""
    length = group_of(facts.size)[0] if facts.fixed else BLOCK
    shared = (BLOCK * length + 2 * BLOCK) * facts.itemsize <= target.max_shared_memory_per_block
    found = ConfigSpace()
    threads = [n for n in _THREADS if n <= target.max_threads_per_block]
    found.define_joint(("groups", "threads"), [*([(1, BLOCK)] if shared else []), *((0, n) for n in threads)])
    return found


def cost(facts: RunningWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles: launches, the bytes moved, whole sectors where neighbours are apart, and the additions of one thread."""
    machine = machine_of(target)
    levels = level_count(IntImm("int32", facts.size)) if facts.fixed else level_count(None)
    elements = facts.outer * facts.size * facts.lanes
    if config["groups"]:
        launches, together, passes = max(1, levels), facts.lanes == 1, 2 + (levels > 1)
        tiles = elements / (BLOCK * group_of(facts.size)[0])
        depth = 2 * BLOCK + BLOCK * levels
    else:
        launches, together, passes = 1 + levels, facts.lanes * facts.itemsize >= _SECTOR, 2 + (levels > 0)
        tiles = elements / (min(BLOCK, facts.size) * config["threads"])
        depth = BLOCK * (2 + levels)
    moved = elements * passes * (facts.itemsize if together else min(_SECTOR, facts.itemsize * facts.lanes))
    waves = math.ceil(tiles / (machine.multiprocessors * machine.threads // config["threads"]))
    serial = waves * depth * machine.latency / (1 if config["groups"] else 2) / BLOCK
    seconds = moved / machine.dram_bytes + serial + launches * (machine.launch + machine.latency)
    return Cost(arithmetic=seconds * machine.clock)


def schedule(s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config) -> None:
    """Apply a configuration of `space`."""
    facts, form = anchor.op.attrs, ByGroups if config["groups"] else ByPieces
    schedule_written(
        s, anchor, out, target,
        lambda source, result: form(
            source, result, facts["axis"], facts["neutral"], facts["exclusive"], facts["reverse"], config["threads"]
        ).statement(),
    )  # fmt: skip


RUNNING = Template("running", workload, space, cost, schedule)  # type: ignore[arg-type]
