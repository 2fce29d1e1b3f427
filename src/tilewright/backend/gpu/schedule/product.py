"""Products of matrices on plain arithmetic: tiles of both operands in shared memory, tiles of the result in registers.

    blockIdx: a tile of rows and columns          threadIdx: rows_of_thread x columns_of_thread of it
    for k_outer:                                  tiles of `left` and `right` to shared memory, by all threads
        for k_inner:                              products of a column of the one and a row of the other

Where the terms are divided among blocks, the last of a tile's blocks adds up what all of them have, or a second launch
does. Of bytes, words of four terms lie in shared memory where the GPU multiplies those (dp4a). A thread's
part is spread: virtual threads take pieces as far apart as all threads' pieces are wide, so that neighbouring threads
read neighbours in shared memory, which do not collide in its banks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright import te
from tilewright.backend.gpu.schedule.implicit_product import (
    Product,
    factors_of,
    in_words,
    loops_of,
    split_product,
    tiles_in_order,
)
from tilewright.backend.gpu.schedule.machine import ENOUGH_BLOCKS, GpuMachine, machine_of
from tilewright.backend.gpu.schedule.parts import add_up_last, note_parts, parts_cycles
from tilewright.backend.gpu.schedule.reduce import schedule_alone
from tilewright.target import DeviceTarget
from tilewright.tir.dot_product import GROUP
from tilewright.tir.expr import IntImm
from tilewright.topi.schedule.access import producer_reads, stride
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, extent_of, is_reduction
from tilewright.topi.schedule.template import Template

#: The knobs of a tile: rows, columns and terms of the block, rows and columns of the thread.
_KNOBS = ("rows", "columns", "terms", "thread_rows", "thread_columns")
_TILES = (
    (128, 128, 8, 8, 8), (128, 64, 8, 8, 8), (64, 128, 8, 8, 8), (64, 64, 16, 4, 4), (64, 32, 16, 4, 4),
    (32, 64, 16, 4, 4), (32, 32, 16, 2, 4), (16, 64, 16, 2, 4), (64, 16, 16, 4, 2), (16, 32, 16, 1, 4),
    (32, 128, 16, 4, 8), (128, 32, 16, 8, 4), (16, 128, 16, 2, 8), (8, 128, 16, 1, 8), (8, 64, 16, 1, 4),
    (4, 128, 16, 1, 4), (64, 8, 16, 4, 1), (128, 4, 16, 4, 1), (16, 16, 16, 1, 2), (8, 8, 16, 1, 1), (4, 4, 16, 1, 1),
)  # fmt: skip
#: Further ones for words of bytes, whose threads have two rows and columns as sizes that tiles do not divide need.
_RAGGED_TILES = ((16, 16, 16, 2, 2), (8, 8, 16, 2, 2))

#: Registers of a thread beside those of its sums and of one row and column.
_OTHER_REGISTERS = 40
#: Rows and columns below which a product is a reduction to few elements.
_LEAST = 4
#: Elements that a thread takes from its tile at a time, as neighbours.
_PIECE = 4
#: Parts that the terms may be divided into, and steps over terms that a part has at least.
_PARTS, _LEAST_STEPS = (1, 2, 4, 8, 16, 32), 4
#: Elements that a load of neighbours from shared memory brings.
_LANES_OF_LOAD = 4

#: The compute capability, times ten, that brought products of four bytes.
_WITH_DP4A = 61


@dataclass(frozen=True)
class ProductWorkload:
    """So many products of [rows, depth] by [depth, columns], of elements of `itemsize` bytes.

    `in_order` where tiles of the result are tiles of the sums: their axes have the same order, of known sizes.
    `of_bytes` where both factors are bytes, less a number or not.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    itemsize: int
    fixed_rows: bool = True
    fixed_columns: bool = True
    in_order: bool = True
    of_bytes: bool = False


