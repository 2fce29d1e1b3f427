"""Copies of boxes as LOAD and STORE: two loops are an instruction's rows and columns, the others are repeated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.errors import UnsupportedError


@dataclass(frozen=True)
class Side:
    """A dimension of a copy, in tiles: its size with padding, steps in DRAM and on the chip, padding on both sides."""

    size: int
    dram: int
    sram: int
    before: int = 0
    after: int = 0

    @property
    def inner(self) -> int:
        """The extent beside the padding."""
        return self.size - self.before - self.after

    @property
    def padded(self) -> bool:
        """True where there is any."""
        return bool(self.before or self.after)


@dataclass(frozen=True)
class Transfer:
    """A LOAD or STORE: first tiles, rows and columns, tiles from row to row, padding (above, below, left, right)."""

    sram: int
    dram: int
    size: tuple[int, int]
    stride: int
    pad: tuple[int, int, int, int]


def transfers(sides: Sequence[Side], sram: int, dram: int, what: str) -> Iterator[Transfer]:
    """The instructions of a copy that begins at these tiles.

    Raises `UnsupportedError` where something is padded that is neither rows nor columns.
    """
    left = _merged([side for side in sides if side.size > 1 or side.padded])
    x = _taken(left, lambda side: side.sram == 1 and (side.dram == 1 or side.inner == 1)) or Side(1, 1, 1)
    y = _taken(left, lambda side: side.sram == x.size and side.dram >= 0) or Side(1, x.inner, x.size)
    if any(side.padded for side in left):
        raise UnsupportedError(f"{what}: only the two dimensions before a tile's own can be padded")
    if x.inner <= 0 or y.inner <= 0:
        raise UnsupportedError(f"{what}: a tile is padding only; take tiles that reach into the image")
    stride = y.dram if y.inner > 1 else x.inner
    for rounds in itertools.product(*(range(side.size) for side in left)):
        moved = [(n * side.sram, n * side.dram) for n, side in zip(rounds, left)]
        yield Transfer(
            sram + sum(m[0] for m in moved),
            dram + sum(m[1] for m in moved),
            (y.inner, x.inner),
            stride,
            (y.before, y.after, x.before, x.after),
        )


def _taken(sides: list[Side], fits: Callable[[Side], bool]) -> Side | None:
    found = next((side for side in sides if fits(side)), None)
    if found is not None:
        sides.remove(found)
    return found


def _merged(sides: Sequence[Side]) -> list[Side]:
    """Dimensions of which one only continues the other are one; the innermost first."""
    left = sorted(sides, key=lambda side: side.sram)
    for low, high in itertools.pairwise(left):
        plain = not low.padded and not high.padded
        if plain and high.sram == low.sram * low.size and high.dram == low.dram * low.size:
            position = left.index(low)
            left[position : position + 2] = [Side(low.size * high.size, low.dram, low.sram)]
            return _merged(left)
    return left
