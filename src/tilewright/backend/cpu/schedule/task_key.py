"""Keys of kernels in tuning records, and the search spaces that keys stand for."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tilewright import te
from tilewright.backend.cpu.schedule.dispatch import space_of, template_of
from tilewright.backend.cpu.schedule.product import ProductWorkload
from tilewright.backend.cpu.schedule.registry import REGISTRY
from tilewright.backend.workload_key import workload_key
from tilewright.records.entry import TaskKey
from tilewright.target import Target
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DWorkload


def task_key(outs: list[te.Tensor], target: Target) -> TaskKey | None:
    """The key of the computation of `outs`; None without choices in its template, or of symbolic sizes."""
    found, space = template_of(outs), space_of(outs, target)
    if found is None or space is None or not space.knobs:
        return None
    return workload_key(*found, outs)


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
