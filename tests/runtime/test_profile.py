"""Times of kernels: what others computed meanwhile on the processor of a single worker does not count."""

import numpy as np

import tilewright as tw
from tests.quantize.models import perceptron
from tilewright.runtime import profile


def test_one_worker_counts_no_more_than_its_own_time(monkeypatch):
    model, x = tw.compile(perceptron(), threads=1), {"x": np.ones((1, 8), np.float32)}
    assert all(row.seconds > 0 for row in model.profile(x, repeat=2))
    # a thread that never gets the processor
    monkeypatch.setattr(profile.time, "thread_time", lambda: 1.0)
    assert [row.seconds for row in model.profile(x, repeat=2)] == [0.0] * len(model.profile(x))
