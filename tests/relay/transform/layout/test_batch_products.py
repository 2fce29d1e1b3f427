"""Products of two computed matrices become products of stacks of one, with the same values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.relay.transform.layout.batch_products import batch_products
from tilewright.te import size_var


def _inputs(left: tuple[Any, ...], right: tuple[Any, ...], dtype: str = "float32") -> tuple[relay.Expr, relay.Expr]:
    return relay.var("x", shape=left, dtype=dtype), relay.var("w", shape=right, dtype=dtype)


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
def test_products_of_two_inputs_agree(flip_a: bool, flip_b: bool) -> None:
    x, w = _inputs((7, 5) if flip_a else (5, 7), (9, 7) if flip_b else (7, 9))
    before = module(relay.nn.matmul(x, w, transpose_a=flip_a, transpose_b=flip_b))
    after = batch_products(before)
    assert op_names(after).count("nn.batch_matmul") == 1 and "nn.matmul" not in op_names(after)
    assert_same(before, after)


def test_the_transpose_of_the_right_operand_is_part_of_the_product() -> None:
    x, w = _inputs((2, 5, 7), (7, 9))
    before = module(relay.nn.dense(x, relay.transpose(w, axes=(1, 0))))
    after = batch_products(before)
    assert "transpose" not in op_names(after)
    assert_same(before, after)


def test_what_other_kernels_do_better_stays() -> None:
    x, w = _inputs((1, 7), (9, 7))
    y, v = _inputs((size_var("n"), 7), (9, 7))
    z, u = _inputs((5, 7), (9, 7), "int32")
    of_constant = relay.nn.dense(relay.var("x", shape=(5, 7)), weights(9, 7))
    for product in (relay.nn.dense(x, w), relay.nn.dense(y, v), relay.nn.dense(z, u), of_constant):
        assert "nn.dense" in op_names(batch_products(module(product)))
