"""Products of two computed matrices become products of stacks of one, with the same values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
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


def test_the_transpose_of_the_left_operand_is_part_of_the_product() -> None:
    g, x = _inputs((6, 5), (6, 9))
    before = module(relay.nn.dense(relay.transpose(g, axes=(1, 0)), relay.transpose(x, axes=(1, 0))))
    after = batch_products(before)
    assert "transpose" not in op_names(after)
    assert_same(before, after)


@pytest.mark.parametrize("columns", [9, 16, 40, 64])
def test_what_follows_element_by_element_is_computed_by_the_product(columns: int) -> None:
    x, w = _inputs((2, 6, 7), (columns, 7))
    bias, more = relay.var("bias", shape=(1, 1, columns)), relay.var("more", shape=(2, 6, columns))
    wide = relay.reshape(relay.nn.dense(relay.reshape(x, (12, 7)), w), (2, 6, columns)) + bias
    before = module(relay.nn.gelu(wide) * more + 1.0)
    after = batch_products(before)
    assert [op.name for op in _fused_into_the_product(after)].count("nn.gelu") == 1
    assert_same(before, after)


@pytest.mark.parametrize("case", ["rows", "heads", "cast to a shape"])
def test_what_needs_its_own_shape_keeps_it(case: str) -> None:
    x, w = _inputs((12, 7), (8, 7))
    made = relay.reshape(relay.nn.dense(x, w), (2, 6, 8))
    before = module({
        "rows": made + relay.var("positions", shape=(6, 8)),
        "heads": relay.tanh(relay.reshape(made, (2, 6, 2, 4))),
        "cast to a shape": relay.broadcast_to(made, shape=(2, 6, 8)),
    }[case])  # fmt: skip
    assert_same(before, batch_products(before))


def _fused_into_the_product(mod: relay.IRModule) -> list[Any]:
    """The operators of the kernel that has the product."""
    kernels = [call.op for call in calls(fuse_ops(mod)["main"].body) if isinstance(call.op, relay.Function)]
    found = [[call.op for call in calls(kernel.body)] for kernel in kernels]
    return next(ops for ops in found if any(op.name == "nn.batch_matmul" for op in ops))


def test_what_other_kernels_do_better_stays() -> None:
    x, w = _inputs((1, 7), (9, 7))
    y, v = _inputs((size_var("n"), 7), (9, 7))
    z, u = _inputs((5, 7), (9, 7), "int32")
    of_constant = relay.nn.dense(relay.var("x", shape=(5, 7)), weights(9, 7))
    for product in (relay.nn.dense(x, w), relay.nn.dense(y, v), relay.nn.dense(z, u), of_constant):
        assert "nn.dense" in op_names(batch_products(module(product)))
