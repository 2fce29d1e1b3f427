"""Jobs of kind `compile`: an artifact for Python or C source, as the target has it, and programs that run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright.compile import export_source
from tilewright.runtime.signature import TensorSpec
from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.snippets import c_snippet, python_snippet

#: Options of `tw.compile` and of `export_source` that are passed as they come.
_ARTIFACT = ("precision", "exact_rounding", "signature", "outputs")
_SOURCE = ("exact_rounding", "freestanding", "signature", "outputs", "ram_limit", "rom_limit")


def compile_model(job: Job) -> dict[str, Any]:
    """Compile the job's model in the form that its target yields; the inputs and outputs of what was made."""
    model = job.model()
    with job.watched("compile"):
        inputs, outputs, snippets = (_artifact if job.task["form"] == "artifact" else _source)(job, model)
    job.artifact("snippets.json").write_text(json.dumps(snippets, indent=1))
    return {"inputs": [*map(described, inputs)], "outputs": [*map(described, outputs)]}


def _artifact(job: Job, model: Path) -> tuple[Any, Any, dict[str, str]]:
    given = {name: job.options[name] for name in _ARTIFACT if name in job.options}
    made = tw.compile(
        str(model), target=job.task["target"], input_shapes=job.options.get("shapes"), cache=False, threads=1,
        records=str(job.input("records")) if "records" in job.options else None, **given,
    )  # fmt: skip
    job.stage("save")
    made.save(job.artifact("model.tw"))
    return made.inputs, made.outputs, {"python": python_snippet(made.inputs)}


def _source(job: Job, model: Path) -> tuple[Any, Any, dict[str, str]]:
    given = {name: job.options[name] for name in _SOURCE if name in job.options}
    written = export_source(
        str(model), job.artifact("model.c"), target=job.task["target"], input_shapes=job.options.get("shapes"), **given
    )
    (one,) = written.models
    interface = one.c_model.interface
    inputs, outputs = interface.inputs, interface.outputs
    snippets = {}
    if not interface.is_symbolic:
        snippets["c"] = c_snippet(inputs, outputs, written[2] if len(written) > 2 else None)
    return inputs, outputs, snippets


def described(spec: TensorSpec) -> dict[str, Any]:
    """An input or output as JSON: its name, data type, and sizes, of which open ones are names."""
    shape = [size if isinstance(size, int) else str(size) for size in spec.shape]
    return {"name": spec.name, "dtype": str(spec.dtype), "shape": shape}
