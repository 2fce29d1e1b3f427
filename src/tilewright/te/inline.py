"""Inlining: the expressions of stages marked `compute_inline`, put in place of every read of them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.stage import INLINE, Stage
from tilewright.te.tensor import Tensor
from tilewright.tir.expr import Expr, ProducerLoad


def inline(stages: Sequence[Stage]) -> dict[Stage, Operation]:
    """The operation of each stage after inlining; `stages` lists producers before readers.

    Each body is rewritten once, and a read that occurs many times is expanded once, so the cost is linear in the size
    of the expressions as graphs.

    before `B[i] = A[i] + 1 (inline); C[i] = B[i] * B[i]` · after `C[i] = (A[i] + 1) * (A[i] + 1)`, one shared sum
    """
    owner: dict[Tensor, Stage] = {}
    result: dict[Stage, Operation] = {}
    expanded: dict[ProducerLoad, Expr] = {}

    def read(tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        load = ProducerLoad(tensor, indices)
        stage = owner.get(tensor)
        if stage is None:
            return load
        if load not in expanded:
            op = result[stage]
            assert isinstance(op, ComputeOp)
            variables = {iv.var: index for iv, index in zip(op.axis, indices, strict=True)}
            expanded[load] = BodyRewriter(variables)(op.body[tensor.value_index])
        return expanded[load]

    rewriter = BodyRewriter({}, read)
    for stage in stages:
        op = stage.op
        if owner and isinstance(op, ComputeOp):
            op = op.with_body([rewriter(b) for b in op.body])
        result[stage] = op
        if stage.attach_type == INLINE:
            owner.update(dict.fromkeys(stage.outputs, stage))
    return result
