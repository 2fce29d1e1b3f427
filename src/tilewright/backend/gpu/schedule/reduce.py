"""Reductions, window pooling and direct convolutions, and operators of several row-wise reductions such as softmax.

Three forms, by how results depend on reductions:

- each element of the output needs one element of each reduction: a thread, a warp or a block computes it whole;
- elements of a row share reductions of the row (softmax, normalizations): a block takes rows whole, in one launch;
- else each reduction is a launch of its own, with its result in device memory.
"""

from __future__ import annotations

import math
from collections.abc import Set

from tilewright import te
from tilewright.backend.gpu.schedule.injective import bind_elements
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.support.recursion import nested
from tilewright.target import DeviceTarget
from tilewright.te.scan import ScanOp
from tilewright.tir.expr import IntImm
from tilewright.topi.schedule.access import element_by_element, reads_through, row_axes
from tilewright.topi.schedule.stages import computes, extent_of, is_reduction, shape_of, terms_of

#: Terms up to which one thread sums alone, and terms from which on a block does rather than a warp.
_FEW_TERMS, _MANY_TERMS = 32, 1024
#: Warps of a multiprocessor that keep it busy, and elements of a row up to which a warp is enough.
_WARPS_TO_FILL, _SHORT_ROW = 4, 128


def schedule_reduce(s: te.Schedule, outs: list[te.Tensor], target: DeviceTarget, threads: int | None = None) -> None:
    """Schedule `outs`, of whose stages some reduce, scan or are written as loops.

    `threads` share the terms of an element, or a row, of a computation that `threads_of` has a number for.
    """
    stages = computes(outs)
    reductions = [t for t in stages if is_reduction(t)]
    plain = all(isinstance(t.op, te.ComputeOp) for t in stages)
    if plain and len(outs) == 1 and element_by_element(outs[0], reductions):
        _inline_all_but(s, stages, {outs[0].op, *(t.op for t in reductions)})
        _schedule_elements(s, outs[0], reductions, target, threads)
    elif plain and len(outs) == 1 and _row_variables(outs[0], reductions):
        _inline_all_but(s, stages, {outs[0].op, *(t.op for t in reductions)})
        _schedule_rows(s, outs[0], reductions, target, threads)
    else:
        schedule_apart(s, outs, target)


def schedule_apart(
    s: te.Schedule, outs: list[te.Tensor], target: DeviceTarget, others: Set[te.Operation] = frozenset()
) -> None:
    """A launch for each reduction, each output and each tensor that loops or scans read whole; all else is inlined.

    Stages of `others` are left to the caller.
    """
    stages = computes(outs)
    whole = {*others, *(t.op for t in (*outs, *[r for r in stages if is_reduction(r)]))}
    for tensor in stages:
        if not isinstance(tensor.op, te.ComputeOp):
            whole |= {tensor.op, *(source.op for source in tensor.op.input_tensors)}
    within = {t.op: scan for scan in stages if isinstance(scan.op, ScanOp) for t in _updates(scan.op)}
    _inline_all_but(s, stages, whole)
    for tensor in stages:
        if tensor.op not in whole or tensor.op in others or not isinstance(tensor.op, te.ComputeOp):
            continue
        axes = list(s[tensor].op.axis)
        steps = 1 if tensor.op in within else 0  # the axis of time is the scan's loop
        if is_reduction(tensor) and not steps:
            _schedule_elements(s, tensor, [tensor], target)
        else:
            bind_elements(s, tensor, axes[steps:] or [s[tensor].fuse()], target)


def _updates(scan: ScanOp) -> list[te.Tensor]:
    """The computed tensors of a scan's step: those that depend on its state."""
    states, found = {state.op for state in scan.states}, dict[te.Tensor, bool]()

    @nested
    def depends(tensor: te.Tensor) -> bool:
        if tensor.op in states:
            return True
        if tensor not in found:
            inside = [depends(source) for source in tensor.op.input_tensors]  # of all, as they are noted
            found[tensor] = any(inside)
        return found[tensor]

    for update in scan.update:
        depends(update)
    return [*scan.update, *(tensor for tensor, inside in found.items() if inside)]


