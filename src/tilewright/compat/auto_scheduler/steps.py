"""Schedules as lists of steps, as logs of the auto-scheduler have them, replayed on a `te` schedule.

    replay = Replay([A, B, C])
    replay.add(["SP", 2, 0, 64, [4, 1, 8], 1])     # what it made: the axes
    replay.schedule, replay.stages, replay.axes(2)

A step names stages and loops by their numbers: stages in the order of the computation, inputs too, loops from the
outermost. `["SK", {…}]` is a whole configuration of a sketch of this compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.sketch.task import SketchTask
from tilewright.errors import ArtifactError, ScheduleError, UnsupportedError
from tilewright.te.leaf_axes import axis_extents
from tilewright.tir.op import as_const
from tilewright.topi.schedule.sketch.apply import apply

Step = list[Any]

#: The number of each annotation in logs, and what it does.
ANNOTATIONS = {
    "none": 0, "unroll": 1, "vectorize": 2, "parallel": 3, "vthread": 4, "blockIdx.x": 5, "threadIdx.x": 6,
    "blockIdx.y": 7, "threadIdx.y": 8, "blockIdx.z": 9, "threadIdx.z": 10, "tensorize": 11,
}  # fmt: skip

#: What a step of a configuration of sketches is called.
SKETCH = "SK"


class Replay:
    """A schedule of `tensors`, the arguments of a computation, and its stages by number.

    Lengths of splits that are not known yet (None) stand as 1.
    """

    def __init__(self, tensors: Sequence[te.Tensor]) -> None:
        self.tensors = list(tensors)
        outputs = [t.op for t in tensors if not isinstance(t.op, te.PlaceholderOp)]
        self.schedule = te.create_schedule(outputs)
        self.steps: list[Step] = []
        self.sketch: dict[str, Any] | None = None

    @property
    def stages(self) -> list[te.Stage]:
        """All stages in the order of the computation."""
        return list(self.schedule.stages)

    def axes(self, stage: int) -> list[te.IterVar]:
        """The loops of a stage, outermost first."""
        return list(self.stages[stage].leaf_iter_vars)

    def extent(self, stage: int, axis: te.IterVar) -> int | None:
        """The iterations of a loop, as far as the computation alone tells."""
        found = self.stages[stage]
        if not isinstance(found.op, te.ComputeOp):
            return None
        known = {**axis_extents(found, te.IterType.DATA_PAR), **axis_extents(found, te.IterType.REDUCE)}
        value = known.get(axis)
        number = None if value is None else as_const(value)
        return None if number is None else int(number)

    def add(self, step: Step) -> Any:
        """Do a step; the axes, or the stage's number, that it made. Raises `ScheduleError` where it does not fit."""
        kind, *given = step
        if kind not in _STEPS:
            raise ArtifactError(f"there is no step {kind!r}; there are: {', '.join(_STEPS)}")
        try:
            made = _STEPS[kind](self, *given)
        except (IndexError, TypeError, ValueError) as error:
            raise ScheduleError(f"the step {step} does not fit the computation: {error}") from None
        self.steps.append(list(step))
        return made

    def _split(self, stage: int, axis: int, extent: Any, lengths: Sequence[Any], inner_first: int) -> list[te.IterVar]:
        target, left = self.stages[stage], self.axes(stage)[axis]
        made: list[te.IterVar] = []
        lengths = [1 if length is None else length for length in lengths]
        if inner_first:
            for length in reversed(lengths):
                left, inner = target.split(left, factor=int(length))
                made.insert(0, inner)
            return [left, *made]
        for length in lengths:
            outer, left = target.split(left, nparts=int(length))
            made.append(outer)
        return [*made, left]

    def lengths_of(self, step: int) -> list[int]:
        """The lengths of a split that was made before."""
        return [1 if length is None else int(length) for length in self.steps[step][4]]

    def _follow(self, stage: int, axis: int, source: int, parts: int) -> list[te.IterVar]:
        lengths = self.lengths_of(source)
        return self._split(stage, axis, None, [*lengths[: parts - 1], math.prod(lengths[parts - 1 :])], 1)

    def _follow_fused(self, stage: int, axis: int, sources: Sequence[int], level: int, factor: int) -> list[te.IterVar]:
        size = math.prod(self.lengths_of(source)[level] for source in sources)
        target = self.stages[stage]
        whole = self.axes(stage)[axis]
        return list(target.split(whole, factor=size) if factor else target.split(whole, nparts=size))

    def _reorder(self, stage: int, order: Sequence[int]) -> list[te.IterVar]:
        axes = self.axes(stage)
        self.stages[stage].reorder(*(axes[i] for i in order))
        return self.axes(stage)

    def _fuse(self, stage: int, which: Sequence[int]) -> te.IterVar:
        axes = self.axes(stage)
        return self.stages[stage].fuse(*(axes[i] for i in which))

    def _annotate(self, stage: int, axis: int, annotation: int) -> te.IterVar:
        target, loop = self.stages[stage], self.axes(stage)[axis]
        names = {number: name for name, number in ANNOTATIONS.items()}
        name = names[annotation]
        if name in ("unroll", "vectorize", "parallel"):
            getattr(target, name)(loop)
        elif name not in ("none", "tensorize"):
            target.bind(loop, te.thread_axis(name))
        return loop

    def _pragma(self, stage: int, axis: int, text: str) -> None:
        """`auto_unroll_max_step$N` is a wish to unroll; the lowering decides by itself how far that pays."""
        if not text.startswith("auto_unroll_max_step"):
            name, _, value = text.partition("$")
            self.stages[stage].pragma(self.axes(stage)[axis], name, value or True)

    def _compute_at(self, stage: int, target: int, axis: int) -> None:
        stages = self.stages
        stages[stage].compute_at(stages[target], self.axes(target)[axis])

    def _cache_write(self, stage: int, scope: str) -> int:
        self.schedule.cache_write(self.stages[stage].op.output(0), scope)
        return stage

    def _cache_read(self, stage: int, scope: str, readers: Sequence[int]) -> int:
        stages = self.stages
        copy = self.schedule.cache_read(stages[stage].op.output(0), scope, [stages[i].op for i in readers])
        return self.stages.index(self.schedule[copy])

    def _rfactor(self, stage: int, axis: int, position: int) -> int:
        self.schedule.rfactor(self.stages[stage].op.output(0), self.axes(stage)[axis], position)
        return stage

    def _sketch(self, config: dict[str, Any]) -> None:
        task = SketchTask(self.tensors, "cpu")
        point = task.points.find(config)
        if point is None:
            raise ScheduleError("a recorded configuration is none of this computation's sketches")
        self.schedule, self.sketch = apply(task.parts, task.points.config(point), task.target), config

    def _tensorize(self, *given: Any) -> None:
        raise UnsupportedError("the auto-scheduler's step tensorize names an intrinsic, which logs do not have")


_STEPS: dict[str, Callable[..., Any]] = {
    "SP": Replay._split, "FSP": Replay._follow, "FFSP": Replay._follow_fused, "RE": Replay._reorder,
    "FU": Replay._fuse, "AN": Replay._annotate, "PR": Replay._pragma, "CA": Replay._compute_at,
    "CI": lambda self, stage: self.stages[stage].compute_inline(),
    "CR": lambda self, stage: self.stages[stage].compute_root(),
    "CHW": Replay._cache_write, "CHR": Replay._cache_read, "RF": Replay._rfactor,
    "SA": lambda self, stage, axis, factor, offset: self.stages[stage].storage_align(
        self.axes(stage)[axis], factor, offset
    ),
    "TS": Replay._tensorize, SKETCH: Replay._sketch,
}  # fmt: skip
