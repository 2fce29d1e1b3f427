"""A sweep of learning rates on dask, as docs/distributed.md shows it: losses are those of the same trainings here."""

from __future__ import annotations

import sys

import numpy as np
import pytest


def last_loss(rate: float) -> float:
    """The loss after some steps of a regression."""
    import tilewright
    from tilewright import relay
    from tilewright.training import SGD, Arrays, Trainer, fit, training_step

    x, y, w = relay.var("x", shape=(8, 3)), relay.var("y", shape=(8, 1)), relay.var("w", shape=(1, 3))
    error = relay.nn.dense(x, w) - y
    step = training_step(relay.mean(error * error), [w], SGD(rate))
    trainer = Trainer(step, tilewright.compile(step.module), {"w": np.zeros((1, 3), "float32")})
    features = np.random.default_rng(0).standard_normal((64, 3)).astype("float32")
    data = Arrays({"x": features, "y": features @ np.float32([[1], [2], [3]])}, batch=8)
    return fit(trainer, data, epochs=2, report=None)[-1]["loss"]


def test_losses_of_a_sweep_are_those_of_single_trainings() -> None:
    distributed = pytest.importorskip("distributed", reason="the cluster is dask.distributed, which is not installed")
    cloudpickle = pytest.importorskip("cloudpickle")
    own = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(own)
    rates = [0.001, 0.01, 0.1]
    try:
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            found = client.gather(client.map(last_loss, rates))
    finally:
        cloudpickle.unregister_pickle_by_value(own)
    assert found == [last_loss(rate) for rate in rates]
    assert sorted(found, reverse=True) == found
