"""Jobs of kind `profile`: the time of each kernel, measured on this machine or on a device of the fleet."""

from __future__ import annotations

import json
import statistics
from typing import Any

from tilewright.autotvm.network.inputs import timing_inputs
from tilewright.runtime.profile import KernelTime
from tilewright.service.jobs.work.compile import compiled
from tilewright.service.jobs.work.device import device_of, loaded_there
from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.reports import reported, write_report
from tilewright.service.jobs.work.verbs import run_verb

#: Runs of the model where the request does not say.
_REPEAT = 20


def profile_model(job: Job) -> dict[str, Any]:
    """Time the kernels of the job's model; the sum. The artifacts are the times, a page of them, and the report."""
    if job.device is not None:
        return _profile_there(job)
    with reported(job) as module:
        with job.watched("compile"):
            made = compiled(job, module)
        artifact, times = job.artifact("model.tw"), job.artifact("profile.json")
        made.model.save(artifact)
        job.stage("measure")
        given = {"repeat": job.options.get("repeat", _REPEAT), "json": times, "report": job.artifact("profile.html")}
        run_verb(["profile", str(artifact)], given)
        kernels = json.loads(times.read_text())["kernels"]
        rows = [KernelTime(k["kernel"], k["source"], k["seconds"], k["flops"], k["bytes"]) for k in kernels]
        write_report(job, made, module, rows)
    return {"kernels": len(kernels), "seconds": sum(kernel["seconds"] for kernel in kernels)}


def _profile_there(job: Job) -> dict[str, Any]:
    """The same on a device, whose times of whole runs are in `profile.json`, too."""
    with reported(job) as module:
        made, there = loaded_there(job, module)
        made.model.save(job.artifact("model.tw"))
        job.stage("measure")
        inputs, repeat = timing_inputs(there.inputs), job.options.get("repeat", _REPEAT)
        runs, rows = there.time(inputs, repeat), there.profile(inputs, repeat)
        kernels = [{"kernel": row.kernel, "source": row.source, "seconds": row.seconds} for row in rows]
        about = {"device": device_of(job).name, "target": there.target, "threads": there.threads}
        job.artifact("profile.json").write_text(json.dumps({**about, "runs": runs, "kernels": kernels}, indent=1))
        write_report(job, made, module, rows, there.target)
    return {"kernels": len(rows), "seconds": statistics.median(runs), **about}
