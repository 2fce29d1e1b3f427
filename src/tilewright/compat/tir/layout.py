"""`tvm.tir.layout`: layouts such as "NCHW16c" as objects, and shapes and indices taken from one to another.

both = bijective_layout("NCHW", "NCHW16c")
both.forward_shape((1, 32, 7, 7))           # 1, 2, 7, 7, 16
both.backward_index([0, 1, 6, 6, 2])        # 0, 18, 6, 6
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import InputError, TypeMismatchError
from tilewright.tir import op
from tilewright.tir.op import as_const
from tilewright.topi.layout import parse_layout, transform_indices, transform_shape


class Layout:
    """Axes by their letters: a capital for an axis, a number and a small letter for a block of it."""

    def __init__(self, name: str) -> None:
        try:
            self._own = parse_layout(name)
        except TypeMismatchError as error:
            raise InputError(str(error)) from None
        self.name = name
        self._letters = [letter.lower() if block else letter for letter, block in self._own.axes]

    @property
    def ndim(self) -> int:
        """The number of dimensions of an array in it."""
        return len(self._letters)

    def __len__(self) -> int:
        return self.ndim

    def __contains__(self, axis: str) -> bool:
        return axis in self._letters

    def __getitem__(self, index: int) -> str:
        return self._letters[index]

    def index_of(self, axis: str) -> int:
        """The position of an axis; -1 where there is none."""
        return self._letters.index(axis) if axis in self else -1

    def factor_of(self, axis: str) -> int:
        """The size of the blocks of an axis; -1 where it has none."""
        letter = axis.upper()
        blocked = letter in self._own.primal and self._own.blocks[letter]
        return self._own.block_of(letter) if blocked else -1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name})"


class BijectiveLayout:
    """Two layouts of the same axes."""

    def __init__(self, src: str, dst: str) -> None:
        self.src_layout, self.dst_layout = Layout(src), Layout(dst)

    def forward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape in the second of an array that has `shape` in the first."""
        return self._shape(shape, self.src_layout, self.dst_layout)

    def backward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape in the first of an array that has `shape` in the second."""
        return self._shape(shape, self.dst_layout, self.src_layout)

    def forward_index(self, index: Sequence[Any]) -> list[Any]:
        """The index in the second of the element at `index` of the first."""
        return _constants(transform_indices(_numbers(index), self.dst_layout.name, self.src_layout.name))

    def backward_index(self, index: Sequence[Any]) -> list[Any]:
        """The index in the first of the element at `index` of the second."""
        return _constants(transform_indices(_numbers(index), self.src_layout.name, self.dst_layout.name))

    @staticmethod
    def _shape(shape: Sequence[Any], src: Layout, dst: Layout) -> list[Any]:
        return _constants(transform_shape(_numbers(shape), src.name, dst.name))


def layout(layout_str: str) -> Layout:
    """A layout by its text."""
    return Layout(layout_str)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout | None:
    """Two layouts; None where one is none, or where their axes differ."""
    src, dst = str(src_layout), str(dst_layout)
    try:
        same = sorted(parse_layout(src).primal) == sorted(parse_layout(dst).primal)
    except TypeMismatchError:
        return None
    return BijectiveLayout(src, dst) if same else None


def _numbers(values: Sequence[Any]) -> list[Any]:
    """Constants as the numbers that they are."""
    found = [as_const(value) if hasattr(value, "dtype") else value for value in values]
    return [value if number is None else number for value, number in zip(values, found, strict=True)]


def _constants(values: Sequence[Any]) -> list[Any]:
    return [op.convert(value) for value in values]
