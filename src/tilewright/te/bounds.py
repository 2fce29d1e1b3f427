"""Bound inference: which part of each stage its readers need, and so how far each loop runs.

Readers are visited before the stages they read. A stage at the root computes all of its tensor. One computed inside a
loop computes the union of what is read there while that loop and those around it stand still; the union is exact where
indices are affine and never too small elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from tilewright.errors import ScheduleError
from tilewright.support.dtype import DType
from tilewright.te.itervar import IterVar
from tilewright.te.loop_relation import Fuse, Singleton, Split
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp
from tilewright.te.region import IndexEvaluator, Interval, Span, point, to_expr, total
from tilewright.te.scan import ScanOp
from tilewright.te.scan_region import Dimension, scan_reads, spatial_axes
from tilewright.te.stage import Stage, nested_in
from tilewright.te.tensor import Tensor
from tilewright.tir.arith.linear import Linear
from tilewright.tir.expr import Expr, FloorMod, IntImm, Var
from tilewright.tir.op import is_const

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule

#: The threads that share one copy of a stage, by its scope.
_SPREAD = {"shared": ("threadIdx", "vthread", "cthread"), "warp": ("threadIdx.x",)}

Indices = tuple[Expr | None, ...]  # of one read; None stands for all of a dimension


@dataclass
class StageBounds:
    """The region computed by one stage: from `mins[axis]` on, `extents[axis]` iterations; `extents` has the derived
    axes too.

    `inside[axis]` tells whether the region is known not to start before the tensor, and not to end after it. `spatial`
    has the axes of a scan that is computed in part (`scan_region`).
    """

    mins: dict[IterVar, Linear] = field(default_factory=dict)
    extents: dict[IterVar, Expr] = field(default_factory=dict)
    inside: dict[IterVar, tuple[bool, bool]] = field(default_factory=dict)
    spatial: dict[Dimension, IterVar] = field(default_factory=dict)


@dataclass
class Bounds:
    """Result of bound inference: per stage its region, and the constant range of every loop variable."""

    stages: dict[Stage, StageBounds] = field(default_factory=dict)
    ranges: dict[Var, Span] = field(default_factory=dict)


def infer_bounds(schedule: Schedule) -> Bounds:
    """The region and loop extents of every computed stage of a normalized schedule.

    Raises ScheduleError where a stage is computed at a position that does not come before and around all its readers.
    """
    bounds = Bounds()
    readers: dict[Tensor, list[tuple[Stage, Indices]]] = {}
    evaluators: dict[tuple[Stage, IterVar], IndexEvaluator] = {}
    for stage in reversed(schedule.stages):
        if isinstance(stage.op, PlaceholderOp):
            continue
        region: dict[IterVar, Interval] = {}
        spatial: dict[Dimension, IterVar] = {}
        if stage.attach_stage is not None:
            needed = [_needed(stage, tensor, readers, bounds, evaluators) for tensor in stage.outputs]
            if isinstance(stage.op, ScanOp):
                spatial = spatial_axes(schedule.stages, stage.op)
                region = _scan_region(spatial, needed, bounds)
            else:
                region = _region(stage.op, needed, bounds)
        bounds.stages[stage] = _stage_bounds(stage, stage.op, region, bounds.ranges, spatial)
        reads = scan_reads(stage.op, spatial) if isinstance(stage.op, ScanOp) else stage.op.reads()
        for tensor, indices in reads:
            readers.setdefault(tensor, []).append((stage, indices))
    return bounds


def _stage_bounds(
    stage: Stage,
    op: Operation,
    region: Mapping[IterVar, Interval],
    ranges: dict[Var, Span],
    spatial: dict[Dimension, IterVar],
) -> StageBounds:
    result = StageBounds(spatial=spatial)
    still = IndexEvaluator({}, ranges)
    for iv in (*op.axis, *op.reduce_axis, *dict.fromkeys(spatial.values())):
        assert iv.dom is not None
        interval = region.get(iv)
        if interval is None:
            result.mins[iv], result.extents[iv], result.inside[iv] = (
                still.affine(iv.dom.min),
                iv.dom.extent,
                (True, True),
            )
        else:
            result.mins[iv] = interval.lo
            result.extents[iv] = _plus_one(interval, iv.var.dtype)
            result.inside[iv] = _stays_inside(interval, iv, still)
    for relation in stage.relations:
        if isinstance(relation, Split):
            split_extents(relation, result.extents)
        elif isinstance(relation, Singleton):
            result.extents[relation.axis] = IntImm(relation.axis.var.dtype, 1)
        else:
            product = result.extents[relation.outer] * result.extents[relation.inner]
            result.extents[relation.fused] = product
    for iv, extent in result.extents.items():
        if isinstance(extent, IntImm):
            ranges[iv.var] = (0, max(extent.value - 1, 0))
        else:
            ranges[iv.var] = (0, math.inf)
    return result


def split_extents(relation: Split, extents: dict[IterVar, Expr]) -> None:
    """Adds to `extents` those of the two axes a split makes; a constant factor larger than the whole is cut to it."""
    whole = extents[relation.parent]
    given = relation.factor if relation.factor is not None else relation.nparts
    assert given is not None
    if isinstance(whole, IntImm) and isinstance(given, IntImm):
        size = max(1, min(given.value, whole.value))
        other = -(-whole.value // size)
        sizes: tuple[Expr, Expr] = (IntImm(whole.dtype, size), IntImm(whole.dtype, other))
    else:
        given = given.astype(whole.dtype)
        rounded = to_expr(IndexEvaluator().affine(whole + (given - 1)), whole.dtype)
        sizes = given, to_expr(IndexEvaluator().affine(rounded // given), whole.dtype)
    by_factor = relation.factor is not None
    extents[relation.inner], extents[relation.outer] = sizes if by_factor else sizes[::-1]


def divides(outer: Expr, inner: Expr, whole: Expr) -> bool:
    """True if outer * inner is known to be whole."""
    if isinstance(outer, IntImm) and isinstance(inner, IntImm) and isinstance(whole, IntImm):
        return outer.value * inner.value == whole.value
    affine = IndexEvaluator().affine
    rest = affine(outer * inner).minus(affine(whole))
    return not rest.terms and rest.constant == 0


def _least(value: Linear, still: IndexEvaluator) -> Linear:
    """At most `value`: remainders that it subtracts put at the largest they can be, one less than a symbolic size."""
    for atom, factor in list(value.terms.items()):
        if factor < 0 and isinstance(atom, FloorMod):
            value = value.minus(Linear({atom: factor})).plus(still.affine(atom.b).shifted(-1), factor)
    return value


def _plus_one(interval: Interval, dtype: DType) -> Expr:
    if isinstance(interval.width, int):
        return IntImm(dtype, interval.width + 1)
    return to_expr(IndexEvaluator().affine(interval.width).shifted(1), dtype)


def _stays_inside(interval: Interval, iv: IterVar, still: IndexEvaluator) -> tuple[bool, bool]:
    """Two flags: the interval is known to start, and to end, in the axis's domain."""
    assert iv.dom is not None
    low = still.bounds(interval.lo)
    room = still.bounds(_least(still.affine(iv.dom.extent).minus(_end(interval)), still))
    return low is not None and low[0] >= 0, room is not None and room[0] >= 1


