"""Attention as an operator: type rule, reference and compute agree with a plain formula."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import const
from tilewright.relay.ir.type_of import type_of

RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def _plain(query, key, value, mask=0.0):
    scores = np.exp(query @ key.swapaxes(-1, -2) * 0.25 + mask)
    return scores / scores.sum(axis=-1, keepdims=True) @ value


def test_attention_agrees_with_numpy(check):
    query, key, value = normal(2, 3, 4, 5), normal(2, 3, 6, 5), normal(2, 3, 6, 7)
    check(op.nn.attention(*map(const, (query, key, value)), scale=0.25), _plain(query, key, value))


def test_shared_keys_mask_and_layout(check):
    query, key, value, mask = normal(1, 4, 3, 5), normal(1, 2, 6, 5), normal(1, 2, 6, 4), normal(1, 1, 3, 6)
    expected = _plain(query, key.repeat(2, axis=1), value.repeat(2, axis=1), mask).transpose(0, 2, 1, 3)
    call = op.nn.attention(*map(const, (query, key, value, mask)), scale=0.25, out_layout="BSHD")
    check(call, expected)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 5)), "depth 4, the key 5"),
        (((1, 3, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)), "3 query heads cannot share 2"),
        (((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 6, 4)), "differ in length"),
        (((2, 3, 4), (2, 3, 4), (2, 3, 4)), "must be"),
        (((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), (1, 1, 1, 5)), "broadcast"),
    ],
)
def test_shapes_that_do_not_fit(shapes, message):
    with pytest.raises(TypeMismatchError, match=message):
        type_of(op.nn.attention(*[const(np.zeros(shape, "float32")) for shape in shapes]))
