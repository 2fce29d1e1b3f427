"""Jobs of kind `tune`: records of the schedules that were the fastest on this machine, or on a device of the fleet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilewright.autotvm.measure.fleet import Fleet
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.network.options import TuneOptions, Watcher
from tilewright.autotvm.network.site import OnFleet
from tilewright.autotvm.network.tune import tune
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.frontend.formats.import_model import import_model
from tilewright.rpc.client import Session
from tilewright.rpc.tracker_client import TrackerSession
from tilewright.service.jobs.work.device import device_of, target_there
from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.verbs import run_verb

_PASSED = ("shapes", "trials", "explorer", "seed")
#: Seconds where the request does not say.
_SECONDS = 300.0


def tune_model(job: Job) -> dict[str, Any]:
    """Tune the job's model; the outcome. The artifact is a file of records, for jobs of kind compile."""
    if job.device is not None:
        return _tune_there(job)
    given = {name: job.options[name] for name in _PASSED if name in job.options}
    if "trials" not in given or "seconds" in job.options:
        given["minutes"] = job.options.get("seconds", _SECONDS) / 60
    outcome = job.folder / "outcome.json"
    given |= {"records": job.artifact("records.jsonl"), "json": outcome, "target": job.task["target"]}
    model = job.model()
    with job.watched("tune"):
        run_verb(["tune", str(model)], given)
    found = json.loads(outcome.read_text())
    kept = ("trials", "seconds", "default_ms", "tuned_ms", "kept", "rolled_back")
    return {name: found[name] for name in kept}


class _OneDevice(TrackerSession):
    """A fleet of the one device that the job was lent: each request has the same session."""

    def __init__(self, device: Session) -> None:
        self._device = device

    def request(self, *_: Any, answer_seconds: float | None = None, **__: Any) -> Session:
        """The session with it."""
        self._device.seconds = answer_seconds
        return self._device


class _Lines(Watcher):
    """Progress as lines of the job's log."""

    def step(self, tuner: TaskTuner, trials: Sequence[Trial], seconds_left: float) -> None:
        """A line for each batch."""
        print(f"{tuner.task.name}: {len(trials)} measured", flush=True)

    def note(self, line: str) -> None:
        """The line."""
        print(line, flush=True)


def _tune_there(job: Job) -> dict[str, Any]:
    """The same on a device: what is tried is built here, and timed there."""
    options, device = job.options, device_of(job)
    seconds = options.get("seconds", None if "trials" in options else _SECONDS)
    wanted = {name: options[name] for name in ("trials", "explorer", "seed") if name in options}
    model = job.model()
    job.stage("import")
    module, target = import_model(str(model), options.get("shapes")), target_there(job)
    site = OnFleet(Fleet(_OneDevice(device), job.task["device"], devices=1))
    with job.watched("tune"):
        result = tune(
            module, target, TuneOptions(seconds=seconds, **wanted), job.artifact("records.jsonl"), _Lines(), site
        )
    verdict = result.verdict
    return {
        "trials": result.trials, "seconds": result.seconds, "default_ms": verdict.default_seconds * 1e3,
        "tuned_ms": verdict.tuned_seconds * 1e3, "kept": len(verdict.kept), "rolled_back": len(verdict.rolled_back),
        "device": device.name, "target": target,
    }  # fmt: skip
