"""Recurrent layers as a template: a launch for each product of a step, its gates and its cell.

    blockIdx: a direction, a row of the batch and a block of units
    threadIdx.x: a unit      threadIdx.y: parts of the terms, which add up the products of all gates of the unit

Neighbouring threads read neighbouring weights, as these are packed by blocks of units. What a tree in shared memory
adds up does not leave the block: the cell follows in the same launch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.reduce import schedule_apart
from tilewright.target import DeviceTarget
from tilewright.te.scan import ScanOp
from tilewright.tir.expr import IntImm
from tilewright.topi import tag
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, has_tag, shape_of, terms_of
from tilewright.topi.schedule.template import Template

#: Threads that share the terms of a unit.
_PARTS = (4, 8, 16, 32, 64)
#: Cycles from one barrier of a block to the next.
_BARRIER = 40


@dataclass(frozen=True)
class RecurrentWorkload:
    """A step of `rows` (of directions and the batch) of `units`, `block` of which lie together.

    There are `steps`; a product of a unit sums `depth` terms for each of at most `gates` gates.
    """

    steps: int
    rows: int
    units: int
    block: int
    depth: int
    gates: int
    itemsize: int
    products: int = 1


def _cells(outs: list[te.Tensor]) -> list[tuple[te.Tensor, te.Tensor]]:
    """Each cell of a step with the product that it reads; [] where a step has other stages, as those of bytes have."""
    stages = computes(outs)
    products = [t for t in stages if has_tag(t, tag.RECURRENT_PRODUCT)]
    cells = [t for t in stages if has_tag(t, tag.RECURRENT_CELL)]
    if any(has_tag(t, tag.RECURRENT_CODES) for t in stages):
        return []
    found = [(cell, [t for t in products if t in cell.op.input_tensors]) for cell in cells]
    return [(cell, own[0]) for cell, own in found] if all(len(own) == 1 for _, own in found) else []


def fits_recurrent(outs: list[te.Tensor]) -> te.Tensor | None:
    """The scan of the recurrent layer that `outs` are of; None where they are of none, or of one of bytes."""
    scans = [t for t in computes(outs) if isinstance(t.op, ScanOp)]
    if len(scans) != 1 or not has_tag(scans[0], tag.RECURRENT):
        return None
    pairs = _cells(outs)
    fixed = all(isinstance(iv.dom.extent, IntImm) for _, t in pairs for iv in t.op.reduce_axis if iv.dom is not None)
    return scans[0] if pairs and fixed else None


def _block_of(product: te.Tensor) -> int:
    """Units that the weights of a product hold together."""
    return shape_of(product.op.input_tensors[-1])[4]


def workload(anchor: te.Tensor, out: te.Tensor) -> RecurrentWorkload:
    """The sizes of a layer."""
    pairs = _cells([anchor])
    steps, directions, batch, units = shape_of(anchor)
    products = [product for _, product in pairs]
    return RecurrentWorkload(
        steps - 1, directions * batch, units, _block_of(products[0]), max(terms_of(t) for t in products),
        max(shape_of(t)[3] for t in products), max(1, anchor.dtype.itemsize), len(products),
    )  # fmt: skip


def space(facts: RecurrentWorkload, target: DeviceTarget) -> ConfigSpace:
    """Numbers of threads that share the terms of a unit."""
    found = ConfigSpace()
    most = target.max_threads_per_block // facts.block
    shared = target.max_shared_memory_per_block // (facts.block * facts.gates * facts.itemsize)
    found.define_knob("parts", [n for n in _PARTS if n <= min(most, shared)] or [1])
    return found


def cost(facts: RecurrentWorkload, config: Config, target: DeviceTarget) -> Cost:
    """Cycles: for each step a launch, the weights from the second-level cache, terms one after the other, a tree."""
    machine = machine_of(target)
    threads, parts = facts.block * config["parts"], config["parts"]
    blocks = facts.rows * -(-facts.units // facts.block)
    waves = math.ceil(blocks / (machine.multiprocessors * max(1, machine.threads // threads)))
    weights = facts.rows * facts.units * facts.gates * facts.depth * facts.itemsize / machine.l2_bytes
    serial = machine.latency * (1 + facts.depth / parts / facts.gates)
    tree = facts.gates * _BARRIER * math.log2(parts) / machine.clock
    step = machine.launch + max(weights, waves * serial) + tree
    return Cost(arithmetic=facts.steps * facts.products * step * machine.clock)


def schedule(s: te.Schedule, anchor: te.Tensor, out: te.Tensor, target: DeviceTarget, config: Config) -> None:
    """Apply a configuration of `space`."""
    outs = [tensor for op in s.outputs for tensor in op.outputs]
    pairs = _cells(outs)
    schedule_apart(s, outs, target, {t.op for pair in pairs for t in pair})
    for cell, product in pairs:
        _, *rows, unit = s[cell].op.axis
        blocks, own = s[cell].split(unit, factor=_block_of(product))
        s[cell].bind(s[cell].fuse(*rows, blocks), te.thread_axis("blockIdx.x"))
        s[cell].bind(own, te.thread_axis("threadIdx.x"))
        s[product].compute_at(s[cell], own)
        s[product].set_scope("local")
        (terms,) = s[product].op.reduce_axis
        _, part = s[product].split(terms, factor=config["parts"])
        s[product].bind(part, te.thread_axis((0, config["parts"]), "threadIdx.y"))


RECURRENT = Template("recurrent", workload, space, cost, schedule)  # type: ignore[arg-type]
