"""Attention as one kernel: a block of query rows at a time, whose scores never leave the cache of its worker.

    parallel (batch, head)
      K as columns, V                                          a copy of each head, in the level-2 cache
      for each block of query rows
        copy of the rows
        for each panel of columns: Q K^T in registers, scaled and masked       [rows, N] in the level-1 or -2 cache
        row maxima, exponentials, row sums
        for each panel of the result: exponentials times V in registers, divided by the sums

With few heads the workers share the blocks of rows instead, and K and V are copied for all heads first. Which it is,
the rows of a block and the widths of the panels are chosen by cost (`attention_cost`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import te
from tilewright.backend.cpu.schedule.attention_cost import attention_cost, attention_space, attention_workload
from tilewright.backend.cpu.schedule.common import parallel_outer, vectorize_lanes
from tilewright.backend.cpu.schedule.lanes import lanes_of, reduce_along
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes
from tilewright.topi.schedule.template import Template


@dataclass(frozen=True)
class AttentionStages:
    """The stages of the computation; see `topi.nn.attention`."""

    query: te.Tensor
    key: te.Tensor
    value: te.Tensor
    scores: te.Tensor
    masked: te.Tensor
    summaries: tuple[te.Tensor, te.Tensor]
    exponentials: te.Tensor

    @staticmethod
    def of(product: te.Tensor, out: te.Tensor) -> AttentionStages:
        """The stages of the `product` of exponentials and values, which `out` divides by their sums."""
        exponentials, value = product.op.input_tensors
        return AttentionStages.around(
            exponentials, next(t for t in out.op.input_tensors if t.op is not product.op), value
        )

    @staticmethod
    def around(exponentials: te.Tensor, total: te.Tensor, value: te.Tensor) -> AttentionStages:
        """The stages around the `exponentials` of the scores, their sums and what they multiply."""
        masked, top = exponentials.op.input_tensors
        scores = masked.op.input_tensors[0]
        query, key = scores.op.input_tensors
        return AttentionStages(query, key, value, scores, masked, (top, total), exponentials)

    def ops(self) -> set[te.Operation]:
        """Their operations; what else the computation holds only moves elements to them."""
        tensors = (self.query, self.key, self.value, self.scores, self.masked, *self.summaries, self.exponentials)
        return {tensor.op for tensor in tensors}


def schedule_attention(s: te.Schedule, product: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `product` (tag attention: [B, H, M, E]) and what divides it by the row sums, `out`."""
    stages = AttentionStages.of(product, out)
    for tensor in computes([out]):
        if tensor.op not in stages.ops() and tensor.op not in (product.op, out.op):
            s[tensor].compute_inline()
    panel, by_head = config["panel"], config["by_head"]
    b, h, row, column = ordered_axes(s, product, out)
    blocks, position = s[out].split(row, factor=config["block_rows"])
    panels, lane = s[out].split(column, factor=panel)
    s[out].reorder(b, h, blocks, panels, position, lane)
    head = s[out].fuse(b, h)
    s[out].parallel(head if by_head else blocks)
    vectorize_lanes(s, out, lane, panel, target)
    s[out].unroll(position)

    s[product].set_scope("local")
    s[product].compute_at(s[out], panels)
    _accumulate(s, product, panel, target)
    for operand in (stages.key, stages.value):
        vectors = copy_vectors(s, operand, target)
        if operand is stages.key:
            s[operand].reorder(vectors, s[operand].op.axis[2])
        if by_head:
            s[operand].compute_at(s[out], head)
        else:
            parallel_outer(s, operand, list(s[operand].op.axis[:2]), target)
    for tensor in (stages.query, stages.masked, stages.exponentials, *stages.summaries):
        s[tensor].compute_at(s[out], blocks)
    copy_vectors(s, stages.query, target)
    schedule_scores(s, stages, config["score_panel"], target)


def ordered_axes(s: te.Schedule, product: te.Tensor, out: te.Tensor) -> list[te.IterVar]:
    """The axes of `out` in the order batch, head, row, column."""
    layout = product.op.attrs["out_layout"]
    return [s[out].op.axis[layout.index(letter)] for letter in "BHSD"]


def _accumulate(s: te.Schedule, accumulator: te.Tensor, panel: int, target: Target) -> None:
    """The inner product of a tile: the depth outermost, rows and vectors unrolled into registers."""
    b, h, row, column = s[accumulator].op.axis
    (k,) = s[accumulator].op.reduce_axis
    s[accumulator].reorder(b, h, k, row, column)
    vectorize_lanes(s, accumulator, column, panel, target)
    s[accumulator].unroll(row)


def copy_vectors(s: te.Schedule, tensor: te.Tensor, target: Target) -> te.IterVar:
    """Vectors along the last axis of a copy; returns the axis that counts them."""
    vectors, last = s[tensor].split(s[tensor].op.axis[-1], factor=lanes_of(tensor, target))
    s[tensor].vectorize(last)
    return vectors


def schedule_scores(s: te.Schedule, stages: AttentionStages, panel: int, target: Target) -> None:
    """The scores of a block of rows, panel by panel, then the softmax of its rows."""
    schedule_panels(s, stages.masked, stages.scores, panel, target)
    copy_vectors(s, stages.exponentials, target)
    for summary in stages.summaries:
        reduce_along(s, summary, target)


def schedule_panels(
    s: te.Schedule, copied: te.Tensor, product: te.Tensor, panel: int, target: Target, rows: int | None = None
) -> None:
    """The `product`, by panels of columns and blocks of `rows` (None: all), in registers; `copied` is made of it."""
    _, _, row, column = s[copied].op.axis
    panels, lane = s[copied].split(column, factor=panel)
    blocks, row = s[copied].split(row, factor=rows) if rows else (panels, row)
    s[copied].reorder(panels, *([blocks] if rows else []), row, lane)
    s[copied].unroll(row)
    vectorize_lanes(s, copied, lane, panel, target)
    s[product].set_scope("local")
    s[product].compute_at(s[copied], blocks)
    _accumulate(s, product, panel, target)


ATTENTION = Template("attention", attention_workload, attention_space, attention_cost, schedule_attention)
