"""Schedules by the configurations of sketches.

    schedule = apply(structure_of([out]), config, target)

Parts are scheduled consumers first, each at the root, with loops of its own that workers share, or within a loop of
what reads it. `_spines` has the loops within which each part is computed, outermost first: where a producer of it may
go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.sketch.derive import ACROSS, ALONG, INLINED, REGISTER_TILE, ROOT, UNROLLED_TERMS
from tilewright.topi.schedule.sketch.structure import EPILOGUE, INLINE, MOVABLE, PASS, REDUCE, TILED, Part

#: A loop of a stage.
AttachPoint = tuple[te.Tensor, te.IterVar]


def apply(parts: Sequence[Part], config: Mapping[str, Any], target: Target) -> te.Schedule:
    """The schedule of a configuration. Raises `ScheduleError` for an invalid one."""
    schedule = te.create_schedule([part.op for part in parts if part.is_output])
    applied = _Applied(schedule, config, target)
    for part in parts:
        applied.add(part)
    return schedule


class _Applied:
    """A schedule under construction."""

    def __init__(self, schedule: te.Schedule, config: Mapping[str, Any], target: Target) -> None:
        self.schedule, self.config, self.target = schedule, config, target
        self._spines: dict[int, list[AttachPoint]] = {}

    def add(self, part: Part) -> None:
        """Schedule a part whose readers are scheduled."""
        if part.role == INLINE or self._knob(part, "at") == INLINED:
            self.schedule[part.tensor].compute_inline()
            self._spines[id(part)] = self._around(part)
        elif part.role == EPILOGUE:
            assert part.tiles is not None
            self.schedule[part.tiles.tensor].set_scope("local")
            self._tile(part.tiles, part.tensor, part.tiles.tensor)
            self._spines[id(part)] = self._spines[id(part.tiles)][: self._knob(part.tiles, "at")]
        elif part.role == TILED:
            if id(part) not in self._spines:
                self._tile_alone(part)
        elif part.role == REDUCE:
            self._reduce(part)
        else:
            assert part.role in (PASS, MOVABLE)
            self._pass(part)

    def _knob(self, part: Part, name: str, otherwise: Any = None) -> Any:
        return self.config.get(f"{part.name}.{name}", otherwise)

    # -------------------------------------------------------------------------------------------------- positions
    def _around(self, part: Part) -> list[AttachPoint]:
        """The loops that are common to all readers of a part."""
        spines = [self._spines[id(reader)] for reader in part.readers]
        shared: list[AttachPoint] = []
        for positions in zip(*spines):
            if any(position[1] is not positions[0][1] for position in positions):
                break
            shared.append(positions[0])
        return shared

    def _position(self, part: Part) -> list[AttachPoint]:
        """Attach a part by its knob; the loops around it, none at the root."""
        level, around = self._knob(part, "at", ROOT), self._around(part)
        if part.is_output or level == ROOT or not around:
            return []
        around = around[:level]
        stage, axis = around[-1]
        self.schedule[part.tensor].compute_at(self.schedule[stage], axis)
        return around

    def _share(self, tensor: te.Tensor, axes: Sequence[te.IterVar], work: int) -> te.IterVar:
        """Fuse loops into one, parallel if `work` is enough for several workers."""
        stage = self.schedule[tensor]
        fused = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        machine = self.target.machine
        if machine.cores > 1 and work >= machine.parallel_elements:
            stage.parallel(fused)
        return fused

    # --------------------------------------------------------------------------------------------------- tiles
    def _tile_alone(self, part: Part) -> None:
        """Tile a part whose sums stay in registers and are copied to the result (a write cache)."""
        shares = self._knob(part, "shares", 1)
        if shares == 1:
            self._tile(part, part.tensor, self.schedule.cache_write(part.tensor, "local"))
            return
        partial = self._partial(part, shares)
        self._tile(part, partial, self.schedule.cache_write(partial, "local"), extra=1)
        self._spines[id(part)] = self._spines[id(part)][:2]

    def _partial(self, part: Part, shares: int) -> te.Tensor:
        """Split a reduction into parallel parts (rfactor); the tensor of partial results."""
        stage = self.schedule[part.tensor]
        share, _ = stage.split(stage.op.reduce_axis[0], nparts=shares)
        partial: te.Tensor = self.schedule.rfactor(part.tensor, share)
        return partial

    def _tile(self, part: Part, out: te.Tensor, sums: te.Tensor, extra: int = 0) -> None:
        """Tile `out` by two outer levels, and within them `sums` by two of reduction and two of results in turn.

        The first `extra` axes are not tiled: workers take them.
        """
        tiles = [(1, 1, 1)] * extra + [self._knob(part, f"tile{i}") for i in range(len(part.sizes))]
        outer: list[te.IterVar] = []
        middle: list[te.IterVar] = []
        inner: list[te.IterVar] = []
        for axis, (across, tile, registers) in zip(self.schedule[out].op.axis, tiles, strict=True):
            rest, within = self.schedule[out].split(axis, factor=tile * registers)
            rest, between = self.schedule[out].split(rest, factor=across)
            for level, loop in ((outer, rest), (middle, between), (inner, within)):
                level.append(loop)
        self.schedule[out].reorder(*outer, *middle, *inner)
        shared = self._share(out, outer, part.work)
        self._vectorize(out, inner[-1], tiles[-1][1] * tiles[-1][2])
        spine = [(out, shared), (out, middle[-1])][: self._knob(part, "at")]
        self.schedule[sums].compute_at(self.schedule[out], spine[-1][1])
        self._spines[id(part)] = [*spine, (sums, self._accumulate(part, sums, tiles))]

    def _accumulate(self, part: Part, sums: te.Tensor, tiles: Sequence[tuple[int, int, int]]) -> te.IterVar:
        """The loops of a tile's sums from the outside: reduction, results, reduction, results in registers."""
        stage = self.schedule[sums]
        far, results, near, registers = [], [], [], []
        terms = [self._knob(part, f"sum{i}") for i in range(len(part.terms))]
        for axis, count in zip(stage.op.reduce_axis[-len(terms) :], terms, strict=True):
            rest, within = stage.split(axis, factor=count)
            far.append(rest)
            near.append(within)
        for axis, (_, _, count) in zip(stage.op.axis, tiles, strict=True):
            rest, within = stage.split(axis, factor=count)
            results.append(rest)
            registers.append(within)
        stage.reorder(*far, *results, *near, *registers)
        extents = [count for _, _, count in tiles]
        lanes = self._vectorize(sums, registers[-1], extents[-1])
        unrolled = extents[-1] // max(1, lanes)
        for axis, count in zip(reversed(registers[:-1]), reversed(extents[:-1])):
            unrolled *= count
            if unrolled <= REGISTER_TILE:
                stage.unroll(axis)
        if self._knob(part, "unroll") and math.prod(terms) <= UNROLLED_TERMS:
            for axis in near:
                stage.unroll(axis)
        return far[-1]

    def _vectorize(self, tensor: te.Tensor, axis: te.IterVar, extent: int) -> int:
        """Vectorize an innermost loop and unroll the loop over its vectors; the number of lanes."""
        stage, lanes = self.schedule[tensor], math.gcd(extent, self.target.machine.lanes(max(32, tensor.dtype.bits)))
        if lanes == 1:
            return 1
        if lanes == extent:
            stage.vectorize(axis)
            return lanes
        vectors, axis = stage.split(axis, factor=lanes)
        if extent // lanes <= REGISTER_TILE:
            stage.unroll(vectors)
        stage.vectorize(axis)
        return lanes

    # ------------------------------------------------------------------------------------- reductions and passes
    def _reduce(self, part: Part) -> None:
        around, tensor = self._position(part), part.tensor
        shares = self._knob(part, "shares", 1) if not around else 1
        if shares > 1:
            tensor = self._partial(part, shares)
        stage = self.schedule[tensor]
        way, width = self._knob(part, "lanes")
        data, terms = list(stage.op.axis), list(stage.op.reduce_axis)
        extra = [data.pop(0)] if shares > 1 else []
        inside: list[te.IterVar] = []
        if way == ALONG:
            row = stage.fuse(*terms) if len(terms) > 1 else terms[0]
            row, lane = stage.split(row, factor=width)
            inside, terms = [lane], [row]
        elif data:
            data[-1], lane = stage.split(data[-1], factor=min(width, part.sizes[-1]))
            inside = [lane]
        stage.reorder(*extra, *data, *terms, *inside)
        if around or not (extra or data):
            positions = around or []
        else:
            positions = self._own_loops(part, tensor, [*extra, *data], 1 if extra else self._knob(part, "fuse"))
        if inside and width > 1:
            self._lanes(tensor, inside[0], width if way == ALONG else min(width, part.sizes[-1]), way)
        self._spines[id(part)] = positions

    def _lanes(self, tensor: te.Tensor, axis: te.IterVar, width: int, way: str) -> None:
        """Vectorize a loop of `width`; across results, as several unrolled vectors where it is wider than one."""
        stage, lanes = self.schedule[tensor], self.target.machine.lanes(max(32, tensor.dtype.bits))
        if width > lanes and way == ACROSS:
            vectors, axis = stage.split(axis, factor=lanes)
            stage.unroll(vectors)
        stage.vectorize(axis)

    def _own_loops(self, part: Part, tensor: te.Tensor, loops: list[te.IterVar], fuse: int) -> list[AttachPoint]:
        """The outer loops of a part at the root, the first `fuse` of them fused and parallel."""
        shared = self._share(tensor, loops[:fuse], part.work)
        return [(tensor, shared), *((tensor, loop) for loop in loops[fuse:])]

    def _pass(self, part: Part) -> None:
        around, tensor = self._position(part), part.tensor
        stage, axes = self.schedule[tensor], list(part.op.axis)
        if not axes or (around and part.role == MOVABLE):
            self._spines[id(part)] = around
            return
        _, width = self._knob(part, "lanes", (None, self.target.machine.lanes()))
        merge = 1 if around else min(self._knob(part, "merge", 1), len(axes))
        size = math.prod(part.sizes[-merge:])
        last = stage.fuse(*axes[-merge:]) if merge > 1 else axes[-1]
        width = min(width, size)
        last, lane = stage.split(last, factor=width)
        loops, inside = [*axes[:-merge], last], [lane]
        rows = self._knob(part, "rows", 1)
        if rows > 1 and len(loops) > 1 and not around:
            loops[-2], row = stage.split(loops[-2], factor=min(rows, part.sizes[-merge - 1]))
            inside = [row, lane]
        stage.reorder(*loops, *inside)
        positions = around or self._own_loops(part, tensor, loops, self._knob(part, "fuse", 1))
        self._lanes(tensor, lane, width, ACROSS)
        self._spines[id(part)] = positions
