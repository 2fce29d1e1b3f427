"""Products of matrices on tensor cores: dense layers, stacks of matrices and convolutions, with their epilogues.

    blockIdx.x: a tile of rows and columns                    in groups of tiles that read the same operands
    the tile's sums in shared memory                          `tir.transform.lower_tensor_core`
    threadIdx.x: pieces of 16 bytes of the result             epilogue: bias, activation, residual, conversion

Operands are gathered as they are copied to shared memory, so that a convolution's matrix of windows exists nowhere.
"""

from __future__ import annotations

import math

from tilewright import te
from tilewright.backend.gpu.schedule.implicit_product import (
    Factors,
    centred,
    factors_of,
    loops_of,
    split_product,
    tiles_in_order,
)
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.parts import add_up_last, note_parts
from tilewright.backend.gpu.schedule.reduce import schedule_alone
from tilewright.backend.gpu.schedule.tensor_core_cost import (
    TensorCoreWorkload,
    least_blocks,
    tensor_core_cost,
    tensor_core_space,
    tiling_of,
)
from tilewright.errors import ScheduleError
from tilewright.target import DeviceTarget
from tilewright.tir.expr import Cast, Expr, IntImm
from tilewright.tir.tensor_core import ANNOTATION, INSTRUCTIONS
from tilewright.topi.schedule.access import producer_reads, stride
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes, extent_of, is_reduction
from tilewright.topi.schedule.template import Template

#: Columns, rows and terms below which tensor cores are left idle.
_LEAST_ROWS, _LEAST_COLUMNS, _LEAST_DEPTH = 8, 8, 16
#: Bytes of the result that a thread makes at a time.
_PIECE = 16
#: Tiles in a group: blocks that run at a time then read few rows and columns.
_GROUP = 8

#: The compute capability, times ten, that brought asynchronous copies.
_WITH_COPIES = 80


def fits_tensor_core(anchor: te.Tensor, out: te.Tensor, target: DeviceTarget) -> bool:
    """True if `out` is an epilogue of `anchor`, a product that tensor cores of `target` compute."""
    factors = factors_of(anchor, out)
    if factors is None or target.kind != "cuda" or not has_tensor_cores(target):
        return False
    dtype = _dtype_of(factors)
    if dtype is None or anchor.dtype != INSTRUCTIONS[dtype].sums or loops_of(out, anchor, factors) is None:
        return False
    _, rows, columns, depth = factors.sizes()
    alone = [t for t in computes([out]) if is_reduction(t)]
    return rows >= _LEAST_ROWS and columns >= _LEAST_COLUMNS and depth >= _LEAST_DEPTH and alone == [anchor]


def has_tensor_cores(target: DeviceTarget) -> bool:
    """True from compute capability 8.0 on, which brought asynchronous copies."""
    number = target.arch.removeprefix("sm_").rstrip("af")
    return number.isdigit() and int(number) >= _WITH_COPIES


def _dtype_of(factors: Factors) -> str | None:
    """The type of both operands, before they are widened; None where there is no instruction for it."""
    found = {_stored_dtype(side.value) for side in centred(factors)}
    return next(iter(found)) if len(found) == 1 and found <= set(INSTRUCTIONS) else None


def _stored_dtype(factor: Expr) -> str:
    return str(factor.value.dtype if isinstance(factor, Cast) else factor.dtype)


def workload(anchor: te.Tensor, out: te.Tensor) -> TensorCoreWorkload:
    """The sizes of the product that `anchor` computes, and what its epilogue moves."""
    factors = factors_of(anchor, out)
    assert factors is not None
    dtype, groups = _dtype_of(factors), loops_of(out, anchor, factors)
    assert dtype is not None and groups is not None
    batch, rows, columns, depth = factors.sizes()
    others = {t for made in computes([out]) if made.op is not anchor.op for t in made.op.input_tensors}
    elements = math.prod(extent_of(iv) for iv in out.op.axis)
    extra = sum(
        t.dtype.itemsize
        for t in others
        if isinstance(t.op, te.PlaceholderOp)
        and t not in anchor.op.input_tensors
        and math.prod(getattr(n, "value", 0) for n in t.shape) == elements
    )
    along = all(_along_depth(anchor, factors.depth, own) for own in (factors.rows, factors.columns))
    numbers = any(side.zero for side in centred(factors))
    return TensorCoreWorkload(batch, rows, columns, depth, dtype, out.dtype.itemsize, extra, along, numbers,
                              tiles_in_order(out, anchor, factors, groups))  # fmt: skip


def _along_depth(anchor: te.Tensor, depth: tuple[te.IterVar, ...], own: tuple[te.IterVar, ...]) -> bool:
    """True if neighbours along the depth are neighbours in memory, of the operand that the axes `own` are of."""
    axes = [*anchor.op.reduce_axis, *anchor.op.axis]
    mine = [load for load in producer_reads(anchor) if any(stride(load, iv, axes) for iv in own if extent_of(iv) > 1)]
    return bool(mine) and all(stride(load, depth[-1], axes) == 1 for load in mine)


