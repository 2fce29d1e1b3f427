"""What the schedule of a kernel chose: the template, the register tile, its predicted share of the multiply-add peak.

Nothing is noted while a template works: the choice is read off the loop nest that came out, the same way for every
template. The innermost step of a kernel is the update of a local accumulator within unrolled and vectorized loops:

    for y in unrolled(2): for x in unrolled(12): for block in vectorized(16):
        acc[y, x, block] = acc[y, x, block] + data[y, x + kw] * weight[kw, block]

Here 2 x 12 broadcast activations meet one vector of weights: rows = 24, vectors = 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tilewright import te
from tilewright.target import Target
from tilewright.tir import BufferLoad, BufferStore, For, ForKind, IntImm, PrimFunc, Stmt
from tilewright.tir.expr import Add, Expr, Mul, Var
from tilewright.tir.visitor import collect_vars
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import computes, is_reduction, shape_of
from tilewright.topi.schedule.cpu.dispatch import anchors_of
from tilewright.topi.schedule.cpu.space import ConfigSpace


@dataclass(frozen=True)
class Choice:
    """How one kernel is computed.

    `tile` are the unrolled loops of the innermost step, outermost first, by name and extent; `rows` broadcast values
    meet `vectors` vectors of `lanes` floats in it. `registers` counts accumulators and operands. `predicted` is the
    share of the multiply-add peak that `tile.efficiency` expects, None where the kernel is no matrix product.
    `parallel` are the iterations that each parallel loop shares out. Without a register tile all of these are empty.
    """

    template: str
    tile: tuple[tuple[str, int], ...] = ()
    lanes: int = 1
    rows: int = 0
    vectors: int = 0
    registers: int = 0
    predicted: float | None = None
    parallel: tuple[int, ...] = ()

    def tile_text(self) -> str:
        """The register tile in a few words, "14 x by 2 vectors of 16"; empty where there is none."""
        if not self.registers:
            return ""
        loops = " ".join(f"{extent} {name}" for name, extent in self.tile) or "1"
        return f"{loops}: {self.rows} by {self.vectors} x {self.lanes}"

    def to_json(self) -> dict[str, Any]:
        """Plain data for the manifest of an executable."""
        return {**asdict(self), "tile": [list(loop) for loop in self.tile], "parallel": list(self.parallel)}

    @staticmethod
    def from_json(entry: dict[str, Any]) -> Choice:
        """The inverse of `to_json`."""
        loops = tuple((str(name), int(extent)) for name, extent in entry["tile"])
        return Choice(**{**entry, "tile": loops, "parallel": tuple(entry["parallel"])})


def explain(choice: Choice, target: Target) -> list[str]:
    """Lines on what was chosen and why: the template, the tile and its registers, what bounds it."""
    shared = ", ".join(map(str, choice.parallel))
    lines = [f"template {choice.template}" + (f", shared out: {shared} iterations" if shared else ", one worker")]
    if not choice.registers:
        return lines
    products = choice.rows * choice.vectors
    lines.append(f"tile {choice.tile_text()} floats, {choice.registers} of {target.vector_registers} registers")
    if choice.predicted is None:
        return lines
    lines.append(f"predicted {choice.predicted:.1%} of the multiply-add peak".replace("%", " %"))
    enough = math.ceil(target.machine.fma_per_cycle * target.machine.fma_latency)
    latency = "hidden" if products >= enough else f"not hidden, {enough} would"
    lines.append(
        f"a step has {products} multiply-adds (latency {latency}) for {choice.rows} broadcasts and {choice.vectors} "
        f"vector loads; each weight vector is used {choice.rows} times"
    )
    return lines


def explain_space(space: ConfigSpace, runners_up: int = 3) -> list[str]:
    """Lines on what the search space holds: the configuration it ranks first, and the next ones."""
    (best, chosen), *others = space.ranked
    lines = [f"chose {chosen}, predicted {best:.1%}, of {len(others) + 1} configurations".replace("%", " %")]
    for predicted, config in others[:runners_up]:
        lines.append(f"  next {config}, predicted {predicted:.1%}".replace("%", " %"))
    return lines


@dataclass(frozen=True)
class _Step:
    """An update of a local accumulator: its loops, from the innermost outwards, up to the first that is kept a loop."""

    store: BufferStore
    added: Expr
    loops: tuple[For, ...]


def choice_of(outs: list[te.Tensor], loop_nest: PrimFunc, target: Target) -> Choice:
    """The choice behind `loop_nest`, the loop IR of the schedule of `outs` as `schedule_to_tir` returns it."""
    template = _template(outs)
    parallel: list[int] = []
    steps = list(_steps(loop_nest.body, (), parallel))
    if not steps:
        return Choice(template, parallel=tuple(parallel))
    return max((_described(step, template, outs[0], parallel, target) for step in steps), key=lambda c: c.registers)


def _template(outs: list[te.Tensor]) -> str:
    """The name of the template that `dispatch.schedule` picks."""
    stages = computes(outs)
    anchors = anchors_of(stages)
    if anchors:
        return anchors[-1][0]
    return "reduce" if any(map(is_reduction, stages)) else "injective"


def _steps(stmt: Any, around: tuple[For, ...], parallel: list[int]) -> Iterator[_Step]:
    """The innermost steps in `stmt`; extents of parallel loops go to `parallel`."""
    if isinstance(stmt, For):
        if stmt.kind is ForKind.PARALLEL and isinstance(stmt.extent, IntImm):
            parallel.append(int(stmt.extent.value))
        kept = stmt.kind not in (ForKind.UNROLLED, ForKind.VECTORIZED) or not isinstance(stmt.extent, IntImm)
        yield from _steps(stmt.body, () if kept else (stmt, *around), parallel)
    elif isinstance(stmt, BufferStore):
        added = _added(stmt) if stmt.buffer.scope == "local" and around else None
        if added is not None:
            yield _Step(stmt, added, around)
    else:
        for value in stmt.fields():
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Stmt):
                    yield from _steps(part, around, parallel)


def _added(store: BufferStore) -> Expr | None:
    """What `store` adds to the element that it updates; None if it is no such update."""
    if not isinstance(store.value, Add):
        return None
    for old, new in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
        if isinstance(old, BufferLoad) and old.buffer is store.buffer and old.indices == store.indices:
            return new
    return None


def _described(step: _Step, template: str, out: te.Tensor, parallel: list[int], target: Target) -> Choice:
    place = _vars(*step.store.indices)
    loops = [loop for loop in reversed(step.loops) if loop.var in place]
    lanes = math.prod(_extent(loop) for loop in loops if loop.kind is ForKind.VECTORIZED)
    lane_vars = {loop.var for loop in loops if loop.kind is ForKind.VECTORIZED}
    unrolled = [loop for loop in loops if loop.kind is ForKind.UNROLLED]
    broadcast, vector = _operands(step.added, lane_vars)
    rows = math.prod(_extent(loop) for loop in unrolled if broadcast is None or loop.var not in vector)
    vectors = math.prod(_extent(loop) for loop in unrolled) // rows
    predicted = None
    if broadcast is not None and lanes > 1:
        tiled = [_extent(loop) for loop in unrolled if loop.var in broadcast]
        full = min(1.0, lanes * 32 / target.vector_bits)
        predicted = round(full * tile.efficiency(rows, vectors, _positions(template, out, tiled, rows), target), 3)
    return Choice(
        template,
        tuple((loop.var.name, _extent(loop)) for loop in unrolled if _extent(loop) > 1),
        lanes,
        rows,
        vectors,
        tile.registers_of(rows, vectors),
        predicted,
        tuple(parallel),
    )


def _operands(added: Expr, lanes: set[Var]) -> tuple[set[Var] | None, set[Var]]:
    """Variables of the operand that is broadcast to all lanes (None if there is none), and of the vector operand."""
    if isinstance(added, Mul):
        for one, other in ((added.a, added.b), (added.b, added.a)):
            if not lanes & _vars(one) and lanes & _vars(other):
                return _vars(one), _vars(other)
    return None, set()


def _positions(template: str, out: te.Tensor, tiled: list[int], rows: int) -> int:
    """The positions that are cut into the rows of tiles: of a line of the image, the whole image, or a matrix."""
    shape = shape_of(out)
    if template == "conv2d_NCHWc":
        several = sum(extent > 1 for extent in tiled) > 1
        return shape[2] * shape[3] if several or shape[3] == 1 else shape[3]
    if template == "dense_pack":
        return max(shape[:-1], default=1)
    return shape[1] if template == "batch_matmul" else rows


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, IntImm)
    return int(loop.extent.value)


def _vars(*exprs: Expr) -> set[Var]:
    return {var for expr in exprs for var in collect_vars(expr)}
