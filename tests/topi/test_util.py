"""Sizes and paddings as operators hold them, from the short forms that callers write."""

from __future__ import annotations

import pytest

from tilewright.errors import TypeMismatchError
from tilewright.tir import SizeVar
from tilewright.topi.util import four_sided, pair, per_axis, sides


def test_one_number_serves_every_axis() -> None:
    assert per_axis(2, 3) == per_axis((2,), 3) == (2, 2, 2)
    assert per_axis((1, 2, 3), 3) == (1, 2, 3)
    assert sides(1, 3) == (1,) * 6
    assert sides((1, 2, 3), 3) == (1, 2, 3, 1, 2, 3)
    assert sides((1, 2), 1) == (1, 2)
    assert four_sided((1, 2)) == (1, 2, 1, 2)
    assert four_sided((1, 2, 3, 4)) == (1, 2, 3, 4)


def test_sizes_may_be_symbolic() -> None:
    n = SizeVar("n")
    height, width = pair((n, 4))
    assert height is n
    assert width == 4


def test_another_count_is_refused() -> None:
    with pytest.raises(TypeMismatchError, match="one for each of 2 axes is needed"):
        pair((1, 2, 3))
    with pytest.raises(TypeMismatchError, match=r"padding \(1, 2, 3\): one number, one for each of 2 axes or two"):
        four_sided((1, 2, 3))
