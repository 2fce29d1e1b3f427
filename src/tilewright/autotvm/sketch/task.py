"""Computations without a template as tasks, for the same measuring, records and models as all others.

task = SketchTask([a, b, c], "cpu")                 # the arguments of a computation on te
task.schedule(task.points.config(point))            # a schedule of its own, and `task.tensors`
task = SketchTask.of_kernel(kernel_task)            # a kernel of a network, without the template that it has
"""

from __future__ import annotations

import functools
import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.sketch.points import SketchPoints
from tilewright.autotvm.task.task import INPUT, OUTPUT, Argument, KernelTask, Task
from tilewright.autotvm.template.count_flops import count_flops
from tilewright.backend.lower import to_compute
from tilewright.errors import InputError, TargetError, UnsupportedError
from tilewright.records.entry import TaskKey, canonical
from tilewright.target import Target
from tilewright.te.operation import reduces_by_lanes
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.sketch.apply import apply
from tilewright.topi.schedule.sketch.config import SKETCH, VERSION
from tilewright.topi.schedule.sketch.structure import REDUCE, Part, structure_of


class ScheduledTask(Task):
    """A computation on `tensors`, its arguments, whose configurations each stand for a schedule on `te`."""

    tensors: list[te.Tensor]

    @property
    def default(self) -> int | None:
        return None

    @abstractmethod
    def schedule(self, config: Mapping[str, Any]) -> te.Schedule:
        """The schedule of a configuration. Raises `ScheduleError` where a primitive refuses it."""

    def lower(self, config: Any) -> PrimFunc:
        *_, (_, func) = te.lower_stages(self.schedule(config), self.tensors, "kernel", target=self.target)
        return func

    def loops(self, config: Any) -> PrimFunc:
        _, func = next(te.lower_stages(self.schedule(config), self.tensors, "kernel", target=self.target))
        return func


class SketchTask(ScheduledTask):
    """`tensors` are the arguments, inputs and outputs. `reference` is a task whose results are the yardstick (default:
    the computation without a schedule). `values` has the arrays that inputs are measured with (others: random ones)."""

    def __init__(
        self,
        tensors: Sequence[te.Tensor],
        target: str | Target,
        name: str = "sketch",
        reference: Task | None = None,
        roles: Sequence[str] = (),
        values: Mapping[te.Tensor, Any] | None = None,
    ) -> None:
        self.name, self.target, self.tensors = name, Target(target), list(tensors)
        if not self.target.is_processor:
            raise UnsupportedError(
                f"{name} is for {self.target}; sketches are for processors such as 'llvm': write a template for devices"
            )
        self.outputs = [tensor for tensor in tensors if not isinstance(tensor.op, te.PlaceholderOp)]
        if not self.outputs:
            raise InputError(f"{name} computes nothing: none of its {len(self.tensors)} arguments is a computed tensor")
        self.parts: list[Part] = structure_of(self.outputs)
        self.arguments = arguments_of(self.tensors, values or {}, roles)
        self.reference = reference
        self.key = TaskKey(f"{SKETCH}.v{VERSION}", canonical({"hash": self._hash()}))
        self.flops = self.flop = count_flops(te.create_schedule([tensor.op for tensor in self.outputs]))

    @classmethod
    def of_kernel(cls, task: KernelTask) -> SketchTask:
        """A kernel of a network, to be scheduled by sketches; results are those of its own template."""
        compute = to_compute(task.function)
        roles = [argument.role for argument in task.arguments]
        return cls([*compute.inputs, *compute.outputs], task.target, task.name, task, roles)

    def _hash(self) -> str:
        """A hash of the computation that does not depend on the names of its variables."""
        text = te.lower(te.create_schedule([tensor.op for tensor in self.outputs]), self.tensors, "main")
        return hashlib.sha256(str(text).encode()).hexdigest()[:16]

    def check_runs_here(self) -> None:
        """Raises `TargetError` where this machine cannot run code for the target."""
        if not self.target.is_host:
            raise TargetError(
                f"{self.name} is for {self.target}, which cannot be run on this machine; search for 'llvm', or measure "
                "on devices of a tracker's by auto_scheduler's RPCRunner"
            )

    @functools.cached_property
    def points(self) -> SketchPoints:
        return SketchPoints(self.parts, self.target)

    def schedule(self, config: Mapping[str, Any]) -> te.Schedule:
        """The schedule of a configuration. Raises `ScheduleError` where a primitive refuses it."""
        return apply(self.parts, config, self.target)

    def lower_reference(self) -> PrimFunc:
        if self.reference is not None:
            return self.reference.lower_reference()
        schedule = te.create_schedule([tensor.op for tensor in self.outputs])
        te.auto_inline_injective(schedule)
        for part in self.parts:
            _sum_by_lanes(schedule, part)
        *_, (_, func) = te.lower_stages(schedule, self.tensors, "kernel", target=self.target)
        return func


#: Terms from which on a plain sum loses digits that the reference should have, and the lanes that share them then.
_MANY_TERMS, _LANES = 256, 64


def _sum_by_lanes(schedule: te.Schedule, part: Part) -> None:
    """Sum a long reduction in several parts: one running sum of a million squares is off in the fourth digit."""
    if part.role == REDUCE and reduces_by_lanes(part.op) and math.prod(part.terms) >= _MANY_TERMS:
        stage = schedule[part.tensor]
        axes = part.op.reduce_axis
        _, lanes = stage.split(stage.fuse(*axes) if len(axes) > 1 else axes[0], factor=_LANES)
        stage.vectorize(lanes)


def arguments_of(
    tensors: Sequence[te.Tensor], values: Mapping[te.Tensor, Any], roles: Sequence[str] = ()
) -> tuple[Argument, ...]:
    """The arguments that `tensors` are, inputs with their `values`. Raises `InputError` where a size is symbolic."""
    computed = [not isinstance(tensor.op, te.PlaceholderOp) for tensor in tensors]
    given = list(roles) or [OUTPUT if made else INPUT for made in computed]
    return tuple(_argument(t, role, values.get(t)) for t, role in zip(tensors, given, strict=True))


def _argument(tensor: te.Tensor, role: str, values: Any) -> Argument:
    sizes = [int(size.value) if hasattr(size, "value") else -1 for size in tensor.shape]
    if -1 in sizes:
        raise InputError(f"{tensor.name} has a symbolic dimension; sketches need all sizes: fix it to a number")
    return Argument(tuple(sizes), str(tensor.dtype), role, values)
