"""The key of a kernel in tuning records: its template, and all that the template chooses by, as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.records.entry import TaskKey, canonical
from tilewright.tir.expr import IntImm
from tilewright.topi.schedule.template import Template


def workload_key(template: Template, anchor: te.Tensor, outs: Sequence[te.Tensor]) -> TaskKey | None:
    """The key of the computation of `outs`, scheduled by a template around an anchor; None for symbolic sizes.

    Beside the workload the data types of the anchor and of what it reads count: they decide the instructions.
    """
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
