"""Schedules of processors: by the templates of `backend/cpu/schedule`, or by sketches, and their lowering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.backend.backend import Backend
from tilewright.backend.cpu.schedule.choice import choice_of, explain_space
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.backend.cpu.schedule.task_key import task_key
from tilewright.records.entry import TaskKey
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.sketch.config import has_sketch, is_sketch, sketch_config, sketch_schedule
from tilewright.topi.schedule.space import ConfigSpace


class CpuSchedules(Backend):
    """The part of `CpuBackend` that lowering and the tuner ask."""

    def schedule(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> te.Schedule:
        """By the template of the anchor's tag, or by the sketch that a configuration is of."""
        if config is not None and is_sketch(config):
            return sketch_schedule(outs, self.target, config)
        return schedule(outs, self.target, config)

    def search_space(self, outs: list[te.Tensor]) -> ConfigSpace | None:
        """Of the template of the anchor's tag."""
        return space_of(outs, self.target)

    def task_key(self, outs: list[te.Tensor]) -> TaskKey | None:
        """Template, workload and data types."""
        return task_key(outs, self.target)

    def has_sketch(self, outs: list[te.Tensor]) -> bool:
        """Of what is made of plain expressions alone."""
        return has_sketch(outs, self.target)

    def sketch_config(self, outs: list[te.Tensor], values: Mapping[str, Any]) -> Config:
        """By the numbers of the values."""
        return sketch_config(outs, self.target, values)

    def operator_seconds(self, operations: float, nbytes: float, alone: bool) -> float:
        """By all cores' arithmetic, or the memory's rate."""
        machine = self.target.machine
        hertz = machine.ghz * 1e9
        bound = max(
            operations / (machine.peak_gflops * 1e9 * machine.cores), nbytes / (machine.read_memory.all * hertz)
        )
        return bound + machine.seconds(machine.kernel_start) * alone

    def choice(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> Choice:
        """Template, configuration and expected time."""
        return choice_of(outs, self.target, config)

    def explain(self, choice: Choice, space: ConfigSpace | None) -> list[str]:
        """With the configurations that come next."""
        more = explain_space(space, self.target) if space is not None and space.knobs else []
        return [*choice.explained(), *more]

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """The pipeline of processors."""
        return te.lower_stages(s, args, name, target=self.target)
