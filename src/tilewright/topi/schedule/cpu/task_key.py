"""What records of tuning know a kernel by: its template, and all that the template chooses by, as text."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilewright import te
from tilewright.autotvm.record.entry import TaskKey, canonical
from tilewright.target import Target
from tilewright.tir.expr import IntImm
from tilewright.topi.schedule.cpu.dispatch import space_of, template_of


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
