"""Jobs of kind `quantize`: a model with codes of 8 bits after samples, or weights of a few bits."""

from __future__ import annotations

from typing import Any

from tilewright.errors import InputError
from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.verbs import run_verb

_PASSED = ("shapes", "weights", "method", "max_loss")


def quantize_model(job: Job) -> dict[str, Any]:
    """Quantize the job's model; the artifacts are the model and the recipe by which it can be made again."""
    given = {name: job.options[name] for name in _PASSED if name in job.options}
    if ("data" in job.options) == ("weights" in job.options):
        raise InputError("a job of kind quantize takes data, the id of samples, or weights, a number of bits")
    if "data" in job.options:
        samples = job.input("data")
        given["data"] = str(samples.rename(samples.with_suffix(".npz")))
    made = job.artifact(f"model.{job.options.get('format', 'tw')}")
    given |= {"output": str(made), "recipe": str(job.artifact("recipe.json")), "target": job.task["target"]}
    model = job.model()
    with job.watched("quantize"):
        run_verb(["quantize", str(model), "--no-cache"], given)
    return {}
