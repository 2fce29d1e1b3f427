"""Data layouts as spelled in the field: ``"NCHW"``, ``"NCHW16c"``, ``"OIHW16i16o"``, ``"NK32n"``.

An upper-case letter is a primal axis; a number and a lower-case letter is a block of that axis, split off its inner
end. Read left to right, these are the dimensions from outermost to innermost. An axis may be split more than once
(``"OIHW4i16o4i"``: the first block is the outer one).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tilewright.errors import TypeMismatchError
from tilewright.topi.shapes import equal, may_hold

_AXIS = re.compile(r"([A-Z])|(\d+)([a-z])")


class Layout:
    """A parsed layout. `axes` holds (primal letter, block size; 0 for the outermost part) per dimension."""

    __slots__ = ("axes", "blocks", "primal", "spelling")

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling
        self.axes: tuple[tuple[str, int], ...] = tuple(
            (upper, 0) if upper else (lower.upper(), int(size)) for upper, size, lower in _AXIS.findall(spelling)
        )
        self.primal = "".join(letter for letter, block in self.axes if block == 0)
        self.blocks: dict[str, tuple[int, ...]] = {
            letter: tuple(block for name, block in self.axes if name == letter and block) for letter in self.primal
        }
        consumed = "".join(m.group(0) for m in _AXIS.finditer(spelling))
        bad = consumed != spelling or len(set(self.primal)) != len(self.primal)
        if bad or not spelling or any(letter not in self.primal for letter, _ in self.axes):
            raise TypeMismatchError(
                f"{spelling!r} is not a layout: write each axis once as a capital letter, then its blocks as a "
                "number and the small letter, for example NCHW16c or OIHW16i16o"
            )

    @property
    def ndim(self) -> int:
        """Number of dimensions of an array in this layout."""
        return len(self.axes)

    @property
    def is_blocked(self) -> bool:
        """True if some axis is split."""
        return len(self.primal) < len(self.axes)

    def block_of(self, letter: str) -> int:
        """The product of the block sizes of the axis `letter`; 1 if it is not split."""
        return math.prod(self.blocks[letter])

    def primal_extents(self, shape: Sequence[int]) -> dict[str, int]:
        """Full extent of each primal axis of an array of `shape` in this layout. Raises TypeMismatchError."""
        if len(shape) != self.ndim:
            raise TypeMismatchError(
                f"layout {self.spelling} has {self.ndim} dimensions but the shape {tuple(shape)} has {len(shape)}"
            )
        extents = dict.fromkeys(self.primal, 1)
        for (letter, block), size in zip(self.axes, shape):
            if block and block != size:
                raise TypeMismatchError(
                    f"layout {self.spelling} blocks {letter} by {block}, the shape {tuple(shape)} by {size}"
                )
            extents[letter] *= size
        return extents

    def shape_of(self, extents: dict[str, int]) -> tuple[int, ...]:
        """Shape in this layout of an array whose primal axes have `extents`. Raises TypeMismatchError."""
        for letter in self.primal:
            if not may_hold(equal(extents[letter] % self.block_of(letter), 0)):
                raise TypeMismatchError(
                    f"axis {letter} of extent {extents[letter]} is not a multiple of {self.block_of(letter)}, "
                    f"as the layout {self.spelling} needs"
                )
        return tuple(block or extents[letter] // self.block_of(letter) for letter, block in self.axes)

    def __repr__(self) -> str:
        return f"Layout({self.spelling!r})"


@lru_cache(maxsize=1024)
def parse_layout(spelling: str) -> Layout:
    """The layout spelled `spelling`, parsed once."""
    return Layout(spelling)


def is_layout(spelling: str) -> bool:
    """True if `spelling` is one of a layout."""
    try:
        parse_layout(spelling)
    except TypeMismatchError:
        return False
    return True


def transform_shape(shape: Sequence[int], src: str, dst: str) -> tuple[int, ...]:
    """Shape in layout `dst` of an array that has `shape` in layout `src`. Raises TypeMismatchError.

    >>> transform_shape((1, 32, 7, 7), "NCHW", "NCHW16c")
    (1, 2, 7, 7, 16)
    """
    source, target = parse_layout(src), parse_layout(dst)
    if sorted(source.primal) != sorted(target.primal):
        raise TypeMismatchError(f"cannot transform layout {src} to {dst}: their axes differ")
    return target.shape_of(source.primal_extents(shape))


def transform_indices(indices: Sequence[Any], src: str, dst: str) -> list[Any]:
    """The indices in the array of layout `src` of the element at `indices` of the array in layout `dst`.

    Works on integers and on index expressions. Axes split alike in both layouts are passed through unchanged.
    """
    source, target = parse_layout(src), parse_layout(dst)
    parts: dict[str, list[Any]] = {letter: [] for letter in target.primal}
    for (letter, block), index in zip(target.axes, indices):
        parts[letter].insert(len(parts[letter]) if block else 0, index)
    split: dict[str, list[Any]] = {}
    for letter, values in parts.items():
        if source.blocks[letter] == target.blocks[letter]:
            split[letter] = values
            continue
        whole = values[0]
        for block, value in zip(target.blocks[letter], values[1:]):
            whole = whole * block + value
        split[letter] = _split(whole, source.blocks[letter])
    taken = dict.fromkeys(source.primal, 0)
    result = []
    for letter, block in source.axes:
        position = 0 if block == 0 else taken[letter] + 1
        taken[letter] += 1 if block else 0
        result.append(split[letter][position])
    return result


def _split(whole: Any, blocks: tuple[int, ...]) -> list[Any]:
    inner = math.prod(blocks)
    parts = [whole // inner if blocks else whole]
    for block in blocks:
        inner //= block
        parts.append((whole // inner if inner > 1 else whole) % block)
    return parts