def _inline_all_but(s: te.Schedule, stages: list[te.Tensor], kept: set[te.Operation]) -> None:
    for tensor in stages:
        if tensor.op not in kept and isinstance(tensor.op, te.ComputeOp):
            s[tensor].compute_inline()


# ------------------------------------------------------------------------------------------------ one element, one sum
def threads_of(out: te.Tensor, reductions: list[te.Tensor], target: DeviceTarget) -> tuple[int, bool, bool] | None:
    """The threads for each element or row of `out`, whether it is rows, and whether several may share the terms.

    None where the reductions are launches of their own.
    """
    stages = computes([out])
    if not all(isinstance(t.op, te.ComputeOp) for t in stages):
        return None
    if element_by_element(out, reductions):
        return _threads_of_element(out, reductions, target), False, all(_can_share(t) for t in reductions)
    rows = _row_variables(out, reductions)
    return (_threads_of_row(*_rows_and_length(out, rows, reductions), target), True, True) if rows else None


def _threads_of_element(out: te.Tensor, reductions: list[te.Tensor], target: DeviceTarget) -> int:
    """Threads that share the terms of an element: one where there are few terms, or elements for all threads."""
    terms, count = max(terms_of(t) for t in reductions), math.prod(shape_of(out))
    machine = machine_of(target)
    # a thread for each would leave multiprocessors with too little
    few = count < machine.multiprocessors * machine.together
    together = terms > _FEW_TERMS and (few or bool(row_axes(reductions[-1])))
    if not together or not all(_can_share(t) for t in reductions):
        return 1
    return machine.together if few and terms >= _MANY_TERMS else machine.warp


def _schedule_elements(
    s: te.Schedule, out: te.Tensor, reductions: list[te.Tensor], target: DeviceTarget, threads: int | None = None
) -> None:
    """`out`, which is one of `reductions` or computed from single elements of them."""
    threads = threads or _threads_of_element(out, reductions, target)
    if threads == 1:
        schedule_alone(s, out, reductions, target)
        return
    axes = list(s[out].op.axis)
    element = s[out].fuse(*axes) if len(axes) != 1 else axes[0]
    block, row = s[out].split(element, factor=_rows_of_block(axes, threads, target))
    s[out].bind(block, te.thread_axis("blockIdx.x"))
    s[out].bind(row, te.thread_axis("threadIdx.y"))
    for tensor in reductions:
        if tensor.op is not out.op:
            s[tensor].compute_at(s[out], row)
            s[tensor].set_scope("local")
        _share_terms(s, tensor, threads)


def schedule_alone(s: te.Schedule, out: te.Tensor, reductions: list[te.Tensor], target: DeviceTarget) -> None:
    """A thread for each element, which sums all its terms."""
    inner = None
    if reductions[-1].op is out.op:
        inner = s.cache_write(out, "local") if len(out.op.outputs) == 1 else None
    thread = bind_elements(s, out, list(s[out].op.axis) or [s[out].fuse()], target)
    for tensor in [t for t in reductions if t.op is not out.op]:
        s[tensor].compute_at(s[out], thread)
        s[tensor].set_scope("local")
    if inner is not None:
        s[inner].compute_at(s[out], thread)


