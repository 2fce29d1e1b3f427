"""The search space and cost of the attention template: two products of matrices and a softmax, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright import te
from tilewright.backend.cpu.schedule.product import Blocking, ProductWorkload, blocking_cost, fits_registers
from tilewright.target import Target
from tilewright.tir.expr import IntImm
from tilewright.tir.size_hint import size_hint
from tilewright.topi.nn.attention import SYMBOLIC_ALIGNMENT
from tilewright.topi.schedule.cost import Cost, Traffic
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import shape_of

#: Rows of a block of queries, at most; vectors of a panel of scores or of the result.
_BLOCK_ROWS, _PANEL_VECTORS = 14, (1, 2, 3, 4)


@dataclass(frozen=True)
class AttentionWorkload:
    """`heads` of all images, each [rows, depth] queries by [columns, depth] keys to [rows, width]."""

    heads: int
    rows: int
    columns: int
    depth: int
    width: int
    symbolic: bool = False
    """the number of columns is symbolic: `columns` is a likely one"""


def attention_workload(product: te.Tensor, out: te.Tensor) -> AttentionWorkload:
    """The facts of the product of exponentials and values, and of the scores behind it."""
    batch, heads, rows, width = shape_of(product)
    exponentials, _ = product.op.input_tensors
    scores = exponentials.op.input_tensors[0].op.input_tensors[0]
    query, _ = scores.op.input_tensors
    columns = exponentials.shape[-1]
    symbolic = not isinstance(columns, IntImm)
    return AttentionWorkload(batch * heads, rows, size_hint(columns), shape_of(query)[-1], width, symbolic)


def attention_space(workload: AttentionWorkload, target: Target) -> ConfigSpace:
    """Rows of a block of queries, widths of the panels of scores and of the result, and whether heads are shared out.

    Where they are not, blocks of rows are, and keys and values of all heads are copied first.
    """
    space = ConfigSpace()
    space.define_joint(("block_rows", "score_panel", "panel"), register_tiles(workload, target))
    space.define_knob("by_head", (1, 0))
    return space


def register_tiles(workload: AttentionWorkload, target: Target) -> list[tuple[int, int, int]]:
    """Rows of a block, with widths of the panels of scores and of the result for which accumulators fit registers."""
    lanes = target.machine.lanes()
    panels = _widths(workload.width, lanes)
    scores = [count * lanes for count in _PANEL_VECTORS if count * lanes <= workload.columns] or [workload.columns]
    if workload.symbolic:
        scores = [width for width in scores if SYMBOLIC_ALIGNMENT % width == 0]
    rows = range(min(_BLOCK_ROWS, workload.rows), 0, -1)
    return [
        (r, s, p)
        for r in rows
        for s in scores
        for p in panels
        if fits_registers(r, s, target) and fits_registers(r, p, target)
    ]


def _widths(extent: int, lanes: int) -> list[int]:
    """Widths of panels that divide `extent`: whole vectors, or else the largest part of one; all where nothing does."""
    whole = [count * lanes for count in _PANEL_VECTORS if extent % (count * lanes) == 0]
    parts = [lanes >> shift for shift in range(1, lanes.bit_length()) if extent % (lanes >> shift) == 0]
    return whole or [part for part in parts if part >= lanes // 4][:1] or [min(extent, 2 * lanes)]


def attention_cost(workload: AttentionWorkload, config: Mapping[str, int], target: Target) -> Cost:
    """Scores, softmax and result of the busiest worker's heads or blocks, after the copies of keys and values."""
    machine, rows = target.machine, config["block_rows"]
    blocks = -(-workload.rows // rows)
    shares = workload.heads if config["by_head"] else blocks
    workers = min(machine.cores, shares)
    mine = -(-shares // workers)
    heads, part = (mine, workload.rows) if config["by_head"] else (workload.heads, min(mine * rows, workload.rows))

    scores, result = products_cost(workload, config, heads, part, target)
    copies = copies_cost(workload, heads if config["by_head"] else -(-workload.heads // workers), heads * part, target)
    start = Cost(fixed=machine.kernel_start + (machine.barrier if workers > 1 else 0.0) * (2 - config["by_head"]))
    return start.then(copies).then(scores).then(softmax_cost(heads * part, workload.columns, target)).then(result)


def products_cost(
    workload: AttentionWorkload, config: Mapping[str, int], heads: int, rows: int, target: Target
) -> tuple[Cost, Cost]:
    """The scores of `rows` rows of each of `heads` heads, and their product with the values."""
    products = []
    for columns, depth, panel in (
        (workload.columns, workload.depth, config["score_panel"]),
        (workload.width, workload.columns, config["panel"]),
    ):
        product = ProductWorkload(rows, columns, depth, panel)  # its panels were packed by a step before
        cost = blocking_cost(product, Blocking(panel, config["block_rows"], 1, 0), target, 1)
        products.append(replace(cost, fixed=cost.fixed - target.machine.kernel_start).times(heads))
    return products[0], products[1]


def softmax_cost(rows: int, columns: int, target: Target) -> Cost:
    """Scaling, maximum, exponentials and sum of `rows` rows that lie in the first-level cache."""
    machine = target.machine
    vectors = rows * -(-columns // machine.lanes())
    return Cost(
        arithmetic=vectors * (machine.exp + 2) + 2 * rows * machine.horizontal_sum,
        load_ports=vectors * (4 / machine.vector_loads + 2 / machine.stores),
    )


def copies_cost(workload: AttentionWorkload, heads: int, rows: int, target: Target) -> Cost:
    """Keys and values of `heads` heads, the former as columns, and `rows` rows of queries."""
    machine = target.machine
    kept = heads * workload.columns * (workload.depth + workload.width)
    copied = kept + rows * workload.depth
    traffic = Traffic(machine, machine.cores)
    traffic.add(4 * copied * (1 + machine.write_factor), 4 * copied)
    vectors = copied / machine.lanes()
    shuffled = heads * workload.columns * workload.depth / machine.lanes() * machine.shuffle
    return traffic.cost(
        shuffled * machine.lanes().bit_length(), vectors * (1 / machine.vector_loads + 1 / machine.stores)
    )
