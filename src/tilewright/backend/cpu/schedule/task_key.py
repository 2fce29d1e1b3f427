"""The key of a kernel in tuning records: its template, and all that the template chooses by, as text."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tilewright import te
from tilewright.backend.cpu.schedule.dispatch import space_of, template_of
from tilewright.backend.cpu.schedule.product import ProductWorkload
from tilewright.backend.cpu.schedule.registry import REGISTRY
from tilewright.records.entry import TaskKey, canonical
from tilewright.target import Target
from tilewright.tir.expr import IntImm
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DWorkload


def task_key(outs: list[te.Tensor], target: Target) -> TaskKey | None:
    """The key of the computation of `outs`; None where its template has nothing to choose, or its sizes are open.

    Beside the workload the data types of the anchor and of what it reads count: they decide the instructions.
    """
    found, space = template_of(outs), space_of(outs, target)
    if found is None or space is None or not space.knobs:
        return None
    template, anchor = found
    tensors = [anchor, *anchor.op.input_tensors]
    if not all(isinstance(extent, IntImm) for tensor in (*tensors, *outs) for extent in tensor.shape):
        return None
    facts = _plain(template.workload(anchor, outs[0]))
    facts["dtypes"] = [str(tensor.dtype) for tensor in tensors]
    return TaskKey(template.tag, canonical(facts), template.version)


def _plain(workload: Any) -> Any:
    """A workload as plain data: fields that have their usual values are left out."""
    if not dataclasses.is_dataclass(workload):
        return [_plain(item) for item in workload] if isinstance(workload, tuple) else workload
    found = {field.name: (getattr(workload, field.name), field.default) for field in dataclasses.fields(workload)}
    return {name: _plain(value) for name, (value, default) in found.items() if value != default}


def space_of_key(key: TaskKey, target: Target) -> ConfigSpace | None:
    """The search space that a key stands for, without its computation; None for one that is not of sizes alone, or of
    a template that there is no more."""
    facts = json.loads(key.workload)
    template = REGISTRY.get(key.template)
    if template is None or template.version != key.version or not isinstance(facts, dict):
        return None
    facts.pop("dtypes", None)
    for kind in (Conv2DWorkload, ProductWorkload):
        known = {field.name: field for field in dataclasses.fields(kind)}
        needed = {name for name, field in known.items() if field.default is dataclasses.MISSING}
        if needed <= set(facts) <= set(known):
            return template.ranked(kind(**{name: _tuples(value) for name, value in facts.items()}), target)
    return None


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
