"""Products whose rows are whole pages long: the rows are moved apart, the values stay."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import codegen, te
from tilewright.target import Target
from tilewright.topi import nn
from tilewright.topi.schedule.cpu.dispatch import schedule


@pytest.mark.parametrize(("rows", "depth", "padded"), [(13, 1024, True), (2, 1024, False), (13, 1000, False)])
def test_rows_of_whole_pages(rows: int, depth: int, padded: bool) -> None:
    data, weight = te.placeholder((rows, depth), name="data"), te.placeholder((3, depth, 16), name="weight")
    out = nn.dense_pack(data, weight)
    assert isinstance(out.op.input_tensors[0].op, te.ComputeOp) == padded
    target = Target("cpu")
    module = codegen.build([te.lower(schedule([out], target), [data, weight, out], "product")], target, threads=2)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("float32") for shape in ((rows, depth), (3, depth, 16)))
    result = np.empty((rows, 48), "float32")
    module["product"](x, w, result)
    expected = x.astype("float64") @ w.transpose(0, 2, 1).reshape(48, depth).T.astype("float64")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
