"""The search space and cost of the template of recurrent layers: the products and cells of all its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright import te
from tilewright.backend.cpu.schedule import tile
from tilewright.backend.cpu.schedule.common import power_of_two_lanes
from tilewright.backend.cpu.schedule.product import Blocking, ProductWorkload, blocking_cost, fits_registers
from tilewright.target import Target
from tilewright.te.scan import ScanOp
from tilewright.tir import IntImm
from tilewright.topi import tag
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, has_tag, shape_of, terms_of

#: Rows of a register tile, at most; of a symbolic batch: one of one image, the usual one, computes each of them.
_TILE_ROWS, _SYMBOLIC_ROWS = 14, 2

#: Vectors of a block of units, at most; cycles of a narrow block, of those of the best, that are near enough.
_WIDEST, _GOOD_ENOUGH = 4, 1.1


@dataclass(frozen=True)
class RecurrentWorkload:
    """`steps` of all `directions`; `products` has the gates and the depth of each product of a step.

    `units` are those of the states, in blocks of `block`; `dots` says that the weights are bytes.
    """

    steps: int
    directions: int
    batch: int
    units: int
    block: int
    products: tuple[tuple[int, int], ...]
    symbolic: bool = False
    dots: bool = False


def of_bytes(product: te.Tensor) -> bool:
    """True for a recurrent product whose weights are bytes."""
    return product.op.input_tensors[-1].ndim == 6


def unit_block_of(product: te.Tensor) -> int:
    """Units in a block of the weights of a recurrent product, [D, P, H, G, block] or [D, P, H / 4, G, block, 4]."""
    return shape_of(product.op.input_tensors[-1])[4]


def recurrent_workload(scan: te.Tensor, out: te.Tensor) -> RecurrentWorkload:
    """The facts of `scan`, whose products carry the tag recurrent_product."""
    assert isinstance(scan.op, ScanOp)
    products = [t for t in computes([scan]) if has_tag(t, tag.RECURRENT_PRODUCT)]
    _, directions, batch, units = shape_of(scan)
    symbolic = not isinstance(products[0].shape[2], IntImm)
    block, dots = unit_block_of(products[0]), of_bytes(products[0])
    found = tuple((shape_of(t)[3], terms_of(t)) for t in products)
    return RecurrentWorkload(shape_of(scan)[0] - 1, directions, batch, units, block, found, symbolic, dots)


def recurrent_space(workload: RecurrentWorkload, target: Target) -> ConfigSpace:
    """Rows of the batch in a register tile, and whether the workers share the blocks of units."""
    panel = max(gates for gates, _ in workload.products) * workload.block
    most = min(_TILE_ROWS, workload.batch)
    rows = [r for r in range(most, 0, -1) if fits_registers(r, panel, target)]
    if workload.dots:
        vectors = panel // power_of_two_lanes(panel, target)
        rows = [r for r in rows if tile.dot_fits(r, vectors, target)]
    space = ConfigSpace()
    space.define_knob("tile_rows", (_SYMBOLIC_ROWS,) if workload.symbolic else rows)
    space.define_knob("shared", (0, 1))
    return space


def recurrent_cost(workload: RecurrentWorkload, config: Mapping[str, int], target: Target) -> Cost:
    """The steps of the busiest worker, and a barrier at the end of each product where they are shared."""
    machine = target.machine
    blocks = workload.directions * -(-workload.units // workload.block)
    workers = min(machine.cores, blocks) if config["shared"] else 1
    total = Cost(fixed=machine.kernel_start)
    for gates, depth in workload.products:
        panel = gates * workload.block
        product = ProductWorkload(
            workload.batch,
            gates * workload.units,
            depth,
            panel,
            batch=workload.directions,
            itemsize=1 if workload.dots else 4,
            dots=workload.dots,
        )
        cost = blocking_cost(product, Blocking(panel, config["tile_rows"]), target, workers)
        fixed = cost.fixed - machine.kernel_start - (machine.barrier if workers > 1 else 0.0)
        cells = -(-blocks // workers) * workload.batch * panel / machine.lanes()
        step = replace(cost, arithmetic=cost.arithmetic + cells * machine.exp, fixed=fixed)
        total = total.then(step.times(workload.steps))
    barriers = workload.steps * len(workload.products) * (2 if workload.dots else 1) if workers > 1 else 0
    return replace(total, fixed=total.fixed + barriers * machine.barrier)


def unit_block(hidden: int, gates: int, dots: bool, target: Target) -> int:
    """Units of a block of packed recurrent weights: the narrowest that is near the best for a batch of one.

    A block of one vector streams `gates` vectors of weights; more are worth it where that is too few to hide the
    latency of the multiply-adds, but leave fewer registers to the rows of a larger batch. None pads more than needed.
    """
    machine = target.machine
    lanes = machine.lanes()
    whole = -(-hidden // lanes) * lanes
    fitting = [count * lanes for count in range(1, _WIDEST + 1) if whole % (count * lanes) == 0]

    def cycles(block: int) -> float:
        workload = RecurrentWorkload(1, 1, 1, hidden, block, ((gates, hidden),), dots=dots)
        return min(recurrent_cost(workload, {"tile_rows": 1, "shared": shared}, target).cycles for shared in (0, 1))

    best = min(map(cycles, fitting))
    return next(block for block in fitting if cycles(block) <= _GOOD_ENOUGH * best)
