"""Schedules: how the operations of a tensor expression graph are to be computed, apart from what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.te import cache
from tilewright.te.inline import inline
from tilewright.te.operation import Operation
from tilewright.te.stage import INLINE, AxisAttr, Stage
from tilewright.te.tensor import Tensor


class Schedule:
    """One `Stage` per operation, producers before readers. `s[T]` is the stage of a tensor or operation.

    Nothing here changes the user's graph: caches and inlining give stages other operations, and the user's tensors
    stay valid keys.
    """

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.outputs: tuple[Operation, ...] = tuple(dict.fromkeys(outputs))
        self.stages: list[Stage] = []
        self.stage_map: dict[Operation, Stage] = {}
        for op in _sorted_graph(self.outputs):
            self.insert(len(self.stages), op)
        for op in self.outputs:
            self.stage_map[op].is_output = True

    def __getitem__(self, key: Any) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        if stage is None:
            known = ", ".join(s.name for s in self.stages)
            raise ScheduleError(f"{key!r} is not part of this schedule; its stages are: {known}")
        return stage

    def insert(self, position: int, op: Operation) -> Stage:
        """A stage for `op` at `position` among the stages; used by the cache primitives."""
        stage = Stage(self, op)
        self.stages.insert(position, stage)
        self.stage_map[op] = stage
        return stage

    def tensor(self, tensor: Tensor) -> Tensor:
        """The tensor by which readers in this schedule name `tensor`."""
        return self[tensor].outputs[tensor.value_index]

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """A copy of `tensor` in memory `scope` that the given reader tensors or operations read instead of it.

        before `C[i] = A[i]` · `AA = s.cache_read(A, "shared", [C])` · after `AA[i] = A[i]; C[i] = AA[i]`
        """
        return cache.cache_read(self, tensor, scope, readers if isinstance(readers, (list, tuple)) else [readers])

    def cache_write(self, tensors: Any, scope: str) -> Any:
        """The computation of `tensors` (one, or all outputs of an operation) done in memory `scope`, then copied out.

        before `C[i] = sum(…)` · `CC = s.cache_write(C, "local")` · after `CC[i] = sum(…); C[i] = CC[i]`
        Call it before splitting or reordering `tensors`; schedule the reduction on the tensor it gives.
        """
        if isinstance(tensors, (list, tuple)):
            return list(cache.cache_write(self, tensors, scope))
        return cache.cache_write(self, [tensors], scope)[0]

    def normalize(self) -> Schedule:
        """A copy of this schedule in which inlined stages stand in their readers and are gone as stages."""
        copy = object.__new__(Schedule)
        copy.outputs = self.outputs
        ops = inline(self.stages)
        made = {stage: _copy_stage(copy, stage) for stage in self.stages if stage.attach_type != INLINE}
        for stage, twin in made.items():
            twin.op = ops[stage]
            if stage.attach_stage is not None:
                if stage.attach_stage not in made:
                    raise ScheduleError(
                        f"compute_at of {stage.name}: {stage.attach_stage.name} is inlined and has no loops"
                    )
                twin.attach_stage = made[stage.attach_stage]
        copy.stages = list(made.values())
        copy.stage_map = {op: made[stage] for op, stage in self.stage_map.items() if stage in made}
        copy.stage_map.update({stage.op: stage for stage in copy.stages})
        return copy

    def __repr__(self) -> str:
        return "Schedule of " + ", ".join(s.name for s in self.stages)


def create_schedule(ops: Any) -> Schedule:
    """The default schedule of the operations (or tensors) `ops` and all they read: plain loops, stage after stage."""
    given = ops if isinstance(ops, (list, tuple)) else [ops]
    outputs = [item.op if isinstance(item, Tensor) else item for item in given]
    for op in outputs:
        if not isinstance(op, Operation):
            raise ScheduleError(f"create_schedule takes operations or tensors; got {op!r}")
    if not outputs:
        raise ScheduleError("create_schedule needs at least one output operation")
    return Schedule(outputs)


def _sorted_graph(outputs: Sequence[Operation]) -> list[Operation]:
    """All operations that `outputs` need, each after those it reads."""
    done: dict[Operation, None] = {}
    for output in outputs:
        work: list[tuple[Operation, bool]] = [(output, False)]
        while work:
            op, visited = work.pop()
            if visited:
                done[op] = None
            elif op not in done:
                work.append((op, True))
                work.extend((t.op, False) for t in reversed(op.input_tensors) if t.op not in done)
    return list(done)


def _copy_stage(schedule: Schedule, stage: Stage) -> Stage:
    copy = object.__new__(Stage)
    for name in Stage.__slots__:
        setattr(copy, name, getattr(stage, name))
    copy.schedule = schedule
    copy.leaf_iter_vars = list(stage.leaf_iter_vars)
    copy.relations = list(stage.relations)
    copy.alignment = dict(stage.alignment)
    copy.attrs = {
        axis: AxisAttr(attr.kind, attr.thread, dict(attr.pragmas), attr.intrin) for axis, attr in stage.attrs.items()
    }
    return copy