def _end(interval: Interval) -> Linear:
    """The last value of an interval."""
    if isinstance(interval.width, int):
        return interval.lo.shifted(interval.width)
    return interval.lo.plus(IndexEvaluator().affine(interval.width))


# --------------------------------------------------------------------------------- stages computed inside a loop
def _needed(
    stage: Stage,
    tensor: Tensor,
    readers: Mapping[Tensor, list[tuple[Stage, Indices]]],
    bounds: Bounds,
    evaluators: dict[tuple[Stage, IterVar], IndexEvaluator],
) -> list[Interval | None] | None:
    """The region of `tensor` read inside the loop that `stage`, which makes it, is attached to; None: nothing."""
    path = nested_in(stage)
    fixed = _enclosing_loops(stage, path)
    needed: list[Interval | None] | None = None
    for reader, indices in readers.get(tensor, ()):
        key = (reader, path[0][1])
        if key not in evaluators:
            evaluators[key] = _reader_evaluator(stage, reader, path, fixed, bounds)
        at = evaluators[key]
        read = [None if index is None else at.eval(index) for index in indices]
        needed = read if needed is None else [at.union(a, b) for a, b in zip(needed, read, strict=True)]
    return needed


def _region(op: Operation, needed: Sequence[list[Interval | None] | None], bounds: Bounds) -> dict[IterVar, Interval]:
    """The interval of each axis of `op`: what is read of any of its outputs."""
    still = IndexEvaluator({}, bounds.ranges)
    read = [intervals for intervals in needed if intervals is not None]
    assert read, "a stage in a loop that nothing reads is no part of a normalized schedule"
    region = {}
    for iv, intervals in zip(op.axis, zip(*read, strict=True), strict=isinstance(op, ComputeOp)):
        clipped = _clipped(reduce(still.union, intervals), iv, still)
        if clipped is not None:
            region[iv] = clipped
    return region


