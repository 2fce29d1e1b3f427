"""Jobs of kind `profile`: the time of each kernel, measured on this machine."""

from __future__ import annotations

import json
from typing import Any

from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.verbs import run_verb


def profile_model(job: Job) -> dict[str, Any]:
    """Time the kernels of the job's model; the sum. The artifacts are the times, and a page of them."""
    given = {name: job.options[name] for name in ("shapes", "precision", "repeat") if name in job.options}
    times = job.artifact("profile.json")
    given |= {"json": times, "report": job.artifact("profile.html"), "target": job.task["target"]}
    model = job.model()
    with job.watched("profile"):
        run_verb(["profile", str(model), "--no-cache"], given)
    kernels = json.loads(times.read_text())["kernels"]
    return {"kernels": len(kernels), "seconds": sum(kernel["seconds"] for kernel in kernels)}
