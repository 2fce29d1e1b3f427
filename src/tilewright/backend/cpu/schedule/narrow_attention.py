"""Attention with operands of 16 bits: the loops of `attention`, whose products are tensorized.

parallel (batch, head)
  K as columns, V                                          words of two numbers, in the level-2 cache
  for each block of query rows
    the rows as words
    Q K^T in matrix registers or vectors, panel by panel   [rows, N] float32
    scaled and masked, row maxima, exponentials as words, row sums
    exponentials times V likewise, divided by the sums
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.cpu.schedule.attention import ATTENTION, AttentionStages, copy_vectors, ordered_axes
from tilewright.backend.cpu.schedule.attention_cost import AttentionWorkload, softmax_cost
from tilewright.backend.cpu.schedule.common import parallel_outer
from tilewright.backend.cpu.schedule.product import WITH_ADDING_UP, WORTH_ROUNDING
from tilewright.backend.cpu.schedule.tile import fits, step_cycles
from tilewright.backend.cpu.schedule.tile_cost import tile_steps
from tilewright.backend.cpu.schedule.tile_intrin import tile_groups, tile_starts
from tilewright.backend.cpu.schedule.word_intrin import in_matrix_registers, word_intrin
from tilewright.target import Target
from tilewright.tir.expr import ProducerLoad
from tilewright.tir.matrix_tiles import ROW_BYTES, ROWS
from tilewright.topi.nn.attention import SCORE_ALIGNMENT
from tilewright.topi.nn.narrow_attention import DEPTH_ALIGNMENT, ROW_ALIGNMENT
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost, Traffic
from tilewright.topi.schedule.space import ConfigSpace, divisors
from tilewright.topi.schedule.stages import computes, shape_of
from tilewright.topi.schedule.template import Template

#: Rows of a block of queries at most; vectors of a panel of sums in vector registers.
_MOST_ROWS, _PANEL_VECTORS = 256, (1, 2, 3, 4)

#: Times that scores are written or read: by the products, the mask, the maximum, the exponentials (words of half the
#: size), the sum and the second product.
_SCORE_PASSES = 6

#: Cycles from a product in matrix registers to the next one that adds to the same sums (Intel's optimization manual).
_TILE_LATENCY = 52

#: Instructions that a vector of operands takes beside its load and store: scaled, rounded, its halves mixed.
_ROUNDED = 3

#: Rows of the blocks that `transpose_registers` makes of the keys.
_TRANSPOSED = 16


@dataclass(frozen=True)
class NarrowAttentionWorkload:
    """`heads` of all images, each [rows, depth] queries by [columns, depth] keys to [rows, width], as filled up."""

    heads: int
    rows: int
    columns: int
    depth: int
    width: int
    operands: str
    filled_up: bool = False
    """rows behind the last were added"""


def narrow_workload(product: te.Tensor, _out: te.Tensor) -> NarrowAttentionWorkload:
    """The facts of the product of exponentials and values, and of the scores behind it."""
    batch, heads, rows, width = shape_of(product)
    exponentials, value = product.op.input_tensors
    query = exponentials.op.input_tensors[0].op.input_tensors[0].op.input_tensors[0]
    columns, depth = 2 * shape_of(value)[2], 2 * shape_of(query)[3]
    attrs = product.op.attrs
    filled_up = attrs["rows"] != rows
    return NarrowAttentionWorkload(batch * heads, rows, columns, depth, width, attrs["operands"], filled_up)


def narrow_space(workload: NarrowAttentionWorkload, target: Target) -> ConfigSpace:
    """Rows of a block of queries, widths of the panels of scores and of the result, and whether heads are shared out.

    Matrix registers take all columns at once.
    """
    rows = [high for high in divisors(workload.rows, _MOST_ROWS) if high >= ROW_ALIGNMENT]
    if workload.filled_up:
        rows = [high for high in rows if high < workload.rows] or [ROW_ALIGNMENT]
    scores, panels = (_panels(extent, workload.operands, target) for extent in (workload.columns, workload.width))
    space = ConfigSpace()
    found = [(r, s, p) for r in rows for s in scores for p in panels]
    space.define_joint(("block_rows", "score_panel", "panel"), found)
    space.define_knob("by_head", (1, 0))
    return space


def _panels(extent: int, operands: str, target: Target) -> list[int]:
    if in_matrix_registers(operands, target):
        return [extent]
    lanes = target.machine.lanes()
    return [count * lanes for count in _PANEL_VECTORS if extent % (count * lanes) == 0]


def narrow_cost(workload: NarrowAttentionWorkload, config: Mapping[str, int], target: Target) -> Cost:
    """Scores, softmax and result of the busiest worker's heads or blocks, after the copies of keys and values."""
    machine, rows = target.machine, config["block_rows"]
    blocks = workload.rows // rows
    shares = workload.heads if config["by_head"] else blocks
    workers = min(machine.cores, shares)
    mine = -(-shares // workers)
    heads, count = (mine, blocks) if config["by_head"] else (workload.heads, mine)
    products = Cost()
    for columns, depth, panel in (
        (workload.columns, workload.depth, config["score_panel"]),
        (workload.width, workload.columns, config["panel"]),
    ):
        products = products.then(_product(rows, columns, depth, panel, workload.operands, target).times(heads * count))
    copied = heads if config["by_head"] else -(-workload.heads // workers)
    copies = _copies(workload, copied, heads * count * rows, target)
    start = Cost(fixed=machine.kernel_start + (machine.barrier if workers > 1 else 0.0) * (2 - config["by_head"]))
    softmax = softmax_cost(heads * count * rows, workload.columns, target)
    return start.then(copies).then(products).then(softmax).then(_passes(workload, rows, heads * count, target))


def _product(rows: int, columns: int, depth: int, panel: int, operands: str, target: Target) -> Cost:
    """A block of rows by all columns."""
    machine = target.machine
    if in_matrix_registers(operands, target):
        high, starts = tile_starts(rows)
        steps, panels = depth * 2 // ROW_BYTES, columns // ROWS
        arithmetic, ports = tile_steps(1, high, starts, panels, ROW_BYTES, machine)
        regular = sum(start == i * high for i, start in enumerate(starts))
        groups = tile_groups(len(starts), regular, panels)
        waits = _TILE_LATENCY * sum(group.times * panels // group.across for group in groups)
        return Cost(arithmetic=steps * max(arithmetic, waits), load_ports=steps * ports)
    vectors = panel // machine.lanes()
    most = next((high for high in range(rows, 1, -1) if fits(high, vectors, target)), 1)
    high, starts = tile_starts(rows, most)
    cycles = step_cycles(high, vectors, target) * len(starts) * columns / panel * depth / 2
    if operands == "bfloat16":
        return Cost(arithmetic=cycles * machine.fma_per_cycle / machine.pair_dot_per_cycle)
    return Cost(arithmetic=cycles * WITH_ADDING_UP)


def _copies(workload: NarrowAttentionWorkload, heads: int, rows: int, target: Target) -> Cost:
    """Keys and values of `heads` heads and `rows` rows of queries: read as float32, written as words."""
    machine = target.machine
    copied = heads * workload.columns * (workload.depth + workload.width) + rows * workload.depth
    traffic = Traffic(machine, machine.cores)
    traffic.add(2 * copied * (2 + machine.write_factor), 4 * copied)
    vectors = copied / machine.lanes()
    shuffled = heads * workload.columns * workload.depth / machine.lanes() * machine.shuffle
    return traffic.cost(
        shuffled * machine.lanes().bit_length() + _ROUNDED * vectors,
        vectors * (1 / machine.vector_loads + 1 / machine.stores),
    )


def _passes(workload: NarrowAttentionWorkload, rows: int, blocks: int, target: Target) -> Cost:
    """The traffic of scores and results of a block, which are written and read by one stage after the other."""
    traffic = Traffic(target.machine, target.machine.cores)
    scores, result = rows * workload.columns * 4, rows * workload.width * 4
    apart = scores + scores // 2 + result + workload.columns * (workload.depth + workload.width) * 2
    traffic.add(blocks * (_SCORE_PASSES * scores + 2 * result), apart)
    return traffic.cost(0.0, 0.0)


def schedule_narrow_attention(
    s: te.Schedule, product: te.Tensor, out: te.Tensor, target: Target, config: Config
) -> None:
    """Schedule `product` (tag narrow_attention: [B, H, M, E]) and what divides it by the row sums, `out`."""
    stages, operands = AttentionStages.of(product, out), product.op.attrs["operands"]
    for tensor in computes([out]):
        if tensor.op not in stages.ops() and tensor.op not in (product.op, out.op):
            s[tensor].compute_inline()
    b, h, row, _ = ordered_axes(s, product, out)
    rows = config["block_rows"]
    blocks, position = s[out].split(row, factor=rows)
    vectors = copy_vectors(s, out, target)
    s[out].reorder(b, h, blocks, position, vectors)
    head = s[out].fuse(b, h)
    s[out].parallel(head if config["by_head"] else blocks)
    for operand in (stages.key, stages.value):
        vectors = copy_vectors(s, operand, target)
        if operand is stages.key:
            words, word = s[operand].split(s[operand].op.axis[2], factor=_TRANSPOSED)
            s[operand].reorder(vectors, words, word)
        if config["by_head"]:
            s[operand].compute_at(s[out], head)
        else:
            parallel_outer(s, operand, list(s[operand].op.axis[:2]), target)
    copied = [stages.query, stages.exponentials]
    assert isinstance(stages.masked.op, te.ComputeOp)
    if isinstance(stages.masked.op.body[0], ProducerLoad):
        s[stages.masked].compute_inline()
    else:
        copied.append(stages.masked)
    for tensor in (stages.scores, *copied, *stages.summaries, product):
        s[tensor].compute_at(s[out], blocks)
    for tensor in copied:
        copy_vectors(s, tensor, target)
    for summary in stages.summaries:
        _reduce(s, summary, target)
    _multiply(s, stages.scores, rows, config["score_panel"], operands, target)
    _multiply(s, product, rows, config["panel"], operands, target)


def _multiply(s: te.Schedule, sums: te.Tensor, rows: int, panel: int, operands: str, target: Target) -> None:
    """The sums of a block of rows, panel by panel."""
    b, h, row, column = s[sums].op.axis
    panels, lane = s[sums].split(column, factor=panel)
    words, half = s[sums].op.reduce_axis
    s[sums].reorder(b, h, panels, row, lane, words, half)
    depth = shape_of(sums.op.input_tensors[1])[2]
    s[sums].tensorize(row, word_intrin(rows, panel, depth, operands, target))


def _reduce(s: te.Schedule, summary: te.Tensor, target: Target) -> None:
    """One vector of partial results: neighbouring rows hide its latency, and each takes one reduction of lanes."""
    (along,) = s[summary].op.reduce_axis
    _, lane = s[summary].split(along, factor=target.machine.lanes())
    s[summary].vectorize(lane)


NARROW_ATTENTION = Template("narrow_attention", narrow_workload, narrow_space, narrow_cost, schedule_narrow_attention)


def gains_by_narrow_attention(
    heads: int, rows: int, columns: int, depth: int, width: int, operands: str, target: Target
) -> bool:
    """True if the best configuration is expected to be faster than the best in float32."""
    if rows < ROW_ALIGNMENT or width % ROW_ALIGNMENT:
        return False
    high, keys, terms = (
        -(-rows // ROW_ALIGNMENT) * ROW_ALIGNMENT,
        *(-(-size // DEPTH_ALIGNMENT) * DEPTH_ALIGNMENT for size in (columns, depth)),
    )
    narrow = NarrowAttentionWorkload(heads, high, keys, terms, width, operands, high != rows)
    padded = -(-columns // SCORE_ALIGNMENT) * SCORE_ALIGNMENT
    plain = AttentionWorkload(heads, rows, padded, depth, width)
    found, before = (
        template.ranked(workload, target).cheapest[0].cycles
        for template, workload in ((NARROW_ATTENTION, narrow), (ATTENTION, plain))
    )
    return found < WORTH_ROUNDING * before
