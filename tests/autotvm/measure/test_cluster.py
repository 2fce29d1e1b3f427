"""Measuring on a cluster of dask over TLS, on this machine: the same trials and failures as here, workers lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.autotvm.tasks import OddTask, conv_task
from tests.onnx_models import convolution, saved
from tests.rpc.conftest import fleet
from tilewright.autotvm.measure.cluster import Cluster, ClusterMeasurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.cli.main import cli, guarded
from tilewright.errors import EnvironmentError_, InputError, TargetError
from tilewright.records.file import read_records
from tilewright.target import Target

__all__ = ["fleet"]  # a fixture

ROOT = Path(__file__).resolve().parents[3]
QUICK = MeasureOptions(build_seconds=5.0, run_seconds=3.0, blocks=4, block_seconds=1e-5)


@pytest.fixture
def cluster(fleet: Path, tmp_path: Path) -> Iterator[tuple[Cluster, Callable[..., Any]]]:
    """A scheduler, with a function that starts workers; all end with the test."""
    pytest.importorskip("distributed", reason="the cluster is dask.distributed, which is not installed")
    running = []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}

    def start(bundle: str, *words: str) -> subprocess.Popen[bytes]:
        position = fleet / bundle
        files = ("--tls-ca-file", "authority.pem", "--tls-cert", "certificate.pem", "--tls-key", "key.pem")
        told = [str(position / word) if word.endswith(".pem") else word for word in files]
        command = [sys.executable, "-m", "dask", *words, *told, "--no-dashboard", "--host", "tls://127.0.0.1"]
        running.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL))
        return running[-1]

    position = tmp_path / "scheduler.json"
    start("tracker-t", "scheduler", "--port", "0", "--protocol", "tls", "--scheduler-file", str(position))
    deadline = time.monotonic() + 60
    while not position.exists() or not position.read_text().strip():
        assert time.monotonic() < deadline and running[0].poll() is None, "the scheduler does not start"
        time.sleep(0.1)
    address = json.loads(position.read_text())["address"]

    def worker(*words: str) -> subprocess.Popen[bytes]:
        return start("device-pi", "worker", address, "--no-nanny", "--nthreads", "1", *words)

    yield Cluster(address, fleet / "user-anna"), worker
    for process in reversed(running):
        process.kill()
        process.wait()


MEASURES = ("--resources", "measure=1")


def test_trials_and_failures_are_those_of_this_machine(cluster) -> None:
    there, worker = cluster
    worker(*MEASURES), worker(*MEASURES)
    odd, plain = OddTask(), conv_task()
    with there.client() as client:
        client.wait_for_workers(2, timeout=60)
        assert len(there.check(client, plain.target)) == 2
        with pytest.raises(TargetError, match="riscv64"):
            there.check(client, Target("llvm -mtriple=riscv64-linux-gnu"))
        with ClusterMeasurer([odd, plain], client, QUICK) as measurer:
            points = [i for i, name in enumerate(odd.BEHAVIOURS) if name != "slow build"]
            trials = measurer.measure(odd, points)
            others = measurer.measure(plain, [plain.default or 0, 1, 2])
    kinds = {odd.BEHAVIOURS[t.config["behaviour"]]: t.failure for t in trials}
    assert kinds == {
        "well": "", "again": "", "wrong": "wrong result", "unbuildable": "build", "crash": "crash", "hang": "timeout",
        "greedy": "build",
    }  # fmt: skip
    assert [(trial.failure, trial.reason) for trial in others] == [("", "")] * 3
    assert measurer.incumbents[plain].seconds > 0


def test_a_worker_that_is_killed_ends_no_tuning(cluster) -> None:
    there, worker = cluster
    first = worker(*MEASURES)
    task = OddTask()
    with there.client() as client:
        client.wait_for_workers(1, timeout=60)
        with ClusterMeasurer([task], client, QUICK) as measurer:
            assert not measurer.measure(task, [0])[0].failure
            worker(*MEASURES)
            client.wait_for_workers(2, timeout=60)
            first.kill()
            trials = [trial for _ in range(3) for trial in measurer.measure(task, [0, 1, 2])]
    assert [trial.failure for trial in trials] == ["", "", "wrong result"] * 3


def test_a_model_is_tuned_on_it_by_the_same_command(cluster, tmp_path: Path, fleet: Path) -> None:
    there, worker = cluster
    worker(*MEASURES)
    model = saved(convolution(), tmp_path / "model.onnx")
    with there.client() as client:
        client.wait_for_workers(1, timeout=60)
    figures = tmp_path / "figures.json"
    words = ("tune", str(model), "--trials", "6", "--explorer", "grid", "--json", str(figures))
    elsewhere = ("--cluster", there.address, "--bundle", str(fleet / "user-anna"))
    assert guarded(lambda: cli.main([*words, *elsewhere], standalone_mode=False)) in (0, None)
    told = json.loads(figures.read_text())
    assert told["trials"] >= 6 and 0 < told["tuned_ms"] <= told["default_ms"]
    assert not any(entry.failure for entry in read_records(f"{model}.records.jsonl"))


def test_a_cluster_without_a_worker_that_measures_is_one_error(cluster) -> None:
    there, worker = cluster
    worker()
    with there.client() as client:
        client.wait_for_workers(1, timeout=60)
        with pytest.raises(EnvironmentError_, match=r"no worker of the cluster .* measures"):
            there.check(client, Target("cpu"))


def test_only_tls_is_spoken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="write tls://HOST:PORT, not 'tcp://host:8786'"):
        Cluster("tcp://host:8786", tmp_path)


def test_the_engine_is_an_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EnvironmentError_, match=r"tilewright\[cluster\]"), Cluster("tls://h:1", tmp_path).client():
        pass
