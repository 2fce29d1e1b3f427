"""Jobs of kind `profile`: the time of each kernel, measured on this machine."""

from __future__ import annotations

import json
from typing import Any

from tilewright.runtime.profile import KernelTime
from tilewright.service.jobs.work.compile import compiled
from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.reports import reported, write_report
from tilewright.service.jobs.work.verbs import run_verb


def profile_model(job: Job) -> dict[str, Any]:
    """Time the kernels of the job's model; the sum. The artifacts are the times, a page of them, and the report."""
    with reported(job) as module:
        with job.watched("compile"):
            made = compiled(job, module)
        artifact, times = job.artifact("model.tw"), job.artifact("profile.json")
        made.save(artifact)
        job.stage("measure")
        given = {"repeat": job.options.get("repeat", 20), "json": times, "report": job.artifact("profile.html")}
        run_verb(["profile", str(artifact)], given)
        kernels = json.loads(times.read_text())["kernels"]
        rows = [KernelTime(k["kernel"], k["source"], k["seconds"], k["flops"], k["bytes"]) for k in kernels]
        write_report(job, made, module, rows)
    return {"kernels": len(kernels), "seconds": sum(kernel["seconds"] for kernel in kernels)}
