"""Configurations of kernels for devices, measured on PoCL: in a process of their own, and by a server of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.autotvm.measure.fleet import Fleet, FleetMeasurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.network import settle
from tilewright.autotvm.network.tune import TuneOptions, tune
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import KernelTask
from tilewright.backend import backend_of
from tilewright.errors import InputError, TargetError
from tilewright.records.entry import VERDICT
from tilewright.records.file import read_records
from tilewright.rpc.registration import Registration
from tilewright.rpc.tracker_client import connect_tracker
from tilewright.target import Target

QUICK = MeasureOptions(run_seconds=60.0, builders=1, blocks=2, fewest_blocks=2, block_seconds=1e-5)


@pytest.fixture(scope="module", autouse=True)
def _opencl() -> None:
    if not backend_of(Target("opencl")).is_here:
        pytest.skip("no OpenCL: pip install 'tilewright[opencl]'")


def _module() -> relay.IRModule:
    x = relay.var("x", shape=(64, 96))
    weight = relay.const(np.random.default_rng(0).standard_normal((64, 96)).astype("float32"))
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, weight))))


def _task() -> KernelTask:
    (task,) = extract_from_program(_module(), "opencl")
    return task


def test_a_product_is_a_task() -> None:
    task = _task()
    assert task.key.template == "product" and '"rows":64' in task.key.workload
    assert len(task.points) > 8 and task.points.expected(task.default or 0) > 0
    assert task.roofline == 0.0
    numbered = extract_from_program(_module(), "opencl:0")[0]
    assert numbered.processor == task.processor and numbered.key == task.key


def test_tuning_writes_records_that_compiling_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.autotvm.tasks import outcome

    monkeypatch.setattr(settle, "_paying", lambda a, b, best, *_: best)
    monkeypatch.setattr(settle, "compare", lambda *_: outcome(2e-3, 1e-3))
    records = tmp_path / "r.jsonl"
    result = tune(_module(), "opencl", TuneOptions(trials=2, explorer="random", measure=QUICK), records)
    assert not result.failures
    entries = read_records(records)
    assert {entry.task.template for entry in entries} == {"product"}
    assert {entry.processor.split()[0] for entry in entries} == {"opencl"}
    tuned = [entry for entry in entries if entry.kind == VERDICT and entry.config is not None]
    model = tw.compile(_module(), target="opencl", records=records, cache=False)
    (call,) = model.manifest.kernels
    if tuned:
        assert dict(call.choice["config"]) == dict(tuned[-1].config or {})
    x = np.random.default_rng(1).standard_normal((64, 96)).astype("float32")
    np.testing.assert_allclose(model(x), tw.compile(_module(), cache=False)(x), rtol=1e-4, atol=1e-4)


def test_a_server_of_the_fleet_measures_on_its_device(fleet_of: Any, start: Any) -> None:
    tracker, _, _ = fleet_of(0)
    server = start(required=True, name="gpu", key="gpu", devices=("opencl",))
    registration = Registration(server, *tracker.address)
    try:
        assert registration.registered.wait(60), registration.problem
        assert all(state.startswith("off: the drivers of its devices") for state in server.confinement().values())
        fleet, task = Fleet(connect_tracker(*tracker.address), "gpu", wait_seconds=30.0), _task()
        assert task.default is not None
        with pytest.raises(TargetError, match=r"run no code for vulkan \(their devices: opencl\): start their servers"):
            fleet.check(Target("vulkan"))
        with FleetMeasurer([task], fleet, QUICK) as measurer:
            (trial,) = measurer.measure(task, [task.default])
        assert not trial.failure and trial.seconds
    finally:
        registration.close()


def test_models_that_read_loops_are_of_processors() -> None:
    with pytest.raises(InputError, match="the cost model 'gru' reads loops of processors, and the target is opencl"):
        tune(_module(), "opencl", TuneOptions(trials=1, model="gru"))
