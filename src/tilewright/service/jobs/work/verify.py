"""Jobs of kind `verify`: outputs beside those of another engine."""

from __future__ import annotations

import json
from typing import Any

from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.verbs import run_verb

_PASSED = ("shapes", "precision", "against", "rtol", "atol", "max_loss", "seed")


def verify_model(job: Job) -> dict[str, Any]:
    """Compare the job's model with an engine; the outcome, whose `passed` is false where they differ."""
    given = {name: job.options[name] for name in _PASSED if name in job.options}
    outcome = job.artifact("verify.json")
    given |= {"json": outcome, "target": job.task["target"]}
    model = job.model()
    with job.watched("verify"):
        run_verb(["verify", str(model), "--no-cache"], given)
    found: dict[str, Any] = json.loads(outcome.read_text())
    return found
