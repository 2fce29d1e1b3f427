"""The gradient of attention as one kernel: a head at a time, whose scores never leave the caches of its worker.

    parallel (batch, head)
      copies of Q, K and G, and of K and V as columns                           [N, D] each
      P for each block of rows: scores in registers, masked, softmax            [N, N]
      S for each block of rows: G V^T in registers, its sum with P              [N, N]
      S K, then S^T Q, then P^T G in registers, a panel of columns at a time

Rows of a block and widths of panels are chosen by cost.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright import te
from tilewright.backend.cpu.schedule.attention import (
    AttentionStages,
    copy_vectors,
    schedule_panels,
    schedule_scores,
)
from tilewright.backend.cpu.schedule.attention_cost import (
    AttentionWorkload,
    copies_cost,
    products_cost,
    register_tiles,
    softmax_cost,
)
from tilewright.backend.cpu.schedule.lanes import reduce_along
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, shape_of
from tilewright.topi.schedule.template import Template


def attention_backward_workload(anchor: te.Tensor, out: te.Tensor) -> AttentionWorkload:
    """Those of the attention: heads of [N, D] queries, keys and values."""
    batch, heads, rows, depth = shape_of(anchor)
    return AttentionWorkload(batch * heads, rows, rows, depth, depth)


def attention_backward_space(workload: AttentionWorkload, target: Target) -> ConfigSpace:
    """Rows of a block, widths of the panels of scores and of the results."""
    space = ConfigSpace()
    space.define_joint(("block_rows", "score_panel", "panel"), register_tiles(workload, target))
    return space


def attention_backward_cost(workload: AttentionWorkload, config: Mapping[str, int], target: Target) -> Cost:
    """Two products of the size of the scores, three of the size of the results, between them a softmax."""
    machine = target.machine
    workers = min(machine.cores, workload.heads)
    heads = -(-workload.heads // workers)
    scores, result = products_cost(workload, config, heads, workload.rows, target)
    copies = copies_cost(workload, heads, heads * workload.rows, target)
    start = Cost(fixed=machine.kernel_start + (machine.barrier if workers > 1 else 0.0))
    softmax = softmax_cost(heads * workload.rows, workload.columns, target)
    return start.then(copies.times(2)).then(scores.times(2)).then(softmax.times(2)).then(result.times(3))


def schedule_attention_backward(
    s: te.Schedule, anchor: te.Tensor, _out: te.Tensor, target: Target, config: Config
) -> None:
    """Schedule the results of `topi.nn.attention_backward`, of which `anchor` is one."""
    results = anchor.op.input_tensors
    products = [result.op.input_tensors[0] for result in results]
    of_scores, rows_of_key = products[0].op.input_tensors
    weights, rows = products[2].op.input_tensors
    _, of_weights, total = of_scores.op.input_tensors
    (product,) = of_weights.op.input_tensors
    columns = next(t for t in product.op.input_tensors if t.op is not rows.op)
    exponentials, sums = weights.op.input_tensors
    stages = AttentionStages.around(exponentials, sums, rows)
    own = (anchor, *results, *products, of_scores, rows_of_key, weights, of_weights, total, product, columns)
    kept = stages.ops() | {tensor.op for tensor in own}
    for tensor in computes([anchor]):
        if tensor.op not in kept:
            s[tensor].compute_inline()

    head = s[anchor].fuse(*s[anchor].op.axis[:2])
    s[anchor].parallel(head)
    copy_vectors(s, anchor, target)
    for tensor in (stages.query, stages.key, rows_of_key, rows, columns, weights, of_scores, *results):
        s[tensor].compute_at(s[anchor], head)
    for operand in (stages.query, stages.key, rows_of_key, rows, columns):
        vectors = copy_vectors(s, operand, target)
        if operand is stages.key or operand is columns:
            s[operand].reorder(vectors, s[operand].op.axis[2])

    high, panel = config["block_rows"], config["score_panel"]
    block = _schedule_blocks(s, weights, high, target)
    for tensor in (stages.masked, stages.exponentials, *stages.summaries):
        s[tensor].compute_at(s[weights], block)
    schedule_scores(s, stages, panel, target)
    block = _schedule_blocks(s, of_scores, high, target)
    for tensor in (of_weights, total):
        s[tensor].compute_at(s[of_scores], block)
    schedule_panels(s, of_weights, product, panel, target)
    reduce_along(s, total, target)
    for result, accumulator in zip(results, products, strict=True):
        schedule_panels(s, result, accumulator, config["panel"], target, high)


def _schedule_blocks(s: te.Schedule, tensor: te.Tensor, rows: int, target: Target) -> te.IterVar:
    """Blocks of rows of [B, H, N, N], in vectors; returns the axis that counts the blocks."""
    block, _ = s[tensor].split(s[tensor].op.axis[2], factor=rows)
    copy_vectors(s, tensor, target)
    return block


ATTENTION_BACKWARD = Template(
    "attention_backward",
    attention_backward_workload,
    attention_backward_space,
    attention_backward_cost,
    schedule_attention_backward,
)
