"""Products of matrices on plain arithmetic: tiles of both operands in shared memory, tiles of the result in registers.

    blockIdx: a tile of rows and columns          threadIdx: rows_of_thread x columns_of_thread of it
    for k_outer:                                  tiles of `left` and `right` to shared memory, by all threads
        for k_inner:                              products of a column of the one and a row of the other

A thread's part is spread: virtual threads take pieces as far apart as all threads' pieces are wide, so that
neighbouring threads read neighbours in shared memory, which do not collide in its banks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.gpu.machine import GpuMachine, machine_of
from tilewright.backend.gpu.schedule.implicit_product import Product, factors_of, loops_of, split_product
from tilewright.target import DeviceTarget
from tilewright.topi.schedule.access import producer_reads, stride
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, extent_of, is_reduction
from tilewright.topi.schedule.template import Template

#: Tiles of a block and of a thread: rows, columns and terms of the block, rows and columns of the thread.
_TILES = (
    (128, 128, 8, 8, 8), (128, 64, 8, 8, 8), (64, 128, 8, 8, 8), (64, 64, 16, 4, 4), (64, 32, 16, 4, 4),
    (32, 64, 16, 4, 4), (32, 32, 16, 2, 4), (16, 64, 16, 2, 4), (64, 16, 16, 4, 2), (16, 32, 16, 1, 4),
    (32, 128, 16, 4, 8), (128, 32, 16, 8, 4), (16, 128, 16, 2, 8), (8, 128, 16, 1, 8),
)  # fmt: skip

#: Registers of a thread beside those of its sums and of one row and column.
_OTHER_REGISTERS = 40
#: Rows and columns below which a product is a reduction to few elements.
_LEAST = 4
#: Elements that a thread takes from its tile at a time, as neighbours.
_PIECE = 4


@dataclass(frozen=True)
class ProductWorkload:
    """So many products of [rows, depth] by [depth, columns], of elements of `itemsize` bytes."""

    batch: int
    rows: int
    columns: int
    depth: int
    itemsize: int


def workload(anchor: te.Tensor, out: te.Tensor) -> ProductWorkload:
    """The sizes of the product that `anchor` computes."""
    factors = factors_of(anchor)
    assert factors is not None
    return ProductWorkload(*factors.sizes(), max(1, factors.left.dtype.itemsize))


def space(facts: ProductWorkload, target: DeviceTarget) -> ConfigSpace:
    """Tiles of a block and of its threads that fit the target."""
    names = ("rows", "columns", "terms", "thread_rows", "thread_columns")
    fitting = [
        tile
        for tile in _TILES
        if _threads(dict(zip(names, tile))) <= target.max_threads_per_block
        and facts.itemsize * (tile[0] + tile[1]) * tile[2] <= target.max_shared_memory_per_block
    ]
    found = ConfigSpace()
    found.define_joint(names, fitting)
    return found


def _threads(config: Mapping[str, int]) -> int:
    return config["rows"] // config["thread_rows"] * (config["columns"] // config["thread_columns"])


def cost(facts: ProductWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles: waves of blocks over the multiprocessors, each as long as its multiply-adds, its reads or its waits."""
    machine = machine_of(target)
    rows, columns = -(-facts.rows // config["rows"]), -(-facts.columns // config["columns"])
    blocks, threads = facts.batch * rows * columns, _threads(config)
    resident = max(1, min(_resident(config, facts, machine), -(-blocks // machine.multiprocessors)))
    steps = -(-facts.depth // config["terms"])
    size = config["rows"] * config["columns"] * config["terms"]
    # a warp issues an instruction every other cycle at best, and its own sums depend on each other
    busy = min(1.0, resident * threads / 256)
    arithmetic = resident * size / (machine.fma * busy)
    per_thread = config["thread_rows"] * config["thread_columns"]
    loads = resident * threads * config["terms"] * 4 * (config["thread_rows"] + config["thread_columns"])
    shared = loads / (machine.shared_bytes * min(4.0, per_thread**0.5))
    brought = facts.itemsize * (config["rows"] + config["columns"]) * config["terms"] * resident
    memory = brought / (machine.l2_bytes / machine.multiprocessors / machine.clock)
    wait = machine.latency * machine.clock / max(1.0, resident * threads / 128)
    waves = -(-blocks // (machine.multiprocessors * resident))
    cycles = waves * (steps * (max(arithmetic, shared, memory) + wait) + machine.latency * machine.clock)
    return Cost(arithmetic=cycles, fixed=machine.launch * machine.clock)


def _resident(config: Mapping[str, int], facts: ProductWorkload, machine: GpuMachine) -> int:
    """Blocks that a multiprocessor holds at a time."""
    threads = _threads(config)
    registers = _OTHER_REGISTERS + (config["thread_rows"] + 1) * (config["thread_columns"] + 1)
    shared = facts.itemsize * (config["rows"] + config["columns"]) * config["terms"] + machine.shared_reserved
    return min(
        machine.threads // threads,
        machine.registers // (threads * registers),
        machine.shared_per_multiprocessor // shared,
        machine.blocks,
    )


def fits(anchor: te.Tensor, out: te.Tensor) -> bool:
    """True if `out` is an epilogue of `anchor`, a product with enough rows and columns for tiles."""
    factors = factors_of(anchor)
    if factors is None or loops_of(out, anchor, factors) is None:
        return False
    _, rows, columns, depth = factors.sizes()
    alone = [t for t in computes([out]) if is_reduction(t)]
    return rows >= _LEAST and columns >= _LEAST and depth >= _LEAST and alone == [anchor]


def schedule_product(s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config) -> None:
    """Apply a configuration of `space`."""
    factors = factors_of(anchor)
    assert factors is not None
    groups = loops_of(out, anchor, factors)
    assert groups is not None
    contiguous = [_along_depth(anchor, factors.depth, own) for own in (factors.rows, factors.columns)]
    if anchor.op is out.op:
        groups = tuple(list(group) for group in groups)
    product = split_product(s, anchor, factors, (config["rows"], config["columns"], config["terms"]))
    for tensor in computes([out]):
        if tensor.op is not out.op:
            s[tensor].compute_inline()
    thread = _bind_result(s, out, groups, config)
    _schedule_sums(s, product, out, thread, config)
    for operand, along in zip((product.left, product.right), contiguous, strict=True):
        _bring(s, operand, along, config)


def _bind_result(s: te.Schedule, out: te.Tensor, groups: tuple[list[te.IterVar], ...], config: Config) -> te.IterVar:
    """Tiles of the result to blocks, parts of them to threads; returns the axis of the innermost threads."""
    batch, rows, columns = groups
    stage = s[out]
    stage.reorder(*batch, *rows, *columns)
    loops: list[te.IterVar] = []
    for group, size, own in ((rows, "rows", "thread_rows"), (columns, "columns", "thread_columns")):
        whole = stage.fuse(*group) if len(group) > 1 else group[0]
        block, inner = stage.split(whole, factor=config[size])
        piece = min(_PIECE, config[own])
        virtual, inner = stage.split(inner, nparts=config[own] // piece)
        thread, inner = stage.split(inner, factor=piece)
        loops += [block, virtual, thread, inner]
    m, vm, tm, im, n, vn, tn, in_ = loops
    stage.reorder(*batch, m, n, vm, vn, tm, tn, im, in_)
    if batch:
        stage.bind(stage.fuse(*batch) if len(batch) > 1 else batch[0], te.thread_axis("blockIdx.z"))
    for axis, tag in ((m, "blockIdx.y"), (n, "blockIdx.x"), (vm, "vthread"), (vn, "vthread"), (tm, "threadIdx.y"),
                      (tn, "threadIdx.x")):  # fmt: skip
        stage.bind(axis, te.thread_axis(tag))
    return tn


def _schedule_sums(s: te.Schedule, product: Product, out: te.Tensor, thread: te.IterVar, config: Config) -> None:
    """The sums of a thread in registers, term by term."""
    sums = product.sums
    s[sums].set_scope("local")
    s[sums].compute_at(s[out], thread)
    batch, row, column = s[sums].op.axis
    outer, inner = s[sums].split(s[sums].op.reduce_axis[0], factor=config["terms"])
    s[sums].reorder(outer, inner, batch, row, column)
    s[sums].unroll(row)
    s[sums].unroll(column)
    for operand in (product.left, product.right):
        s[operand].compute_at(s[sums], outer)
        s[operand].set_scope("shared")


def _bring(s: te.Schedule, operand: te.Tensor, along_depth: bool, config: Config) -> None:
    """A tile of an operand to shared memory, neighbouring threads in the order in which it lies in memory."""
    _, term, position = s[operand].op.axis
    if along_depth:
        s[operand].reorder(position, term)
        fused = s[operand].fuse(position, term)
    else:
        fused = s[operand].fuse(term, position)
    height, width = config["rows"] // config["thread_rows"], config["columns"] // config["thread_columns"]
    fused, x = s[operand].split(fused, factor=width)
    _, y = s[operand].split(fused, factor=height)
    s[operand].bind(y, te.thread_axis("threadIdx.y"))
    s[operand].bind(x, te.thread_axis("threadIdx.x"))


def _along_depth(tensor: te.Tensor, depth: tuple[te.IterVar, ...], own: tuple[te.IterVar, ...]) -> bool:
    """True if the operand that the axes `own` are of lies in memory along the terms."""
    axes = [*tensor.op.reduce_axis, *tensor.op.axis]
    last, wide = depth[-1], [iv for iv in own if extent_of(iv) > 1]
    for load in producer_reads(tensor):
        if wide and stride(load, wide[-1], axes) and stride(load, last, axes) == 1:
            return abs(stride(load, wide[-1], axes) or 0) != 1
    return False


def area(facts: ProductWorkload) -> int:
    """Multiply-adds of the workload."""
    return math.prod((facts.batch, facts.rows, facts.columns, facts.depth))


PRODUCT = Template("product", workload, space, cost, schedule_product)  # type: ignore[arg-type]
