"""Products of matrices where threads compute alone: tiles of the result in registers, operands straight from memory.

    blockIdx, threadIdx: a tile of rows and columns of each thread
    for k in the axes that are summed over:       thread_rows + thread_columns loads to registers
        thread_rows x thread_columns products

For devices whose threads had better not wait for each other (`GpuMachine.shares`): nothing lies in a block's memory,
there are no barriers, and the terms are not divided. Each axis of the terms is a loop of its own, so that no position
is divided to find its parts.
"""

from __future__ import annotations

import math
from itertools import product

from tilewright import te
from tilewright.backend.gpu.schedule.implicit_product import factors_of, loops_of, split_by_axis
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.product import ProductWorkload, bind_tiles, workload
from tilewright.target import DeviceTarget
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, is_reduction
from tilewright.topi.schedule.template import Template

_KNOBS = ("rows", "columns", "thread_rows", "thread_columns")
#: Rows or columns of a thread's tile, and the most sums it has: of more, SwiftShader takes several times as long to
#: make a pipeline.
_OWN, _MOST_SUMS = (1, 2, 4, 8), 16
#: Threads of a block along its columns, and all of them.
_WIDE, _THREADS = 8, 32
#: Rows and columns below which a product is a reduction to few elements.
_LEAST = 2


def fits_register_product(anchor: te.Tensor, out: te.Tensor, target: DeviceTarget) -> bool:
    """True if `out` is an epilogue of `anchor`, a product, and threads of the target had better compute alone."""
    if machine_of(target).shares or [t for t in computes([out]) if is_reduction(t)] != [anchor]:
        return False
    factors = factors_of(anchor, out)
    if factors is None or loops_of(out, anchor, factors) is None:
        return False
    _, rows, columns, _ = factors.sizes()
    return min(rows, columns) >= _LEAST


def register_space(facts: ProductWorkload, target: DeviceTarget) -> ConfigSpace:
    """Tiles of a thread, and of blocks of such threads that are no larger than the result."""
    tiles = []
    for rows, columns in product(_OWN, _OWN):
        if rows <= facts.rows and columns <= facts.columns and rows * columns <= _MOST_SUMS:
            wide = min(_WIDE, _power_of_two(-(-facts.columns // columns)))
            high = min(_THREADS // wide, _power_of_two(-(-facts.rows // rows)))
            tiles.append((rows * high, columns * wide, rows, columns))
    found = ConfigSpace()
    found.define_joint(_KNOBS, tiles)
    return found


def register_cost(facts: ProductWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles: rounds of all threads over the device, each term as long as its loads and products."""
    machine = machine_of(target)
    rows, columns = config["thread_rows"], config["thread_columns"]
    blocks = facts.batch * math.ceil(facts.rows / config["rows"]) * math.ceil(facts.columns / config["columns"])
    threads = blocks * (config["rows"] // rows) * (config["columns"] // columns)
    rounds = math.ceil(threads / (machine.multiprocessors * machine.fma))
    cycles = rounds * facts.depth * (rows * columns + machine.load * (rows + columns))
    return Cost(arithmetic=cycles, fixed=machine.launch * machine.clock)


def schedule_register_product(
    s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config
) -> None:
    """Apply a configuration of `register_space`."""
    factors = factors_of(anchor, out)
    assert factors is not None
    groups = loops_of(out, anchor, factors)
    assert groups is not None
    tile = split_by_axis(s, anchor, factors, (config["rows"], config["columns"]))
    for tensor in computes([out]):
        if tensor.op is not out.op:
            s[tensor].compute_inline()
    s[tile.sums].set_scope("local")
    s[tile.sums].compute_at(s[out], bind_tiles(s, out, groups, config))
    for axis in s[out].leaf_iter_vars[-2:]:
        s[out].unroll(axis)  # else sums would be elements of an array whose number is computed
    terms = s[tile.sums].op.reduce_axis
    batch, row, column = s[tile.sums].op.axis
    s[tile.sums].reorder(*terms, batch, row, column)
    s[tile.sums].unroll(row)
    s[tile.sums].unroll(column)
    for operand in (tile.left, tile.right):
        s[operand].compute_at(s[tile.sums], terms[-1])
        s[operand].set_scope("local")
        s[operand].unroll(s[operand].op.axis[-1])


def _power_of_two(count: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(count - 1, 0).bit_length()


REGISTER_PRODUCT = Template(
    "register_product",
    workload,
    register_space,  # type: ignore[arg-type]
    register_cost,  # type: ignore[arg-type]
    schedule_register_product,  # type: ignore[arg-type]
)
