"""Indices of a loop nest as numbers: multiples of its loops, in elements or in tiles, and a rest from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import UnsupportedError
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import BufferLoad, Expr, IntImm, Var
from tilewright.tir.op import const
from tilewright.tir.visitor import collect_vars

Values = Mapping[Var, int]


def number(expr: Expr, values: Values) -> int:
    """The value of an integer expression."""
    return expr.value if isinstance(expr, IntImm) else int(evaluate(expr, values))


@dataclass(frozen=True)
class Form:
    """`base` + the sum of loop variables times their `steps`."""

    base: Expr
    steps: Mapping[Var, int]

    def at(self, values: Values) -> int:
        """`base`, given what is outside of the loops."""
        return number(self.base, values)


def form_of(buffer: Buffer, indices: Sequence[Expr], loops: Sequence[Var]) -> Form | None:
    """The position of an element in its buffer, in elements; None where it is no sum of multiples of the loops."""
    shape = buffer.constant_shape()
    if shape is None or buffer.strides is not None:
        raise UnsupportedError(f"{buffer!r} has no constant compact shape; programs for VTA are made for fixed sizes")
    flat: Expr = const(0)
    for size, index in zip(shape, indices, strict=True):
        flat = flat * size + index
    analyzer = Analyzer()
    linear = analyzer.linear(analyzer.simplify(flat))
    own = set(loops)
    steps: dict[Var, int] = {}
    base: Expr = const(linear.constant)
    for atom, factor in linear.terms.items():
        if isinstance(atom, Var) and atom in own:
            steps[atom] = factor
        elif own & collect_vars(atom).keys():
            return None
        else:
            base = base + atom * factor
    return Form(base, steps)


def load_form(load: Expr, loops: Sequence[Var]) -> Form | None:
    """`form_of` what a load reads."""
    assert isinstance(load, BufferLoad)
    return form_of(load.buffer, load.indices, loops)


@dataclass(frozen=True)
class Axis:
    """A loop: its rounds, and how far each of several positions moves with a round."""

    rounds: int
    steps: tuple[int, ...]


def in_tiles(axes: Sequence[Axis], tile: int, what: str) -> list[Axis]:
    """The axes without those that walk the elements of a tile, their steps counted in tiles.

    All positions must walk a tile's elements in their order, each once. Raises `UnsupportedError` where they do not.
    """
    left, covered = list(axes), 1
    while covered < tile:
        inner = next((a for a in left if a.rounds > 1 and all(step == covered for step in a.steps)), None)
        if inner is None or (inner.rounds * covered > tile and inner.rounds * covered % tile):
            break
        left.remove(inner)
        if inner.rounds * covered > tile:
            left.append(Axis(inner.rounds * covered // tile, (tile,) * len(inner.steps)))
        covered = min(tile, covered * inner.rounds)
    if covered != tile or any(step % tile for axis in left if axis.rounds > 1 for step in axis.steps):
        raise UnsupportedError(
            f"{what} does not move whole tiles of {tile} numbers; let its last two dimensions be those of a tile, and "
            "split by factors that divide"
        )
    return [Axis(a.rounds, tuple(step // tile for step in a.steps)) for a in left if a.rounds > 1]
