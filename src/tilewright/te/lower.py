"""Lowering: from a schedule to the loop IR that code generators take, as one straight list of named stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.te.schedule import Schedule
from tilewright.te.schedule_to_tir import schedule_to_tir
from tilewright.te.tensor import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import PrimFunc


def lower_stages(
    schedule: Schedule, args: Sequence[Any], name: str = "main", binds: Mapping[Tensor, Buffer] | None = None
) -> Iterator[tuple[str, PrimFunc]]:
    """The function after each stage of lowering, with the stage's name, in order."""
    func = schedule_to_tir(schedule, args, name, binds)
    yield "schedule_to_tir", func


def lower(
    schedule: Schedule, args: Sequence[Any], name: str = "main", binds: Mapping[Tensor, Buffer] | None = None
) -> PrimFunc:
    """The function `name` that runs `schedule` on `args` (tensors, buffers, scalar variables, in call order).

    See `schedule_to_tir` for the arguments and errors.
    """
    func: PrimFunc | None = None
    for _, stage in lower_stages(schedule, args, name, binds):
        func = stage
    assert func is not None
    return func
