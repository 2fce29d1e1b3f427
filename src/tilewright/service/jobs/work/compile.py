"""Jobs of kind `compile`: an artifact for Python, C source or a WebAssembly module, and programs that run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright.compile import export_source
from tilewright.enclave import source_of
from tilewright.enclave.wasm import build_module
from tilewright.runtime.signature import TensorSpec
from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.snippets import JAVASCRIPT, c_snippet, python_snippet

#: Options of `tw.compile` and of `export_source` that are passed as they come.
_ARTIFACT = ("precision", "exact_rounding", "signature", "outputs")
_SOURCE = ("exact_rounding", "freestanding", "signature", "outputs", "ram_limit", "rom_limit")


def compile_model(job: Job) -> dict[str, Any]:
    """Compile the job's model in the form that its target yields; the inputs and outputs of what was made."""
    model = job.model()
    with job.watched("compile"):
        inputs, outputs, snippets = _FORMS[job.task["form"]](job, model)
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


def _module(job: Job, model: Path) -> tuple[Any, Any, dict[str, str]]:
    """A module without imports, weights beside it, and where its host puts what (`model.json`)."""
    given = {name: job.options[name] for name in ("exact_rounding", "signature", "outputs") if name in job.options}
    folder = job.folder / "source"
    folder.mkdir()
    written = export_source(
        str(model), folder / "model.c", target=job.task["target"], input_shapes=job.options.get("shapes"),
        freestanding=True, **given,
    )  # fmt: skip
    source = source_of(written)
    job.stage("link")
    job.artifact("model.wasm").write_bytes(build_module(source, relaxed=False))
    if source.weights is not None:
        shutil.copyfile(source.weights, job.artifact("model.weights"))
    inputs, outputs = source.interface.inputs, source.interface.outputs
    about = {
        "inputs": [described(spec) | {"bytes": spec.nbytes} for spec in inputs],
        "outputs": [described(spec) | {"bytes": spec.nbytes} for spec in outputs],
        "workspace": source.interface.workspace_size,
        "weights": source.weights_bytes,
    }
    job.artifact("model.json").write_text(json.dumps(about, indent=1))
    return inputs, outputs, {"javascript": JAVASCRIPT}


_FORMS = {"artifact": _artifact, "source": _source, "wasm": _module}


def described(spec: TensorSpec) -> dict[str, Any]:
    """An input or output as JSON: its name, data type, and sizes, of which open ones are names."""
    shape = [size if isinstance(size, int) else str(size) for size in spec.shape]
    return {"name": spec.name, "dtype": str(spec.dtype), "shape": shape}