def _scan_region(
    spatial: Mapping[Dimension, IterVar], needed: Sequence[list[Interval | None] | None], bounds: Bounds
) -> dict[IterVar, Interval]:
    """The interval of each spatial axis of a scan: what is read of any state in a dimension that goes with it."""
    still = IndexEvaluator({}, bounds.ranges)
    region = {}
    for iv in dict.fromkeys(spatial.values()):
        read = [needed[n][d] for (n, d), axis in spatial.items() if axis is iv and needed[n] is not None]  # type: ignore[index]
        clipped = _clipped(reduce(still.union, read), iv, still) if read else None
        if clipped is not None:
            region[iv] = clipped
    return region


def _clipped(interval: Interval | None, iv: IterVar, still: IndexEvaluator) -> Interval | None:
    """The interval cut to the axis's domain where its ends are constant; None for the whole domain."""
    assert iv.dom is not None
    if interval is None:
        return None
    whole = iv.dom.extent
    if not isinstance(whole, IntImm):
        last = still.affine(whole).shifted(-1).minus(_end(interval))
        starts_at_zero = not interval.lo.terms and interval.lo.constant <= 0
        return None if starts_at_zero and not last.terms and last.constant <= 0 else interval
    if not isinstance(interval.width, int):
        return None
    if not interval.lo.terms:
        low, high = max(interval.lo.constant, 0), min(interval.lo.constant + interval.width, whole.value - 1)
        return Interval(Linear({}, low), max(high - low, 0))
    return None if interval.width >= whole.value - 1 else interval


def _enclosing_loops(stage: Stage, path: Sequence[tuple[Stage, IterVar]]) -> set[Var]:
    """The variables of the loops around the position where `stage` is computed that stand still for one copy of it.

    A stage in ``"shared"`` memory has one copy for all threads of a block, so loops over those threads run; one in
    ``"warp"`` memory has one for the threads of threadIdx.x.
    """
    fixed: set[Var] = set()
    running = _SPREAD.get(stage.scope, ())
    for at, ivar in path:
        if ivar not in at.leaf_iter_vars:
            raise ScheduleError(f"compute_at of {stage.name}: {ivar.name} is no longer a loop of {at.name}")
        around = at.leaf_iter_vars[: at.leaf_iter_vars.index(ivar) + 1]
        fixed.update(iv.var for iv in around if not _is_bound_to(at, iv, running))
    return fixed


def _is_bound_to(stage: Stage, axis: IterVar, threads: tuple[str, ...]) -> bool:
    thread = stage.attr(axis).thread
    return thread is not None and any(name in threads for name in (thread.thread_tag, thread.thread_tag.split(".")[0]))


def _reader_evaluator(
    stage: Stage, reader: Stage, path: Sequence[tuple[Stage, IterVar]], fixed: set[Var], bounds: Bounds
) -> IndexEvaluator:
    """Intervals of the reader's axes while the loops `fixed` stand still and all others around it run."""
    at, ivar = path[0]
    inner = _stages_within(stage, reader, at, ivar)
    running = IndexEvaluator({}, bounds.ranges)
    full: set[IterVar] = set()
    for loops in dict.fromkeys((*inner, *(outer for outer, _ in path))):
        extents = bounds.stages[loops].extents
        for iv in loops.leaf_iter_vars:
            extent = extents[iv]
            if isinstance(extent, IntImm) and extent.value <= 1:
                running.env[iv.var] = point(Linear({}))
                full.add(iv)
            elif iv.var not in fixed:
                running.env[iv.var] = _whole(extent)
                full.add(iv)
    env, sums = _root_intervals(reader, bounds.stages[reader], running, full)
    return IndexEvaluator(env, bounds.ranges, sums)


