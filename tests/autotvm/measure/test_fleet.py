"""Measuring over a fleet on this machine: the same trials and failures as here, devices lost, tuners that share."""

from __future__ import annotations

import threading
import time

import pytest

from tests.autotvm.tasks import OddTask, conv_task
from tests.rpc.test_server import until
from tests.rpc.test_tracker import states
from tilewright.autotvm.measure.fleet import Fleet, FleetMeasurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.errors import EnvironmentError_, RpcError, TargetError
from tilewright.rpc.registration import Registration
from tilewright.rpc.tracker_client import connect_tracker
from tilewright.target import Target

QUICK = MeasureOptions(build_seconds=5.0, run_seconds=3.0, builders=2, blocks=4, block_seconds=1e-5)


def on(tracker, user="", **options) -> Fleet:
    return Fleet(connect_tracker(*tracker.address, user=user), "pi", **{"wait_seconds": 10.0, **options})


def test_what_is_measured_there_is_what_is_measured_here(fleet_of) -> None:
    tracker, _, _ = fleet_of(2)
    task = conv_task()
    points = [task.default or 0, 1, 2, 3]
    with FleetMeasurer([task], on(tracker), QUICK) as measurer:
        trials = measurer.measure(task, points)
        best = measurer.incumbents[task]
    assert [trial.point for trial in trials] == points and not any(trial.failure for trial in trials)
    assert all(trial.seconds and trial.blocks for trial in trials) and any(trial.accepted for trial in trials)
    assert best.point in points and best.seconds == min(t.seconds for t in trials if t.accepted)
    until(lambda: set(states(tracker).values()) == {"free"})


@pytest.mark.long
def test_every_failure_has_its_type_there_too(fleet_of) -> None:
    tracker, _, _ = fleet_of(2)
    task, lines = OddTask(), list[str]()
    with FleetMeasurer([task], on(tracker), QUICK, lines.append) as measurer:
        trials = measurer.measure(task, range(len(task.points)))
    kinds = {task.BEHAVIOURS[t.config["behaviour"]]: t.failure for t in trials}
    assert kinds == {
        "well": "", "again": "", "wrong": "wrong result", "unbuildable": "build", "crash": "crash", "hang": "timeout",
        "slow build": "timeout", "greedy": "build",
    }  # fmt: skip
    reasons = {t.failure: t.reason for t in trials}
    assert "64 of 64 results differ; at [0]" in reasons["wrong result"]
    assert "SIGSEGV" in reasons["crash"] or "SIGBUS" in reasons["crash"]
    assert not measurer.lost and not lines


def test_a_reference_that_does_not_run_there_is_one_error(fleet_of, monkeypatch) -> None:
    tracker, _, _ = fleet_of(1)
    task = OddTask()
    monkeypatch.setattr(task, "lower_reference", lambda: task._function("crash"))
    with (
        FleetMeasurer([task], on(tracker), QUICK) as measurer,
        pytest.raises(EnvironmentError_, match="its reference does not run"),
    ):
        measurer.measure(task, [0])


def test_code_that_the_devices_cannot_run_is_refused_before_any_is_built(fleet_of) -> None:
    tracker, _, _ = fleet_of(1)
    fleet = on(tracker, wait_seconds=1.0)
    with pytest.raises(TargetError, match=r"devices of key 'pi' are .* and the target is"):
        fleet.check(Target("llvm -mtriple=riscv64-linux-gnu"))
    with pytest.raises(RpcError, match="no device of this fleet"):
        Fleet(fleet.tracker, "rpi9", wait_seconds=0.3).describe()


@pytest.mark.long
def test_devices_that_die_again_and_again_end_no_tuning(fleet_of, start) -> None:
    """Two tuners, three devices, of which one dies every second in the midst of what it measures."""
    tracker, _, _ = fleet_of(2)
    stop = threading.Event()

    def die_and_return() -> None:
        while not stop.is_set():
            server = start(required=True, name="flaky", key="pi")
            registration = Registration(server, *tracker.address)
            stop.wait(1.0)
            registration.close()
            server.close()

    dying = threading.Thread(target=die_and_return)
    dying.start()
    found = {}

    def tune(user: str) -> None:
        task = OddTask(user)
        with FleetMeasurer([task], on(tracker, user, devices=3, tries=9), QUICK) as measurer:
            measurer.measure(task, [0])
            found[user] = [trial.failure for _ in range(3) for trial in measurer.measure(task, [0, 1, 0, 1, 2])]

    tuners = [threading.Thread(target=tune, args=(user,)) for user in ("anna", "bert")]
    for tuner in tuners:
        tuner.start()
    for tuner in tuners:
        tuner.join(120)
    stop.set()
    dying.join(30)
    assert found == {user: ["", "", "", "", "wrong result"] * 3 for user in ("anna", "bert")}
    until(lambda: tracker.status()["leases"] == 0 and not tracker.status()["waiting"])


def test_without_devices_it_waits_until_its_time_is_over(fleet_of) -> None:
    tracker, _, registrations = fleet_of(1)
    task, lines = OddTask(), list[str]()
    with FleetMeasurer([task], on(tracker, wait_seconds=0.2), QUICK, lines.append) as measurer:
        registrations[0].close()
        until(lambda: not tracker.status()["devices"])
        measurer.deadline = time.monotonic() + 1.5
        trials = measurer.measure(task, [0, 3])
    assert any("waiting for a device" in line for line in lines)
    assert [(t.point, t.failure) for t in trials] == [(3, "build")]  # what no device took is left out
