"""Index expressions at the corners of a loop nest: how far each loop moves them, and what part of a buffer loops touch.

    corners = Corners([y, x, c])                 # loops, the outermost first
    corners.values(index)                        # one array, an entry for each of the positions below

At depth d the loops outside of it stand still and those from number d on run; the far corner has each of these at its
last iteration. Indices are sums of products in nearly all programs, so that the corner is where they are largest; a
remainder that wraps on the way there is taken as its largest value. The positions are the origin, the corner of each
depth from 0 on, the far end of each loop by itself, and one step of each; all are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.tir import expr as nodes
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.stmt import ForKind

Points = NDArray[np.int64]

#: Iterations of a loop whose extent is not known.
_UNKNOWN_EXTENT = 16


@dataclass(frozen=True)
class Loop:
    """A loop as features see it; `extent` is 16 where it is no constant."""

    var: Var
    extent: int
    kind: ForKind


def extent_of(extent: Expr) -> int:
    """The extent of a loop or a dimension as a number."""
    return extent.value if isinstance(extent, nodes.IntImm) else _UNKNOWN_EXTENT


_BINARY: Mapping[type, Callable[[Points, Points], Points]] = {
    nodes.Add: np.add,
    nodes.Sub: np.subtract,
    nodes.Mul: np.multiply,
    nodes.Min: np.minimum,
    nodes.Max: np.maximum,
}


class Corners:
    """Values of expressions at the positions of a nest; `depth` is the number of its loops."""

    def __init__(self, loops: Sequence[Loop]) -> None:
        self.depth = len(loops)
        self.ends = slice(self.depth + 2, 2 * self.depth + 2)
        self.steps = slice(2 * self.depth + 2, 3 * self.depth + 2)
        self.far = slice(1, self.depth + 2)
        self._known: dict[Expr, Points] = {}
        for number, loop in enumerate(loops):
            positions = np.zeros(self.steps.stop, np.int64)
            positions[1 : number + 2] = positions[self.ends.start + number] = loop.extent - 1
            positions[self.steps.start + number] = loop.extent > 1
            self._known[loop.var] = positions

    def bind(self, var: Var, value: Expr) -> None:
        """`var` is `value` from now on."""
        self._known[var] = self.values(value)

    def values(self, expr: Expr) -> Points:
        """An expression at all positions."""
        found = self._known.get(expr)
        if found is None:
            found = self._known[expr] = self._computed(expr)
        return found

    def _computed(self, expr: Expr) -> Points:
        if isinstance(expr, nodes.IntImm):
            return np.full(self.steps.stop, expr.value, np.int64)
        operation = _BINARY.get(type(expr))
        if operation is not None:
            assert isinstance(expr, nodes.BinaryExpr)
            return operation(self.values(expr.a), self.values(expr.b))
        if isinstance(expr, nodes.FloorDiv | nodes.Div | nodes.FloorMod | nodes.Mod):
            return self._divided(expr)
        if isinstance(expr, nodes.Cast):
            return self.values(expr.value)
        if isinstance(expr, nodes.Select):
            return self.values(expr.true_value)
        if isinstance(expr, nodes.Ramp):
            return self.values(expr.base)
        if isinstance(expr, nodes.Call) and expr.args:
            return self.values(expr.args[1] if expr.op == "if_then_else" else expr.args[0])
        return np.zeros(self.steps.stop, np.int64)  # bounds that depend on data, and symbolic sizes

    def _divided(self, expr: nodes.BinaryExpr) -> Points:
        value, by = self.values(expr.a), np.maximum(self.values(expr.b), 1)
        if isinstance(expr, nodes.FloorDiv | nodes.Div):
            return value // by
        rest = value % by
        return np.where(value - value[0] >= by, by - 1, rest)


@dataclass
class Touched:
    """The accesses of one statement to one buffer.

    By depth, from all loops running to none: `elements`, `nbytes` and `lines` (of `line` bytes) that are different.
    `strides` has the elements that a step of each loop moves by, `moves` whether it gets to other ones at all.
    `positions` counts the different expressions that it is read or written at."""

    buffer: Buffer
    elements: NDArray[np.float64]
    nbytes: NDArray[np.float64]
    lines: NDArray[np.float64]
    strides: Points
    moves: NDArray[np.bool_]
    positions: int
    reads: bool
    writes: bool


def touched(
    corners: Corners,
    loops: Sequence[Loop],
    buffer: Buffer,
    accesses: Sequence[Sequence[Expr]],
    reads: bool,
    writes: bool,
    line: int,
) -> Touched:
    """The memory that the `accesses` to a buffer in one statement touch together, each a list of indices."""
    shape = np.array([extent_of(size) for size in buffer.shape], np.int64)[:, None]
    at = np.array([[corners.values(index) for index in indices] for indices in accesses], np.int64)
    at = at.reshape(len(accesses), len(shape), corners.steps.stop)
    origin, far, first = at[:, :, :1], at[:, :, corners.far], at[0]
    spans = np.maximum(origin, far).max(axis=0) - np.minimum(origin, far).min(axis=0) + 1
    spans = np.minimum(spans, shape)
    moved = first[:, corners.ends] != first[:, :1]
    combinations = _running(np.where(moved, [[loop.extent for loop in loops]], 1.0)) * len(accesses)
    sizes = np.minimum(spans, combinations).astype(np.float64)
    elements = sizes.prod(axis=0)
    width = max(1, buffer.dtype.itemsize)
    inside, length = _runs(spans, sizes, shape)
    lines = elements / inside * np.ceil(length * width / line)
    scale = np.cumprod([1, *shape[:0:-1, 0]])[::-1]
    strides = np.abs(((first[:, corners.steps] - first[:, :1]) * scale[: len(shape), None]).sum(axis=0))
    return Touched(buffer, elements, elements * width, lines, strides, moved.any(axis=0), len(accesses), reads, writes)


def _running(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each row the products from each position on to its end, and 1 at the last."""
    rows = np.ones((factors.shape[0], factors.shape[1] + 1))
    rows[:, :-1] = np.cumprod(factors[:, ::-1], axis=1)[:, ::-1]
    return rows


def _runs(spans: Points, sizes: NDArray[np.float64], shape: Points) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By depth: the elements touched in one run of neighbouring memory, and how long it is."""
    inside, length = np.ones(spans.shape[1]), np.ones(spans.shape[1])
    whole = np.ones(spans.shape[1], bool)
    for dim in range(len(shape) - 1, -1, -1):
        inside *= np.where(whole, sizes[dim], 1.0)
        length *= np.where(whole, spans[dim], 1.0)
        whole &= sizes[dim] >= shape[dim]
    return inside, length
