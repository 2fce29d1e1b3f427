"""Features of loops by the classic interface, for models of a program's own; this package's own models see more.

    rows = get_itervar_feature(s, [A, B, C], take_log=False)     # one row a loop: [name, numbers…] of each part
    flatten_itervar_feature(rows)                                # all numbers of all rows

A row has the loop (`_itervar_`), its length, depth, the iterations of it and all around it, those of it and all in it,
and a position for each annotation (`_attr_`), additions, multiplications and other operations below it (`_arith_`), and
for each access to a buffer below it the stride, -1, the elements touched, how often each is, and 0, 0 (a modulus and
threads are not counted), as in "Learning to Optimize Tensor Programs" (NeurIPS 2018), appendix 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import te
from tilewright.autotvm.feature.nest import Nest, Node, Statement, read_nest
from tilewright.tir.stmt import ForKind

#: The position of each annotation: block and thread indices, then what is here, then virtual threads.
_ANNOTATIONS = 11
_SLOTS = {
    ForKind.THREAD_BINDING: 3, ForKind.UNROLLED: 6, ForKind.VECTORIZED: 7, ForKind.PARALLEL: 8, ForKind.SERIAL: 9,
}  # fmt: skip

#: Curves that are sampled for each buffer: elements and reuse against iterations, from within and from without.
_CURVES = 4

Row = list[list[Any]]


def get_itervar_feature(sch: te.Schedule, args: Sequence[te.Tensor], take_log: bool = False) -> list[Row]:
    """A row for each loop of a schedule, those outside first; with `take_log` the logarithms of the numbers."""
    nest = read_nest(te.schedule_to_tir(sch, list(args), "main"))
    rows = [_row(nest, node, depth) for node, depth in _loops(nest.root, 1)]
    return [_logarithms(row) for row in rows] if take_log else rows


def flatten_itervar_feature(fea: Sequence[Row]) -> NDArray[np.float32]:
    """The numbers of rows, one after the other."""
    return np.array([number for row in fea for part in row[1:] for number in part[1:]], np.float32)


def get_itervar_feature_flatten(
    sch: te.Schedule, args: Sequence[te.Tensor], take_log: bool = True
) -> NDArray[np.float32]:
    """Both of these."""
    return flatten_itervar_feature(get_itervar_feature(sch, args, take_log))


def get_flatten_name(fea: Sequence[Row]) -> list[str]:
    """A name for each number of `flatten_itervar_feature`."""
    return [f"{row[0][1]}.{part[0]}.{position}" for row in fea for part in row[1:] for position in range(len(part) - 1)]


def get_buffer_curve_sample_flatten(
    sch: te.Schedule, args: Sequence[te.Tensor], sample_n: int = 30
) -> NDArray[np.float32]:
    """For each buffer curves of the elements that loops touch and how often, against the iterations of the loops from
    the innermost out and from the outermost in: `sample_n` pairs of a position and a value of each, as logarithms."""
    nest = read_nest(te.schedule_to_tir(sch, list(args), "main"))
    names = sorted({one.buffer.name for statement in nest.statements for one in statement.touched})
    curves = [curve for name in names for curve in _curves(nest, name)]
    assert len(curves) == _CURVES * len(names)
    return np.concatenate([_sampled(curve, sample_n) for curve in curves]).astype(np.float32)


def _loops(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
    for part in node.parts:
        if isinstance(part, Node):
            yield part, depth
            yield from _loops(part, depth + 1)


def _row(nest: Nest, node: Node, depth: int) -> Row:
    assert node.loop is not None
    below = [(one, around) for one, around in zip(nest.statements, nest.around) if node in around]
    loops = below[0][0].loops
    inside = max((math.prod(loop.extent for loop in one.loops[depth - 1 :]) for one, _ in below), default=1)
    outside = math.prod(loop.extent for loop in loops[:depth])
    marks = [0] * _ANNOTATIONS
    marks[_SLOTS[node.loop.kind]] = 1
    kinds = [sum(one.operations[kind] for one, _ in below) for kind in range(3)]
    head: Row = [["_itervar_", node.loop.var.name], ["_attr_", node.loop.extent, depth, outside, inside, *marks]]
    return [*head, ["_arith_", *kinds], *_accesses([one for one, _ in below], depth - 1, inside)]


def _accesses(statements: Sequence[Statement], position: int, inside: int) -> list[list[Any]]:
    """A part for each access of statements to a buffer, named by the buffer and its number among those of it."""
    numbers: Counter[str] = Counter()
    found = []
    for statement in statements:
        for one in statement.touched:
            for _ in range(int(one.reads) + int(one.writes)):
                name, count = one.buffer.name, int(one.elements[position])
                stride = int(one.strides[position])
                found.append([f"{name}_{numbers[name]}", stride, -1, count, inside // max(count, 1), 0, 0])
                numbers[name] += 1
    return sorted(found, key=lambda part: str(part[0]))


def _curves(nest: Nest, name: str) -> Iterator[list[tuple[float, float]]]:
    """Elements and reuse against iterations, of the statement that touches a buffer most often."""
    users = [(one, t) for one in nest.statements for t in one.touched if t.buffer.name == name]
    statement, one = max(users, key=lambda user: user[0].iterations)
    extents = [loop.extent for loop in statement.loops]
    within = [float(math.prod(extents[depth:])) for depth in range(len(extents) + 1)]
    around = [float(math.prod(extents[:depth])) for depth in range(len(extents) + 1)]
    elements = [float(count) for count in one.elements]
    reuse = [iterations / max(count, 1.0) for iterations, count in zip(within, elements)]
    for positions in (within, around):
        for values in (elements, reuse):
            yield list(zip(positions, values))


def _sampled(curve: Sequence[tuple[float, float]], count: int) -> NDArray[np.float64]:
    points = np.array(sorted((math.log2(1.0 + x), math.log2(1.0 + y)) for x, y in curve))
    positions = np.linspace(points[0, 0], points[-1, 0], count)
    values = np.interp(positions, points[:, 0], points[:, 1])
    return np.stack([positions, values], axis=1).reshape(-1)


def _logarithms(row: Row) -> Row:
    """Counts as logarithms; the marks stay."""

    def log(value: float) -> float:
        return math.copysign(math.log2(abs(value) + 1.0), value)

    head, attributes, *others = row
    counts, marks = attributes[1:5], attributes[5:]
    return [head, ["_attr_", *map(log, counts), *marks], *([part[0], *map(log, part[1:])] for part in others)]
