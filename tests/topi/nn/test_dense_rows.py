"""Products whose rows are whole pages long, and whose columns are no whole vectors: what is moved, the values stay."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import run, sample
from tilewright import te, topi
from tilewright.backend import build
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.target import Target
from tilewright.topi import nn


@pytest.mark.parametrize(("rows", "depth", "padded"), [(13, 1024, True), (2, 1024, False), (13, 1000, False)])
def test_rows_of_whole_pages(rows: int, depth: int, padded: bool) -> None:
    data, weight = te.placeholder((rows, depth), name="data"), te.placeholder((3, depth, 16), name="weight")
    out = nn.dense_pack(data, weight)
    assert isinstance(out.op.input_tensors[0].op, te.ComputeOp) == padded
    target = Target("cpu")
    module = build([te.lower(schedule([out], target), [data, weight, out], "product")], target, threads=2)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in ((rows, depth), (3, depth, 16)))
    result = np.empty((rows, 48), "float32")
    module["product"](x, w, result)
    expected = x.astype("float64") @ w.transpose(0, 2, 1).reshape(48, depth).T.astype("float64")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("transpose_b", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(27, 27), (5, 33), (3, 27), (6, 16), (9, 13)])
def test_columns_that_are_no_whole_vectors(rows: int, columns: int, transpose_b: bool) -> None:
    a, b = sample(3, rows, 20), sample(3, columns, 20, seed=1)
    expected = a @ b.transpose(0, 2, 1)
    operand = b if transpose_b else b.transpose(0, 2, 1).copy()
    result = run(lambda x, y: nn.batch_matmul(x, y, transpose_b=transpose_b), a, operand)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("units", [33, 47, 49, 63])
@pytest.mark.parametrize("rows", [(1,), (13,), (2, 7), (3, 1, 5)], ids=str)
def test_columns_of_zeros_are_left_out(rows: tuple[int, ...], units: int) -> None:
    """Panels of 32, of which the last is filled with zeros; an epilogue reads what is left."""
    x, w, bias = sample(*rows, 40), sample(64, 40, seed=1), sample(units, seed=2)
    w[units:] = 0
    packed = w.reshape(2, 32, 40).transpose(0, 2, 1).copy()
    result = run(lambda a, b, c: topi.add(nn.dense_pack(a, b, units=units), c), x, packed, bias)
    assert result.shape == (*rows, units)
    np.testing.assert_allclose(result, x @ w[:units].T + bias, rtol=1e-5, atol=1e-5)


def test_zeros_behind_the_columns_only_where_they_pay() -> None:
    def columns_of(rows: int, columns: int) -> int:
        out = nn.batch_matmul(te.placeholder((2, rows, 8)), te.placeholder((2, columns, 8)))
        product = out if out.op.name == "batch_matmul" else out.op.input_tensors[0]
        return math.prod(int(extent.value) for extent in product.shape[2:])

    assert columns_of(27, 27) == 32 and columns_of(27, 48) == 48 and columns_of(2, 27) == 27 and columns_of(27, 9) == 9
