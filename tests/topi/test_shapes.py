"""Window arithmetic against brute force."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tilewright.topi.shapes import adaptive_window, pool_output, slice_bounds, transpose_output


def test_pool_output_counts_windows():
    for size, kernel, stride, before, after in np.ndindex(6, 3, 3, 2, 2):
        size, kernel, stride = size + 4, kernel + 2, stride + 1
        starts = range(-before, size + after, stride)
        whole = sum(s + kernel <= size + after for s in starts)
        assert pool_output(size, kernel, stride, before, after, 1, False) == whole
        rounded_up = pool_output(size, kernel, stride, before, after, 1, True)
        assert whole <= rounded_up <= whole + 1
        assert starts[rounded_up - 1] < size, "the last window starts in the padding"


def test_transpose_output_inverts_convolution():
    assert transpose_output(4, 3, 2, 1, 1, 1, 1) == 8
    assert transpose_output(1, 4, 1, 0, 0, 1, 0) == 4


def test_adaptive_windows_cover_everything():
    for size in range(1, 9):
        for out in range(1, size + 1):
            windows = [adaptive_window(i, size, out) for i in range(out)]
            assert windows[0][0] == 0 and windows[-1][1] == size
            assert all(b >= c for (_, b), (c, _) in pairwise(windows))


def test_slice_bounds_follow_python():
    rng = np.random.default_rng(0)
    x = np.arange(7)
    for _ in range(300):
        first, last = (int(v) for v in rng.integers(-10, 11, 2))
        step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
        ((start, stride, count),) = slice_bounds((7,), (first,), (last,), (step,), (0,))
        assert [start + k * stride for k in range(count)] == x[first:last:step].tolist()
