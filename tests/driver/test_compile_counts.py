"""Equal work is compiled once: the counts of a compilation, which are the same on every machine."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.backend.kernels import CompiledKernels, Task
from tilewright.driver.build import compile_tasks
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


class CountingBackend:
    """A compiler whose code is how many kernels it was given."""

    def compile(self, tasks):
        return CompiledKernels(bytes([len(tasks)]))


@pytest.mark.parametrize(("jobs", "sizes"), [(1, [8, 3]), (2, [1] * 11)])
def test_one_process_shares_fixed_costs(jobs, sizes):
    """A driver takes a fixed time for each text; only several processes need small ones, to end together."""
    tasks = [Task(f"kernel{i}", relay.Function([], relay.const(1.0))) for i in range(11)]
    compiled = compile_tasks(tasks, CountingBackend(), jobs)
    assert [one.code[0] for one in compiled] == sizes
