"""Jobs of kind `tune`: records of the schedules that were measured to be the fastest, on this machine."""

from __future__ import annotations

import json
from typing import Any

from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.verbs import run_verb

_PASSED = ("shapes", "trials", "explorer", "seed")
#: Seconds where the request does not say.
_SECONDS = 300.0


def tune_model(job: Job) -> dict[str, Any]:
    """Tune the job's model; the outcome. The artifact is a file of records, for jobs of kind compile."""
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
