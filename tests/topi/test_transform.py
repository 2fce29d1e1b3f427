"""Dimensions that reshape finds to stay."""

from __future__ import annotations

import pytest

from tilewright import te, topi
from tilewright.tir import FloorDiv, FloorMod
from tilewright.tir.visitor import post_order
from tilewright.topi.transform import matching_groups


@pytest.mark.parametrize(
    ("source", "target", "groups"),
    [
        ((2, 12, 5), (2, 3, 4, 5), [([0], [0]), ([1], [1, 2]), ([2], [3])]),
        ((6, 4), (2, 3, 4), [([0], [0, 1]), ([1], [2])]),
        ((4, 6), (3, 8), [([0, 1], [0, 1])]),
        ((5,), (1, 5), [([0], [0, 1])]),
    ],
)
def test_dimensions_of_a_reshape_are_grouped_by_their_product(source, target, groups):
    assert matching_groups(source, target) == groups


def test_reshape_leaves_common_dimensions_alone():
    x = te.placeholder((2, 12, 5), name="x")
    kinds = []
    post_order(topi.reshape(x, (2, 3, 4, 5)).op.body[0], lambda node: kinds.append(type(node)))
    assert FloorDiv not in kinds and FloorMod not in kinds
