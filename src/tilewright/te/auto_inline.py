"""Inlining whole classes of stages: those whose computation is cheap to repeat wherever it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.scan import ScanOp
from tilewright.te.schedule import Schedule
from tilewright.te.stage import ROOT, Stage
from tilewright.tir.expr import Expr, IntImm, Var


def auto_inline_elemwise(schedule: Schedule) -> None:
    """`compute_inline` of every stage that reads its inputs at its own index alone, such as A[i, j] + B[i, j].

    Left out, here and below, are outputs, stages that are scheduled already, and what a scan or extern operation reads.
    """
    _inline(schedule, is_elemwise)


def auto_inline_broadcast(schedule: Schedule) -> None:
    """`compute_inline` of stages that read inputs at some of their own axes, in order, as A[i, j] + B[0, j] does."""
    _inline(schedule, is_broadcast)


def auto_inline_injective(schedule: Schedule) -> None:
    """`compute_inline` of every stage that does not reduce, such as A[i // 4, i % 4]."""
    _inline(schedule, is_injective)


def is_elemwise(op: Operation) -> bool:
    """True if each element of `op` depends on the elements of its inputs at the same index."""
    return is_injective(op) and all(_positions(op, indices) == list(range(len(op.axis))) for _, indices in op.reads())


def is_broadcast(op: Operation) -> bool:
    """True if each element of `op` depends on one of each input, at an index of its own axes in order and constants."""
    if not is_injective(op):
        return False
    varying = [[index for index in indices if not isinstance(index, IntImm)] for _, indices in op.reads()]
    return all(_positions(op, indices) is not None for indices in varying)


def is_injective(op: Operation) -> bool:
    """True if `op` computes each element by itself, without a reduction."""
    return isinstance(op, ComputeOp) and not op.is_reduction


def _positions(op: Operation, indices: Sequence[Expr | None]) -> list[int] | None:
    """The axes of `op` that the indices are; None where one is no axis or they are in another order."""
    own: list[Var] = [iv.var for iv in op.axis]
    positions = [own.index(i) if isinstance(i, Var) and i in own else -1 for i in indices]
    return positions if -1 not in positions and positions == sorted(set(positions)) else None


def _inline(schedule: Schedule, test: Callable[[Operation], bool]) -> None:
    for stage in schedule.stages:
        if test(stage.op) and not stage.is_output and _is_untouched(stage) and _is_read_by_expressions(schedule, stage):
            stage.compute_inline()


def _is_untouched(stage: Stage) -> bool:
    plain = stage.attach_type == ROOT and stage.group is None and not stage.relations and not stage.attrs
    return plain and stage.leaf_iter_vars == [*stage.op.axis, *stage.op.reduce_axis]


def _is_read_by_expressions(schedule: Schedule, stage: Stage) -> bool:
    readers = [s.op for s in schedule.stages if any(t in stage.outputs for t in s.op.input_tensors)]
    states = any(isinstance(s.op, ScanOp) and s.op.scan_reads(stage.outputs) for s in schedule.stages)
    return not states and all(isinstance(op, ComputeOp) for op in readers)