def workload(anchor: te.Tensor, out: te.Tensor) -> ProductWorkload:
    """The sizes of the product that `anchor` computes, as far as `out` has them: some compute more than is read."""
    factors = factors_of(anchor, out)
    assert factors is not None
    groups = loops_of(out, anchor, factors)
    assert groups is not None
    fixed = [all(iv.dom is not None and isinstance(iv.dom.extent, IntImm) for iv in axes) for axes in groups[1:]]
    batch, _, _, depth = factors.sizes()
    rows, columns = (math.prod(extent_of(iv) for iv in axes) for axes in groups[1:])
    return ProductWorkload(batch, rows, columns, depth, max(1, factors.left.dtype.itemsize), fixed[0], fixed[1],
                           tiles_in_order(out, anchor, factors, groups), in_words(factors) is not None)  # fmt: skip


def _stored(facts: ProductWorkload, target: DeviceTarget) -> ProductWorkload:
    """The product in the terms that lie in shared memory: words of bytes where the target multiplies those."""
    if not (facts.of_bytes and multiplies_words(target)):
        return facts
    return replace(facts, depth=-(-facts.depth // GROUP), itemsize=GROUP)


def multiplies_words(target: DeviceTarget) -> bool:
    """True where one instruction multiplies four bytes by four (dp4a)."""
    number = target.arch.removeprefix("sm_").rstrip("af")
    return target.kind == "cuda" and number.isdigit() and int(number) >= _WITH_DP4A


def product_space(facts: ProductWorkload, target: DeviceTarget) -> ConfigSpace:
    """Tiles of a block and of its threads that fit the target, and parts that the terms are divided into."""
    facts, machine = _stored(facts, target), machine_of(target)
    found = ConfigSpace()
    found.define_joint(_KNOBS, product_tiles(facts, target))
    found.define_knob("parts", _PARTS)
    found.require(lambda c: c["parts"] == 1 or _divides_terms(c, facts, machine))
    joined = target.kind == "cuda" and facts.in_order  # others have no fence for all blocks
    found.define_knob("joined", (0, 1) if joined else (0,), absent=0)
    found.require(lambda c: not c["joined"] or c["parts"] > 1)
    return found


def product_tiles(facts: ProductWorkload, target: DeviceTarget) -> list[tuple[int, ...]]:
    """The tiles of a block and its threads that fit; empty for a product that is too small for any."""
    tiles = (*_TILES, *_RAGGED_TILES) if facts.of_bytes and multiplies_words(target) else _TILES
    return [tile for tile in tiles if _fits_target(dict(zip(_KNOBS, tile)), facts, target)]


def _fits_target(config: Mapping[str, int], facts: ProductWorkload, target: DeviceTarget) -> bool:
    """True if the tile is no larger than the result, and its threads and operands are within the target's limits.

    A loop shorter than its tile would have fewer threads than bring operands, and a thread with a single row or column
    would be guarded around a barrier where tiles do not divide these.
    """
    ragged = any(
        config[f"thread_{own}"] == 1 and (not fixed or whole % config[own])
        for own, whole, fixed in (
            ("rows", facts.rows, facts.fixed_rows),
            ("columns", facts.columns, facts.fixed_columns),
        )
    )
    shared = facts.itemsize * (config["rows"] + config["columns"]) * config["terms"]
    return (
        not ragged
        and config["rows"] <= facts.rows
        and config["columns"] <= facts.columns
        and _threads(config) <= target.max_threads_per_block
        and shared <= target.max_shared_memory_per_block
    )


def _divides_terms(config: Mapping[str, int], facts: ProductWorkload, machine: GpuMachine) -> bool:
    """True if there are terms enough for the parts, and without parts too few blocks."""
    enough = facts.depth >= _LEAST_STEPS * config["terms"] * config["parts"]
    return enough and _blocks(config, facts) < ENOUGH_BLOCKS * machine.multiprocessors


def _blocks(config: Mapping[str, int], facts: ProductWorkload) -> int:
    return facts.batch * -(-facts.rows // config["rows"]) * -(-facts.columns // config["columns"])


def _threads(config: Mapping[str, int]) -> int:
    return config["rows"] // config["thread_rows"] * (config["columns"] // config["thread_columns"])


def product_cost(facts: ProductWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles: waves of blocks over the multiprocessors, each step as long as its arithmetic, its reads or its waits."""
    facts, machine = _stored(facts, target), machine_of(target)
    blocks, threads = _blocks(config, facts) * config["parts"], _threads(config)
    resident = max(1, min(_resident(config, facts, machine), -(-blocks // machine.multiprocessors)))
    waves = -(-blocks // (machine.multiprocessors * resident))
    steps = -(-facts.depth // (config["terms"] * config["parts"]))
    products = config["rows"] * config["columns"] * config["terms"]
    rate = min(machine.fma, threads)  # of one block: a thread has no more than an instruction a cycle
    alone = machine.latency * machine.clock + products / rate
    loads = threads * config["terms"] * 4 * (config["thread_rows"] + config["thread_columns"])
    brought = facts.itemsize * (config["rows"] + config["columns"]) * config["terms"]
    together = resident * max(
        products / (machine.fma_share * machine.fma),
        loads / machine.shared_bytes / _LANES_OF_LOAD,
        brought / (machine.l2_bytes / machine.multiprocessors / machine.clock),
    )
    cycles = waves * (steps * max(alone, together) + machine.latency * machine.clock)
    if config["parts"] > 1:
        sums, tile = facts.batch * facts.rows * facts.columns, config["rows"] * config["columns"]
        cycles += parts_cycles(machine, config["parts"], bool(config["joined"]), sums, tile)
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


def fits(anchor: te.Tensor, out: te.Tensor, target: DeviceTarget) -> bool:
    """True if `out` is an epilogue of `anchor`, a product that some tile fits."""
    factors = factors_of(anchor, out)
    if factors is None or loops_of(out, anchor, factors) is None:
        return False
    _, rows, columns, depth = factors.sizes()
    alone = [t for t in computes([out]) if is_reduction(t)]
    if min(rows, columns, depth) < _LEAST or alone != [anchor]:
        return False
    return bool(product_tiles(_stored(workload(anchor, out), target), target))


def schedule_product(
    s: te.Schedule,
    anchor: te.Tensor,
    out: te.Tensor,
    target: DeviceTarget,
    config: Config,
    fused: Sequence[te.Tensor] | None = None,
) -> None:
    """Apply a configuration of `product_space`; `fused` are the stages computed within it, by default all."""
    factors = factors_of(anchor, out)
    assert factors is not None
    groups = loops_of(out, anchor, factors)
    assert groups is not None
    contiguous = [_along_depth(anchor, factors.depth, own) for own in (factors.rows, factors.columns)]
    tile = (config["rows"], config["columns"], config["terms"])
    sides = in_words(factors) if multiplies_words(target) else None
    product = split_product(s, anchor, factors, tile, config["parts"], sides, words=sides is not None)
    for tensor in computes([out]) if fused is None else fused:
        if tensor.op is not out.op and not (tensor.op is anchor.op and config["parts"] > 1):
            s[tensor].compute_inline()
    if config["parts"] > 1:
        if config["joined"]:  # in tiles like those of the sums
            held = add_up_last(s, anchor, out)
            note_parts(s, held, out, bind_tiles(s, out, groups, config), config["parts"])
        else:
            schedule_alone(s, out, [anchor], target)
        sums, result = s.cache_write(product.sums, "local"), product.sums
        batch, row, column = s[result].op.axis
        groups = [batch], [row], [column]
    else:
        sums, result = product.sums, out
        s[sums].set_scope("local")
    thread = bind_tiles(s, result, groups, config)
    _schedule_sums(s, product, sums, result, thread, config)
    for operand, along in zip((product.left, product.right), contiguous, strict=True):
        _bring(s, operand, along, config)


def bind_tiles(s: te.Schedule, out: te.Tensor, groups: tuple[list[te.IterVar], ...], config: Config) -> te.IterVar:
    """Bind tiles of the result to blocks, parts of them to threads; returns the axis of the innermost threads."""
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
    tags = ("blockIdx.y", "blockIdx.x", "vthread", "vthread", "threadIdx.y", "threadIdx.x")
    for axis, tag in zip((m, n, vm, vn, tm, tn), tags, strict=True):
        stage.bind(axis, te.thread_axis(tag))
    return tn


def _schedule_sums(
    s: te.Schedule, product: Product, sums: te.Tensor, out: te.Tensor, thread: te.IterVar, config: Config
) -> None:
    """The sums of a thread in registers, term by term."""
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


PRODUCT = Template("product", workload, product_space, product_cost, schedule_product)  # type: ignore[arg-type]
