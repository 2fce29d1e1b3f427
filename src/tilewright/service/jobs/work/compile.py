"""Jobs of kind `compile`: an artifact for Python, a library, C source or WebAssembly, and programs that run it."""

from __future__ import annotations

import json
from typing import Any

from tilewright.compile import Compiled, compile_openly, export_source
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.web.model import WebModel
from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.reports import reported, write_report
from tilewright.service.jobs.work.snippets import c_snippet, javascript_snippet, python_snippet

#: Options of `compile_openly` and of `export_source` that are passed as they come.
_ARTIFACT = ("precision", "exact_rounding")
_SOURCE = ("exact_rounding", "freestanding", "ram_limit", "rom_limit")


def compile_model(job: Job) -> dict[str, Any]:
    """Compile the job's model in the form that its target yields; the inputs and outputs of what was made."""
    with reported(job) as module:
        with job.watched("compile"):
            inputs, outputs, snippets, made = _FORMS[job.task["form"]](job, module)
        job.artifact("snippets.json").write_text(json.dumps(snippets, indent=1))
        write_report(job, made, module)
    return {"inputs": [*map(described, inputs)], "outputs": [*map(described, outputs)]}


def compiled(job: Job, module: IRModule, target: str = "") -> Compiled:
    """The model of a job for its target, or another, and what it was made of."""
    records = str(job.input("records")) if "records" in job.options else None
    given = {name: job.options[name] for name in _ARTIFACT if name in job.options}
    return compile_openly(module, target or job.task["target"], threads=1, records=records, **given)


def _artifact(job: Job, module: IRModule) -> tuple[Any, Any, dict[str, str], Compiled | None]:
    made = compiled(job, module)
    model = made.model
    job.stage("save")
    model.save(job.artifact("model.tw"))
    return model.inputs, model.outputs, {"python": python_snippet(model.inputs)}, made


def _library(job: Job, module: IRModule) -> tuple[Any, Any, dict[str, str], Compiled | None]:
    """A library with its header, for processors that the Python runtime is not made for; linked by a program."""
    made = compiled(job, module)
    job.stage("link")
    made.model.export_library(job.artifact("libmodel.so"), "model")
    return made.model.inputs, made.model.outputs, {}, made


def _source(job: Job, module: IRModule) -> tuple[Any, Any, dict[str, str], Compiled | None]:
    given = {name: job.options[name] for name in _SOURCE if name in job.options}
    written = export_source(module, job.artifact("model.c"), target=job.task["target"], **given)
    (one,) = written.models
    interface = one.c_model.interface
    inputs, outputs = interface.inputs, interface.outputs
    snippets = {}
    if not interface.is_symbolic:
        snippets["c"] = c_snippet(inputs, outputs, written[2] if len(written) > 2 else None)
    return inputs, outputs, snippets, None


def _module(job: Job, module: IRModule) -> tuple[Any, Any, dict[str, str], Compiled | None]:
    """Modules of WebAssembly, weights beside them, and the ES module that loads them."""
    made = compiled(job, module)
    model = made.model
    assert isinstance(model, WebModel), "targets of this form are WebAssembly"
    job.stage("save")
    model.export_web(job.artifact("model.mjs").parent)
    return model.inputs, model.outputs, {"javascript": javascript_snippet(model.inputs)}, made


_FORMS = {"artifact": _artifact, "library": _library, "source": _source, "wasm": _module}


def described(spec: TensorSpec) -> dict[str, Any]:
    """An input or output as JSON: its name, data type, and sizes, of which open ones are names."""
    shape = [size if isinstance(size, int) else str(size) for size in spec.shape]
    return {"name": spec.name, "dtype": str(spec.dtype), "shape": shape}
