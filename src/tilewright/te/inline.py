"""Inlining: the expressions of stages marked `compute_inline`, put in place of every read of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tilewright.errors import ScheduleError
from tilewright.te.operation import ComputeOp, Operation, producer_loads
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.stage import INLINE, Stage
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import Expr, ProducerLoad


def inline(stages: Sequence[Stage], keep: Collection[Stage] = ()) -> dict[Stage, Operation]:
    """The operations, after inlining, of the stages that are not themselves inlined, and of those in `keep`.

    The body of an inlined stage is rewritten once for each distinct index at which it is read, wherever that is, so the
    cost is linear in the size of the result as a graph.

    before `B[i] = A[i] + 1 (inline); C[i] = B[i] * B[i]` · after `C[i] = (A[i] + 1) * (A[i] + 1)`, one shared sum
    """
    owner = {tensor: stage for stage in stages if stage.attach_type == INLINE for tensor in stage.outputs}
    expanded: dict[ProducerLoad, Expr] = {}

    def read(tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        load = ProducerLoad(tensor, indices)
        stage = owner.get(tensor)
        if stage is None:
            return load
        found = expanded.get(load)
        if found is None:
            op = stage.op
            assert isinstance(op, ComputeOp)
            variables = {iv.var: index for iv, index in zip(op.axis, indices, strict=True)}
            found = expanded[load] = BodyRewriter(variables, read)(op.body[tensor.value_index])
        return found

    rewriter = BodyRewriter({}, read)
    result: dict[Stage, Operation] = {}
    for stage in stages:
        if stage.attach_type != INLINE or stage in keep:
            op = stage.op
            result[stage] = op.with_body([rewriter(b) for b in op.body]) if isinstance(op, ComputeOp) and owner else op
            _check_whole_reads(op, owner)
    return result


def _check_whole_reads(op: Operation, owner: Mapping[Tensor, Stage]) -> None:
    """An operation without an expression needs the tensors it reads in memory; so do lengths of reductions."""
    for iv in op.reduce_axis if owner else ():
        for load in () if iv.dom is None else producer_loads([iv.dom.min, iv.dom.extent]):
            if load.producer in owner:
                raise ScheduleError(
                    f"compute_inline of {load.producer.name}: the length of a reduction of {op.name} reads it; "
                    "leave it a stage"
                )
    for tensor in () if isinstance(op, ComputeOp) else op.input_tensors:
        if tensor in owner:
            raise ScheduleError(
                f"compute_inline of {tensor.name}: {op!r} reads it whole, from memory; leave it a stage"
            )