def _stages_within(stage: Stage, reader: Stage, at: Stage, ivar: IterVar) -> list[Stage]:
    """The stages whose loops are around `reader`, from itself out to `at`; checks that it is inside loop `ivar`."""
    if reader is at:
        return [reader]
    inner = [reader]
    for outer, loop in nested_in(reader):
        inner.append(outer)
        if outer is at:
            leaves = at.leaf_iter_vars
            if leaves.index(loop) >= leaves.index(ivar):
                return inner
            break
    raise ScheduleError(
        f"compute_at of {stage.name}: its reader {reader.name} is not computed inside loop {ivar.name} of {at.name}; "
        f"choose a loop around all readers, or compute {reader.name} there too"
    )


def _root_intervals(
    reader: Stage, its: StageBounds, running: IndexEvaluator, full: set[IterVar]
) -> tuple[dict[Var, Interval], list[tuple[Linear, Interval]]]:
    """Intervals of the reader's own axes, from those of its loops; and of `y * width + x` where y and x are fused."""
    env = running.env
    for iv in dict.fromkeys(its.spatial.values()):
        env[iv.var] = _whole(its.extents[iv])
        full.add(iv)
    sums: list[tuple[Linear, Interval]] = []
    fused = _fused_sums(reader, its)
    starts = {iv: running.eval(to_expr(low, iv.var.dtype)) for iv, low in its.mins.items()}
    for relation in reversed(reader.relations):
        if isinstance(relation, Singleton):
            continue
        step = its.extents[relation.inner]
        if isinstance(relation, Split):
            is_full = relation.outer in full and relation.inner in full
            wholes = [(relation.parent, relation.outer.var * step + relation.inner.var)]
        else:
            is_full = relation.fused in full
            position = running.eval(relation.fused.var)
            if not is_full and position is not None and relation.fused in fused:
                sums.append((fused[relation.fused], position))
            alone = is_const(its.extents[relation.outer], 1)
            inner = relation.fused.var if alone else relation.fused.var % step
            wholes = [(relation.outer, relation.fused.var // step), (relation.inner, inner)]
        for iv, expr in wholes:
            value = None if is_full else running.eval(expr)
            if is_const(its.extents[iv], 1):
                value = point(Linear({}))  # also in a last share of loops that has less to do
            if value is None:
                full.add(iv)
                value = _whole(its.extents[iv])
            env[iv.var] = value
    result: dict[Var, Interval] = {}
    for iv, start in starts.items():
        relative = env.get(iv.var) or point(Linear({iv.var: 1}))
        if start is None:
            assert iv.dom is not None
            result[iv.var] = _whole(iv.dom.extent)
        else:
            result[iv.var] = total(start, relative)
    return result, sums


def _fused_sums(reader: Stage, its: StageBounds) -> dict[IterVar, Linear]:
    """The value of each fused loop as a sum of the reader's own axes, where these start at zero; axes of 1 left out."""
    sums: dict[IterVar, Linear] = {}
    for iv, low in its.mins.items():
        if not low.terms and low.constant == 0:
            sums[iv] = Linear({} if is_const(its.extents[iv], 1) else {iv.var: 1})
    for relation in reader.relations:
        if isinstance(relation, Fuse) and relation.outer in sums and relation.inner in sums:
            lines = to_expr(sums[relation.outer], relation.fused.var.dtype) * its.extents[relation.inner]
            sums[relation.fused] = Linear.of(lines).plus(sums[relation.inner])
    return sums


def _whole(extent: Expr) -> Interval:
    if isinstance(extent, IntImm):
        return Interval(Linear({}), max(extent.value - 1, 0))
    return Interval(Linear({}), to_expr(IndexEvaluator().affine(extent).shifted(-1), extent.dtype))