def schedule_tensor_core(
    s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config
) -> None:
    """Apply a configuration of `tensor_core_space`."""
    factors = factors_of(anchor, out)
    assert factors is not None
    groups, dtype = loops_of(out, anchor, factors), _dtype_of(factors)
    assert groups is not None and dtype is not None
    resident = least_blocks(config, machine_of(target))
    tiling = tiling_of(config, INSTRUCTIONS[dtype].itemsize, resident)
    tile = (config["rows"], config["columns"], tiling.depth)
    product = split_product(s, anchor, factors, tile, config["parts"], centred(factors))
    for tensor in computes([out]):
        if tensor.op is not out.op and not (tensor.op is anchor.op and config["parts"] > 1):
            s[tensor].compute_inline()
    for operand in (product.left, product.right):
        s[operand].compute_inline()
    if config["parts"] > 1:  # sums of each part in memory
        if config["joined"]:
            held = add_up_last(s, anchor, out)
            note_parts(s, held, out, _bind_result(s, out, groups, config, tiling.threads, 1), config["parts"])
        else:
            schedule_alone(s, out, [anchor], target)
        sums, result = s.cache_write(product.sums, "shared"), product.sums
        batch, row, column = s[result].op.axis
        groups = [batch], [row], [column]
    else:
        sums, result = product.sums, out
        s[sums].set_scope("shared")
    block = _bind_result(s, result, groups, config, tiling.threads)
    for totals in product.totals:
        _add_up(s, totals, result, block, tiling.threads)
    s[sums].compute_at(s[result], block)
    s[sums].pragma(s[sums].op.axis[1], ANNOTATION, tiling)


def _add_up(s: te.Schedule, totals: te.Tensor, result: te.Tensor, block: te.IterVar, threads: int) -> None:
    """The totals of a tile's rows or columns in shared memory: a thread for each adds up its terms."""
    s[totals].set_scope("shared")
    s[totals].compute_at(s[result], block)
    _, thread = s[totals].split(s[totals].op.axis[1], factor=threads)
    s[totals].bind(thread, te.thread_axis("threadIdx.x"))


def _bind_result(
    s: te.Schedule,
    out: te.Tensor,
    groups: tuple[list[te.IterVar], ...],
    config: Config,
    threads: int,
    lanes: int | None = None,
) -> te.IterVar:
    """Tiles of the result to blocks, pieces of `lanes` elements to threads; returns the axis of the blocks.

    Of sums that are joined, products are counted along blockIdx.z, as `join_parts` expects them.
    """
    batch, rows, columns = groups
    stage = s[out]
    stage.reorder(*batch, *rows, *columns)
    row, column = (stage.fuse(*group) if len(group) > 1 else group[0] for group in (rows, columns))
    row_tiles = -(-math.prod(extent_of(iv) for iv in rows) // config["rows"])
    row_block, row = stage.split(row, factor=config["rows"])
    column_block, column = stage.split(column, factor=config["columns"])
    known = all(isinstance(iv.dom.extent, IntImm) for iv in rows if iv.dom is not None)
    group = max(n for n in range(1, _GROUP + 1) if row_tiles % n == 0) if known else 1
    outer, inner = stage.split(row_block, factor=group)
    stage.reorder(*batch, outer, column_block, inner, row, column)
    if config["joined"] and batch:
        product = stage.fuse(*batch) if len(batch) > 1 else batch[0]
        stage.bind(product, te.thread_axis("blockIdx.z"))
        batch = []
    block = stage.fuse(*batch, outer, column_block, inner)
    piece, lane = stage.split(stage.fuse(row, column), factor=lanes or max(1, _PIECE // max(1, out.dtype.itemsize)))
    _, thread = stage.split(piece, factor=threads)
    if lanes != 1:
        stage.vectorize(lane)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))
    return block


TENSOR_CORE = Template("tensor_core", workload, tensor_core_space, tensor_core_cost, schedule_tensor_core)  # type: ignore[arg-type]


def tensor_core_gemm(out: te.Tensor, target: DeviceTarget, config: Config | None = None) -> te.Schedule:
    """The schedule of `out`, a product with its epilogue. Raises `ScheduleError` where tensor cores refuse it."""
    anchors = [t for t in computes([out]) if is_reduction(t)]
    if len(anchors) != 1 or not fits_tensor_core(anchors[0], out, target):
        raise ScheduleError(f"{out.name} is no product that tensor cores of {target} compute")
    s = te.create_schedule(out.op)
    space = TENSOR_CORE.ranked(workload(anchors[0], out), target)
    schedule_tensor_core(s, anchors[0], out, target, config or space.default)
    return s