def _rows_of_block(axes: list[te.IterVar], threads: int, target: DeviceTarget) -> int:
    """Rows of `threads` threads in a block, at least a warp of threads where rows are short.

    They divide the rows there are, as no barrier may stand under a guard.
    """
    if not all(isinstance(iv.dom.extent, IntImm) for iv in axes if iv.dom is not None):
        return 1
    machine = machine_of(target)
    count = math.prod(extent_of(iv) for iv in axes)
    most = max(1, min(machine.together, target.max_threads_per_block) // threads)
    wanted = max(1, machine.warp // threads, min(most, count // machine.multiprocessors))
    return max(rows for rows in range(1, wanted + 1) if count % rows == 0)


def _can_share(tensor: te.Tensor) -> bool:
    """True for a reduction of one value, over a number of terms that is known."""
    return len(tensor.op.outputs) == 1 and all(
        axis.dom is not None and isinstance(axis.dom.extent, IntImm) for axis in tensor.op.reduce_axis
    )


def _share_terms(s: te.Schedule, tensor: te.Tensor, threads: int) -> None:
    """Divide the terms of a reduction among `threads` neighbouring threads."""
    axes = list(s[tensor].op.reduce_axis)
    terms = s[tensor].fuse(*axes) if len(axes) > 1 else axes[0]
    _, own = s[tensor].split(terms, factor=threads)
    s[tensor].bind(own, te.thread_axis((0, threads), "threadIdx.x"))


# ------------------------------------------------------------------------------------------------------ rows in blocks
def _row_variables(out: te.Tensor, reductions: list[te.Tensor]) -> list[te.IterVar]:
    """The axes of `out` that are, as they are, indices of every reduction that it reads; [] if it has no rows."""
    if is_reduction(out) or not all(_can_share(t) for t in reductions):
        return []
    known, rows = {t.op for t in reductions}, list(out.op.axis)
    for load in reads_through(out, is_reduction):
        if load.producer.op in known:
            rows = [iv for iv in rows if iv.var in load.indices]
    rows = [iv for iv in rows if extent_of(iv) > 1]
    count = math.prod(extent_of(iv) for iv in rows)
    own = all(math.prod(shape_of(t)) <= count for t in reductions)
    return rows if own and len(rows) < len(out.op.axis) else []


def _threads_of_row(count: int, length: int, target: DeviceTarget) -> int:
    """Threads for each of `count` rows: a warp where these fill the device or are short, else as the length wants."""
    machine = machine_of(target)
    warps = _WARPS_TO_FILL * machine.multiprocessors
    if length <= _SHORT_ROW or (count >= warps and length <= _MANY_TERMS):
        return machine.warp
    most = machine.together
    return max(machine.warp, min(most // 2 if length <= _MANY_TERMS else most, target.max_threads_per_block))


def _rows_and_length(out: te.Tensor, rows: list[te.IterVar], reductions: list[te.Tensor]) -> tuple[int, int]:
    """The number of rows, and the most elements or terms of one."""
    inner = [iv for iv in out.op.axis if iv not in rows]
    length = max(math.prod(extent_of(iv) for iv in inner), max(terms_of(t) for t in reductions))
    return math.prod(extent_of(iv) for iv in rows), length


def _schedule_rows(
    s: te.Schedule, out: te.Tensor, reductions: list[te.Tensor], target: DeviceTarget, threads: int | None = None
) -> None:
    """A block, or for short rows a warp, computes the reductions of a row and then its elements."""
    rows = _row_variables(out, reductions)
    inner = [iv for iv in s[out].op.axis if iv not in rows]
    count, length = _rows_and_length(out, rows, reductions)
    threads = threads or _threads_of_row(count, length, target)
    s[out].reorder(*rows, *inner)
    row = s[out].fuse(*rows) if len(rows) > 1 else rows[0]
    element = s[out].fuse(*inner) if len(inner) > 1 else inner[0]
    _, own = s[out].split(element, factor=threads)
    s[out].bind(own, te.thread_axis((0, threads), "threadIdx.x"))
    if threads == machine_of(target).warp:
        block, row = s[out].split(row, factor=_rows_of_block(rows, min(threads, length), target))
        s[out].bind(block, te.thread_axis("blockIdx.x"))
        s[out].bind(row, te.thread_axis("threadIdx.y"))
    else:
        s[out].bind(row, te.thread_axis("blockIdx.x"))
    for tensor in reductions:
        s[tensor].compute_at(s[out], row)
        s[tensor].set_scope("local")  # each thread's own: shared, it would be of all rows of the block
        _share_terms(s, tensor, threads)
