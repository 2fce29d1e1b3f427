"""Products of one row by transposed matrices become sums, with the same values and without a copy of the matrices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.relay.helpers import assert_same, module, op_names
from tilewright import relay
from tilewright.relay.transform.layout.row_products import row_products
from tilewright.te import size_var


def _inputs(left: tuple[Any, ...], right: tuple[Any, ...], dtype: str = "float32") -> tuple[relay.Expr, relay.Expr]:
    return relay.var("x", shape=left, dtype=dtype), relay.var("w", shape=right, dtype=dtype)


def _product(x: relay.Expr, w: relay.Expr, flip: bool = False) -> relay.Expr:
    return relay.nn.batch_matmul(x, w, transpose_a=False, transpose_b=flip)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flip", [False, True])
def test_one_row_by_transposed_matrices(flip: bool, dtype: str) -> None:
    x, w = _inputs((3, 1, 7), (3, 9, 7), dtype)
    before = module(_product(x, w if flip else relay.transpose(w, axes=(0, 2, 1)), flip))
    after = row_products(before)
    assert not {"nn.batch_matmul", "transpose"} & set(op_names(after))
    assert_same(before, after)


def test_leading_axes_may_be_regrouped_behind_the_transpose() -> None:
    x, w = _inputs((6, 1, 7), (2, 3, 9, 7))
    turned = relay.reshape(relay.transpose(w, axes=(0, 1, 3, 2)), newshape=(6, 7, 9))
    before = module(_product(x, turned))
    after = row_products(before)
    assert not {"nn.batch_matmul", "transpose"} & set(op_names(after))
    assert_same(before, after)


def test_a_number_of_rows_known_at_run_time() -> None:
    x, w = _inputs((3, 1, 7), (3, size_var("n"), 7))
    after = row_products(module(_product(x, relay.transpose(w, axes=(0, 2, 1)))))
    assert not {"nn.batch_matmul", "transpose"} & set(op_names(after))


@pytest.mark.parametrize(
    ("left", "right", "axes"),
    [
        ((3, 2, 7), (3, 9, 7), (0, 2, 1)),  # two rows
        ((3, 1, 7), (9, 3, 7), (1, 2, 0)),  # rows that do not lie in order
        ((3, 1, 7), (3, 7, 9), None),  # matrices as the kernel wants them
    ],
)
def test_products_of_several_rows_stay(left: tuple[int, ...], right: tuple[int, ...], axes: Any) -> None:
    x, w = _inputs(left, right)
    after = row_products(module(_product(x, w if axes is None else relay.transpose(w, axes=axes))))
    assert op_names(after).count("nn.batch_matmul") == 1


def test_products_of_integers_stay() -> None:
    x, w = _inputs((3, 1, 7), (3, 9, 7), "int32")
    assert "nn.batch_matmul" in op_names(row_products(module(_product(x, w, True))))
