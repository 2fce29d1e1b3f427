"""Equal work is compiled once: the counts of a compilation, which are the same on every machine."""

import numpy as np

import tilewright as tw
from tilewright import relay
from tilewright.support import trace


def test_layers_that_are_alike_are_one_kernel():
    x = relay.Var("x", relay.TensorType((4, 16), "float32"))
    y, rng = x, np.random.default_rng(0)
    for _ in range(5):
        y = relay.nn.relu(relay.nn.dense(y, relay.const(rng.standard_normal((16, 16)).astype("float32"))))
    with trace.collect() as report:
        tw.compile(relay.IRModule({relay.GlobalVar("main"): relay.Function([x], y)}), cache=False)
    assert report.counters["kernel calls"] == 5
    assert report.counters["kernels"] <= 2
