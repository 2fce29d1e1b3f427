"""Jobs of kind `verify`: outputs of this machine, or of a device of the fleet, beside those of another engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.frontend.bounds import bounds_of
from tilewright.frontend.comparison import compare_values
from tilewright.frontend.formats.import_model import import_model
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.reference import Reference
from tilewright.quantize.loss import Loss, default_measure
from tilewright.rpc.client import RemoteModel
from tilewright.service.jobs.work.device import Arrays, device_of, loaded_there
from tilewright.service.jobs.work.job import Job
from tilewright.service.jobs.work.verbs import run_verb

_PASSED = ("shapes", "precision", "against", "rtol", "atol", "max_loss", "seed")


def verify_model(job: Job) -> dict[str, Any]:
    """Compare the job's model with an engine; the outcome, whose `passed` is false where they differ."""
    if job.device is not None:
        return _verify_there(job)
    given = {name: job.options[name] for name in _PASSED if name in job.options}
    outcome = job.artifact("verify.json")
    given |= {"json": outcome, "target": job.task["target"]}
    model = job.model()
    with job.watched("verify"):
        run_verb(["verify", str(model), "--no-cache"], given)
    found: dict[str, Any] = json.loads(outcome.read_text())
    return found


def _verify_there(job: Job) -> dict[str, Any]:
    """The same on a device, by the bounds that the verb has."""
    model, options = str(job.model()), job.options
    reference = frontend_of(model).reference(model)
    against = options.get("against") or reference.engines[0]
    reference.check(against)
    job.stage("import")
    _, there = loaded_there(job, import_model(model, options.get("shapes")))
    job.stage("verify")
    inputs = _inputs(there, model, options.get("seed", 0))
    ours, theirs = there.run(inputs), reference.open(against, inputs, 1).run()
    if "max_loss" in options:
        outcome = _loss(ours, theirs, options["max_loss"])
    else:
        outcome = _differences(there, reference, ours, theirs, options)
    outcome |= {"against": against, "device": device_of(job).name, "target": there.target}
    job.artifact("verify.json").write_text(json.dumps(outcome, indent=2))
    return outcome


def _inputs(there: RemoteModel, model: str, seed: int) -> Arrays:
    """Random inputs; indices are below the sizes that they are for, and states are the first ones."""
    limits, random = frontend_of(model).index_limits(model), np.random.default_rng(seed)
    found = dict(frontend_of(model).first_states(model))
    for spec in there.inputs:
        if spec.name in found:
            continue
        if spec.dtype.is_float:
            found[spec.name] = random.standard_normal(spec.static_shape).astype(spec.numpy)
        else:
            most = 2 if spec.dtype.is_bool else min(limits.get(spec.name, 100), spec.dtype.limits()[1])
            found[spec.name] = random.integers(0, most, spec.static_shape).astype(spec.numpy)
    return found


def _loss(ours: Sequence[Any], theirs: Sequence[Any], budget: float) -> dict[str, Any]:
    loss = Loss()
    loss.add(theirs, ours)
    measure = default_measure([value.shape for value in ours], None)
    found = float(loss.by(measure))
    return {"passed": found <= budget, "loss": found, "measure": measure, "budget": budget}


def _differences(
    there: RemoteModel, reference: Reference, ours: Sequence[Any], theirs: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    bounds = bounds_of(reference, options.get("rtol"), options.get("atol"), options.get("precision"))
    found = [
        one
        for spec, mine, other in zip(there.outputs, ours, theirs, strict=True)
        for one in compare_values(spec.name, mine, other, bounds)
    ]
    for one in found:
        print(one.line(), flush=True)
    rows = [{"name": one.name, "passed": one.passed, "error": one.error, "scale": one.scale} for one in found]
    passed = all(one.passed for one in found) and any(one.compared for one in found)
    return {"passed": passed, "outputs": [{k: _finite(v) for k, v in row.items()} for row in rows]}


def _finite(value: Any) -> Any:
    """A value as JSON has it; None for a number that is infinite or none."""
    return value if not isinstance(value, float) or np.isfinite(value) else None
