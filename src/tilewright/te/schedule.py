"""Schedules: how the operations of a tensor expression graph are to be computed, apart from what they compute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.te import cache
from tilewright.te.axis_attr import AxisAttr
from tilewright.te.group import Group, create_group
from tilewright.te.inline import inline
from tilewright.te.itervar import IterVar
from tilewright.te.operation import ComputeOp, Operation
from tilewright.te.record import replay, steps_to_json, steps_to_text
from tilewright.te.rfactor import rfactor
from tilewright.te.scan import ScanOp
from tilewright.te.stage import AT, INLINE, ROOT, Stage
from tilewright.te.step import Step, step
from tilewright.te.tensor import Tensor
from tilewright.te.tensor_intrin import TensorIntrin
from tilewright.tir.position import Position


class Schedule:
    """One `Stage` per operation, producers before readers. `s[T]` is the stage of a tensor or operation.

    Nothing here changes the user's graph: caches and inlining replace operations of stages, and the user's tensors
    stay valid keys.
    """

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.outputs: tuple[Operation, ...] = tuple(dict.fromkeys(outputs))
        self.steps: list[Step] = []
        self.within_step = False
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

    @step
    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """A copy of `tensor` in memory `scope` that the given reader tensors or operations read instead of it.

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s.cache_read(A, "local", [C])
        after: A.local in local[64]: (for ax0 in range(64): A_local[ax0] = A[ax0]; for i in range(64): C[i] =
            A_local[i] + 1.0)
        """
        return cache.cache_read(self, tensor, scope, readers if isinstance(readers, (list, tuple)) else [readers])

    @step
    def cache_write(self, tensors: Any, scope: str) -> Any:
        """The computation of `tensors` (one, or all outputs of an operation) done in memory `scope`, then copied out.
        Schedule the reduction on the tensor it returns. Data loops that were split, fused or reordered before are the
        axes of that tensor, in their order: its layout. The loops that copy are fresh ones.

        before: for i in range(4): (C[i] = 0.0; for k in range(16): C[i] = C[i] + A[i, k])
        call: s.cache_write(C, "local")
        after: C.local in local[4]: (for i.c in range(4): (C_local[i_c] = 0.0; for k in range(16): C_local[i_c]
            = C_local[i_c] + A[i_c, k]); for i in range(4): C[i] = C_local[i])
        """
        if isinstance(tensors, (list, tuple)):
            return list(cache.cache_write(self, tensors, scope))
        return cache.cache_write(self, [tensors], scope)[0]

    @step
    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """The reduction `tensor` in two: a new tensor with `axis` as a data axis, and `tensor` as its reduction.

        `axis` is a loop of the reduction, `factor_axis` its position among the dimensions of the new tensor (a list of
        tensors for a reduction of a tuple).

        before: for i in range(4): (C[i] = 0.0; for k in range(16): C[i] = C[i] + A[i, k])
        call: _, ki = s[C].split(k, factor=4); s.rfactor(C, ki)
        after: C.rf in global[4, 4]: (for k_inner in range(4): for i in range(4): (C_rf[k_inner, i] = 0.0; for
            k_outer in range(4): C_rf[k_inner, i] = C_rf[k_inner, i] + A[i, k_inner + k_outer * 4]); for i in
            range(4): (C[i] = 0.0; for k_inner.v in range(4): C[i] = C[i] + C_rf[k_inner_v, i]))
        """
        made = rfactor(self, tensor, axis, factor_axis)
        return made[0] if len(made) == 1 else made

    @step
    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Group:
        """The stages from `inputs` to `outputs`, to be placed together; with `include_inputs`, `inputs` are among them.

        before: B in global[16]: C in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16):
            C[i] = B[i] * 2.0; for i in range(16): D[i] = C[i] - 3.0)
        call: s.create_group([C], [A]).compute_at(s[D], i)
        after: for i in range(16): B in global[1]: C in global[1]: (B[0] = A[i] + 1.0; C[0] = B[0] * 2.0; D[i] =
            C[0] - 3.0)
        """
        return create_group(self, as_list(outputs), as_list(inputs), include_inputs)

    def axis_positions(self) -> dict[IterVar, Position]:
        """The source positions at which primitives made axes."""
        found: dict[IterVar, Position] = {}
        for one in self.steps:
            for made in as_list(one.result):
                if isinstance(made, IterVar) and one.position is not None:
                    found[made] = one.position
        return found

    def to_text(self) -> str:
        """The steps as a Python program over the schedule `s`, `te`, the graph's tensors and `intrinsics` by name."""
        return steps_to_text(self)

    def to_json(self) -> str:
        """The steps as JSON, for `te.load_schedule`."""
        return steps_to_json(self)

    def normalize(self, keep: Collection[Operation] = ()) -> Schedule:
        """A copy of this schedule as it is lowered: a stage for what is computed, and where.

        Inlined stages stand in their readers and are gone as stages, but for those of the operations `keep`, which are
        computed as well; the stages of a group are placed where it is, and
        what a scan updates or depends on its state is computed in its loop.
        """
        copy = object.__new__(Schedule)
        copy.outputs, copy.steps, copy.within_step = self.outputs, [], False
        kept = [stage for stage in self.stages if stage.attach_type == INLINE and stage.origin_op in keep]
        ops = inline(self.stages, kept)
        made = {stage: _copy_stage(copy, stage) for stage in self.stages if stage in ops}
        for stage, twin in made.items():
            twin.op = ops[stage]
            for prefetch in stage.prefetches:
                if self[prefetch.tensor].attach_type == INLINE:
                    raise ScheduleError(
                        f"prefetch of {prefetch.tensor.name} in stage {stage.name}: it is inlined and in no memory"
                    )
            around: list[Stage | Group] = [stage, *stage.groups]
            positions = [one for one in around if one.attach_type != ROOT]
            position = stage if stage.attach_type == INLINE or not positions else positions[0]
            stage_at = position.attach_stage
            if position is not stage:
                twin.attach_type, twin.attach_ivar = position.attach_type, position.attach_ivar
            if stage.attach_type == INLINE:
                twin.attach_type = ROOT
            if stage_at is not None:
                if stage_at not in made:
                    raise ScheduleError(f"compute_at of {stage.name}: {stage_at.name} is inlined and has no loops")
                twin.attach_stage = made[stage_at]
        copy.stages = _needed(list(made.values()))
        copy.stage_map = {op: made[stage] for op, stage in self.stage_map.items() if stage in made}
        copy.stage_map.update({stage.op: stage for stage in copy.stages})
        scans = [(stage, stage.op) for stage in copy.stages if isinstance(stage.op, ScanOp)]
        for stage, op in scans:
            _attach_first_steps(copy, stage, op)
        for stage, op in scans:
            _attach_body(copy, stage, op)
        for stage, op in scans:  # those that another scan has just placed
            _attach_first_steps(copy, stage, op)
        return copy

    def __repr__(self) -> str:
        return "Schedule of " + ", ".join(s.name for s in self.stages)


