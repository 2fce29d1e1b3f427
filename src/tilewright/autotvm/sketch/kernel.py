"""Kernels of networks that no template has choices for, tuned through their sketches.

    tasks = sketch_kernels(calls, target)          # those that take a share of the network worth looking at
    explorer = kernel_explorer(tasks[0], Random(0), measurer)

The default is the compiler's own schedule, so that tuning begins with it, and what is found is compared with it. What
is recorded of a configuration `tw.compile` follows as it does those of templates (`driver/apply_records.py`).
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.sketch.points import SketchPoints
from tilewright.autotvm.sketch.search import SketchExplorer
from tilewright.autotvm.sketch.task import SketchTask
from tilewright.autotvm.task.extract import roles_of
from tilewright.autotvm.task.task import OUTPUT
from tilewright.autotvm.tuner.features import features_of
from tilewright.backend.lower import to_compute
from tilewright.driver.apply_records import has_sketch, sketch_config_of, sketch_key_of
from tilewright.driver.build import extract_tasks
from tilewright.driver.lower import loops_of, lower_function, schedule_choice
from tilewright.records.entry import TaskKey
from tilewright.relay.ir.expr import Call, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.symbolic import close_dims
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.sketch.config import SKETCH
from tilewright.topi.schedule.sketch.structure import Part

#: Kernels are left alone that are expected to take less than this share of all kernels of the network.
_LEAST_SHARE = 0.005

#: Seconds that the first batch takes before anything is measured: hundreds of points have their loops read.
_BEGIN_SECONDS = 4.0

#: What records have for the compiler's own schedule.
OWN = {SKETCH: 0}


class OwnAndSketchPoints(SketchPoints):
    """The points of a sketch, and behind them all the compiler's own schedule, of which records say `OWN`.

    No explorer comes by that one. It is expected to take `seconds`.
    """

    def __init__(self, parts: Sequence[Part], target: Target, seconds: float) -> None:
        super().__init__(parts, target)
        self.own, self._seconds = self.size, seconds

    def config(self, point: int) -> dict[str, Any]:
        return {} if point == self.own else super().config(point)

    def plain(self, point: int) -> Mapping[str, Any]:
        return OWN if point == self.own else super().plain(point)

    def find(self, config: Any) -> int | None:
        return self.own if config == OWN else super().find(config)

    def expected(self, point: int) -> float:
        return self._seconds if point == self.own else 0.0


class SketchKernel(SketchTask):
    """A fused function of a network without choices of a template. `calls` is how often a run of the network calls it;
    it is expected to take `seconds` by the compiler's own schedule."""

    begin_seconds = _BEGIN_SECONDS

    def __init__(self, name: str, function: Function, target: Target, roles: Sequence[str]) -> None:
        compute = to_compute(function)
        tensors = [*compute.inputs, *compute.outputs]
        super().__init__(tensors, target, name, roles=[*roles, *[OUTPUT] * len(compute.outputs)])
        self.function, self.calls, self.key = function, 1, sketch_key_of(function)
        self.seconds = schedule_choice(function, target).microseconds * 1e-6

    def __reduce__(self) -> tuple[Any, ...]:
        roles = [argument.role for argument in self.arguments if argument.role != OUTPUT]
        return _made, (self.name, self.function, self.target, roles, self.calls)

    @functools.cached_property
    def points(self) -> OwnAndSketchPoints:
        return OwnAndSketchPoints(self.parts, self.target, self.seconds)

    @property
    def default(self) -> int:
        return self.points.own

    @property
    def roofline(self) -> float:
        """The seconds of the arithmetic alone on all cores, or of loading each vector of the arrays once."""
        machine = self.target.machine
        nbytes = sum(math.prod(one.shape) * DType(one.dtype).itemsize for one in self.arguments)
        loads = nbytes / (machine.lanes(8) * machine.vector_loads * machine.cores)
        return float(max(super().roofline, machine.seconds(loads)))

    def _config(self, config: Mapping[str, Any]) -> Mapping[str, int] | None:
        chosen = {name: config[name] for name in self.points.knobs} if config else None
        return None if chosen is None else sketch_config_of(self.function, self.target, chosen)

    def lower(self, config: Any) -> PrimFunc:
        return lower_function(self.function, "kernel", self.target, self._config(config))

    def loops(self, config: Any) -> PrimFunc:
        return loops_of(self.function, self.target, self._config(config))

    def lower_reference(self) -> PrimFunc:
        return lower_function(self.function, "kernel", self.target)


def _made(name: str, function: Function, target: Target, roles: Sequence[str], calls: int) -> SketchKernel:
    """The task again in another process; types are not pickled."""
    typed = infer_type(IRModule.from_expr(function))["main"]
    assert isinstance(typed, Function)
    task = SketchKernel(name, typed, target, roles)
    task.calls = calls
    return task


class KernelExplorer(SketchExplorer):
    """Evolution of sketches that knows that the compiler's own schedule is none."""

    def learn(self, trials: Iterable[Trial]) -> None:
        super().learn(trial for trial in trials if trial.point < self.sketches.size)


def kernel_explorer(task: SketchKernel, generator: Random, measurer: Measurer | None) -> KernelExplorer:
    """An explorer that proposes configurations of a task; loops are read by the builders of `measurer`."""
    return KernelExplorer(task.points, generator, features_of(task, measurer, guess=True).of)


def sketch_kernels(calls: Sequence[Call], target: Target, least_share: float = _LEAST_SHARE) -> list[SketchKernel]:
    """The kernels among the calls that can be tuned through sketches alone and are expected to take some time, at least
    a share of that of all.

    None for targets that are no processor. Each has the calls of all that are alike.
    """
    if not target.is_processor:
        return []
    kernels, name_of = extract_tasks(calls)
    functions = {kernel.name: close_dims(kernel.function)[0] for kernel in kernels}
    counts = Counter(name_of[call] for call in calls)
    example = {name_of[call]: call for call in calls}
    expected = {name: schedule_choice(function, target).microseconds for name, function in functions.items()}
    least = least_share * sum(expected[name] * count for name, count in counts.items())
    found: dict[TaskKey, SketchKernel] = {}
    for name, function in functions.items():
        if expected[name] * counts[name] < least or not has_sketch(function, target):
            continue
        task = SketchKernel(name, function, target, roles_of(example[name]))
        task.calls = counts[name]
        known = found.setdefault(task.key, task)
        if known is not task:
            known.calls += task.calls
    return sorted(found.values(), key=lambda task: -task.seconds * task.calls)
