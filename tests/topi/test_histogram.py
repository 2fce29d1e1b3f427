"""Extreme values and counts, compiled, beside NumPy: NaN, infinities, bounds of bins, several workers."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.relay import op
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.topi.reference import histogram as reference


def compiled(shape, bins, threads=1):
    x, limit = relay.var("x", shape=shape), relay.var("limit", shape=())
    ends = op.extremes(x)
    func = relay.Function([x, limit], relay.Tuple([ends, op.histogram(x, ends, limit, bins)]))
    return tw.compile(infer_type(IRModule({relay.GlobalVar("main"): func})), threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_parts_of_all_workers_are_added_up(threads):
    x = np.random.default_rng(0).standard_normal((3, 211, 223)).astype(np.float32)
    ends, counts = compiled(x.shape, 512, threads).run({"x": x, "limit": np.float32(0)})
    np.testing.assert_array_equal(ends, [x.min(), x.max(), np.abs(x).max()])
    wanted = np.histogram(x, bins=512, range=(-8, 8))[0]
    assert counts.sum() == x.size
    assert np.abs(np.cumsum(counts) - np.cumsum(wanted)).max() <= 2


def test_values_at_the_bounds_of_bins():
    model = compiled((6,), 8)
    x = np.array([-4.0, -0.0, 0.0, 1.0, 3.999, 4.0], np.float32)
    for limit, wanted in ((0, [1, 0, 0, 0, 2, 1, 0, 2]), (8, [0, 0, 1, 0, 3, 1, 1, 0])):
        _, counts = model.run({"x": x, "limit": np.float32(limit)})
        assert counts.tolist() == wanted
        np.testing.assert_array_equal(reference.histogram(x, reference.extremes(x), np.float32(limit), 8), counts)


@pytest.mark.parametrize("values", [[np.nan], [np.inf, 1.0], [-np.inf, np.nan], [1e-38, -1e-41], [3e38]])
def test_numbers_out_of_the_common_stay_within_the_counts(values):
    x = np.zeros(70, np.float32)
    x[3 : 3 + len(values)] = values
    ends, counts = compiled((70,), 64).run({"x": x, "limit": np.float32(0)})
    assert counts.sum() == 70
    assert np.isfinite(ends[2]) == np.isfinite(x).all()
    assert not np.isnan(ends[:2]).any()