def _needed(stages: list[Stage]) -> list[Stage]:
    """`stages` without those placed in a loop that nothing reads: where inlining proved that it is never read, say."""
    read: set[Tensor] = set()
    kept: list[Stage] = []
    for stage in reversed(stages):
        if stage.attach_stage is None or not read.isdisjoint(stage.outputs):
            read.update(stage.op.input_tensors)
            kept.append(stage)
    return kept[::-1]


def as_list(value: Any) -> list[Any]:
    """The items of a list or tuple, or `value` alone."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def create_schedule(ops: Any) -> Schedule:
    """The default schedule of the operations (or tensors) `ops` and all they read: plain loops, stage after stage.

    Raises ScheduleError for none, and for what is neither.
    """
    given = as_list(ops)
    outputs = [item.op if isinstance(item, Tensor) else item for item in given]
    for op in outputs:
        if not isinstance(op, Operation):
            raise ScheduleError(f"create_schedule takes operations or tensors; got {op!r}")
    if not outputs:
        raise ScheduleError("create_schedule needs at least one output operation")
    return Schedule(outputs)


def load_schedule(ops: Any, text: str, intrinsics: Mapping[str, TensorIntrin] | None = None) -> Schedule:
    """The schedule of `ops` that `Schedule.to_json` wrote as `text`; `intrinsics` holds those it tensorizes with.

    Raises ScheduleError where it was not made for this graph.
    """
    schedule = create_schedule(ops)
    replay(schedule, text, intrinsics or {})
    return schedule


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


def _attach_body(schedule: Schedule, scan: Stage, op: ScanOp) -> None:
    """Attaches the updates of `scan`, and what reads its state, in its loop, unless they are attached to each other."""
    inside = set(op.states)
    for stage in schedule.stages[: schedule.stages.index(scan)]:
        if any(t in inside for t in stage.op.input_tensors) or any(t in op.update for t in stage.outputs):
            if stage.is_output:
                raise ScheduleError(f"{stage.name} exists within the scan {scan.name} only; it cannot be an output")
            inside.update(stage.outputs)
            if stage.attach_type == ROOT:
                stage.attach_type, stage.attach_stage, stage.attach_ivar = AT, scan, op.scan_axis


def _attach_first_steps(schedule: Schedule, scan: Stage, op: ScanOp) -> None:
    """Attaches what makes the first steps of `scan` alone beside it, in the loop that it is computed in, if any."""
    for first in op.init if scan.attach_stage is not None else ():
        source = schedule[first]
        readers = [s for s in schedule.stages if not set(s.op.input_tensors).isdisjoint(source.outputs)]
        if (
            isinstance(source.op, ComputeOp)
            and source.attach_type == ROOT
            and readers == [scan]
            and not source.is_output
        ):
            source.attach_type, source.attach_stage, source.attach_ivar = AT, scan.attach_stage, scan.attach_ivar


def _copy_stage(schedule: Schedule, stage: Stage) -> Stage:
    copy = object.__new__(Stage)
    for name in Stage.__slots__:
        setattr(copy, name, getattr(stage, name))
    copy.schedule = schedule
    copy.leaf_iter_vars = list(stage.leaf_iter_vars)
    copy.relations = list(stage.relations)
    copy.alignment = dict(stage.alignment)
    copy.prefetches = list(stage.prefetches)
    copy.attrs = {
        axis: AxisAttr(attr.kind, attr.thread, dict(attr.pragmas), attr.intrin) for axis, attr in stage.attrs.items()
    }
    return copy
