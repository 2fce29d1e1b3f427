"""Loop states: a computation with the steps that were done to it, made by programs and found by searches.

state = ComputeDAG([A, B, C]).get_init_state()
outer, inner = state.split(C, state[C].iters[0], [16])
state.parallel(C, outer)
print(state)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te
from tilewright.compat.auto_scheduler.steps import ANNOTATIONS, Replay, Step
from tilewright.errors import ScheduleError
from tilewright.te.bounds import infer_bounds
from tilewright.tir.arith.range import Range
from tilewright.tir.op import as_const, const
from tilewright.tir.stmt import ForKind

#: The annotation of each kind of loop that has one.
_KINDS = {ForKind.PARALLEL: "parallel", ForKind.VECTORIZED: "vectorize", ForKind.UNROLLED: "unroll"}


@dataclass(frozen=True)
class Iterator_:
    """A loop of a stage: its `name`, its `range` where the computation alone tells it, and the number of its
    annotation (`State.ANNOTATION_TRANS_TABLE`)."""

    axis: te.IterVar
    extent: int | None
    annotation: int = 0

    @property
    def name(self) -> str:
        """The name of the stage."""
        return self.axis.name

    @property
    def range(self) -> Range | None:
        """From 0 to its extent."""
        return None if self.extent is None else Range(const(0), const(self.extent))

    def __str__(self) -> str:
        return f"{self.name}(0,{self.extent})"


class Stage:
    """A stage of a state: its operation, its loops, outermost first, and by number where it is computed."""

    COMPUTE_AT_TRANS_TABLE: Mapping[str, int] = {"root": 0, "inlined": 1, "iter": 2}

    def __init__(self, op: te.Operation, iters: Sequence[Iterator_], compute_at: int = 0) -> None:
        self.op, self.iters, self.compute_at = op, list(iters), compute_at


class State:
    """A schedule in the making. Stages are named by number, tensor or operation, loops by `Iterator`s."""

    ANNOTATION_TRANS_TABLE: Mapping[str, int] = ANNOTATIONS

    def __init__(self, state_object: Sequence[te.Tensor] | State, dag: Any = ()) -> None:
        """A copy of a state (of a computation), or the state of the tensors of a computation after the steps `dag`."""
        tensors: Any = state_object.replay.tensors if isinstance(state_object, State) else state_object
        self.replay: Replay = Replay(tensors)
        for step in state_object.transform_steps if isinstance(state_object, State) else dag:
            self.replay.add(step)
        self._same_stage: dict[te.Operation, te.Stage] = {}
        self._same_loop: dict[te.IterVar, te.IterVar] = {}
        self._extents: dict[te.IterVar, int] = {}
        if isinstance(state_object, State):
            self._know(state_object)

    def _know(self, other: State) -> None:
        """Take stages and loops of a state of the same steps for those of this one, as copies are asked about them."""
        for theirs, own in zip(other.replay.stages, self.replay.stages, strict=True):
            self._same_stage[theirs.op] = own
            self._same_loop |= dict(zip(theirs.leaf_iter_vars, own.leaf_iter_vars, strict=True))
        positions = {stage: position for position, stage in enumerate(other.replay.stages)}
        known = other.replay.schedule.stage_map | other._same_stage
        self._same_stage |= {op: self.replay.stages[positions[at]] for op, at in known.items() if at in positions}
        for loop, same in other._same_loop.items():
            self._same_loop[loop] = self._same_loop.get(same, same)

    def bounded(self) -> State:
        """The state with the extents of all loops, those of stages computed within others as well."""
        found = self.copy()
        for bounds in infer_bounds(found.replay.schedule.normalize()).stages.values():
            for axis, extent in bounds.extents.items():
                number = as_const(extent)
                found._extents |= {} if number is None else {axis: int(number)}
        return found

    @property
    def state_object(self) -> State:
        """The state, by which the classic stack names what it is made of."""
        return self

    @property
    def transform_steps(self) -> list[Step]:
        """The steps taken so far."""
        return self.replay.steps

    @property
    def stages(self) -> list[Stage]:
        """All stages in the order of the computation, inputs too."""
        positions = {te.stage.ROOT: "root", te.stage.INLINE: "inlined", te.stage.AT: "iter"}
        return [
            Stage(
                stage.op,
                [self._iterator(i, axis) for axis in self.replay.axes(i)],
                Stage.COMPUTE_AT_TRANS_TABLE[positions[stage.attach_type]],
            )
            for i, stage in enumerate(self.replay.stages)
        ]

    def _iterator(self, position: int, axis: te.IterVar) -> Iterator_:
        """A loop of the stage at a position."""
        stage = self.replay.stages[position]
        attr = stage.attr(axis)
        name = _KINDS.get(attr.kind, "none") if attr.thread is None else attr.thread.thread_tag
        extent = self._extents.get(axis, self.replay.extent(position, axis))
        return Iterator_(axis, extent, ANNOTATIONS.get(name, 0))

    @property
    def stage_ops(self) -> list[te.Operation]:
        """The operation of each stage."""
        return [stage.op for stage in self.replay.stages]

    def copy(self) -> State:
        """The same state, to be changed by itself."""
        return State(self)

    def __getitem__(self, key: Any) -> Stage:
        return self.stages[self._stage(key)]

    # ---------------------------------------------------------------------------------------------------- steps
    def split(
        self, stage: Any, iterator: Any, lengths: Sequence[int | None], inner_to_outer: bool = True
    ) -> list[Iterator_]:
        """Split a loop into one more than there are lengths; those that a search is to choose are None."""
        position, axis = self._at(stage, iterator)
        extent = self.replay.extent(position, self.replay.axes(position)[axis])
        return self._made(position, ["SP", position, axis, extent, list(lengths), int(inner_to_outer)])

    def follow_split(self, stage: Any, iterator: Any, src_step_id: int, n_split: int) -> list[Iterator_]:
        """Split as an earlier step did, into `n_split` lengths."""
        position, axis = self._at(stage, iterator)
        return self._made(position, ["FSP", position, axis, src_step_id, n_split])

    def follow_fused_split(
        self, stage: Any, iterator: Any, src_step_ids: Sequence[int], level: int, factor_or_nparts: bool
    ) -> list[Iterator_]:
        """Split by the product of what earlier steps have at a level."""
        position, axis = self._at(stage, iterator)
        return self._made(position, ["FFSP", position, axis, list(src_step_ids), level, int(factor_or_nparts)])

    def fuse(self, stage: Any, iters: Sequence[Any]) -> Iterator_:
        """Make neighbouring loops one."""
        position = self._stage(stage)
        return self._made(position, ["FU", position, [self._axis(position, one) for one in iters]])

    def reorder(self, stage: Any, order: Sequence[Any]) -> None:
        """Put all loops into another order."""
        position = self._stage(stage)
        self.replay.add(["RE", position, [self._axis(position, one) for one in order]])

    def parallel(self, stage: Any, iterator: Any) -> Iterator_:
        """Have workers share a loop."""
        return self._annotated(stage, iterator, "parallel")

    def vectorize(self, stage: Any, iterator: Any) -> Iterator_:
        """Make a loop one vector."""
        return self._annotated(stage, iterator, "vectorize")

    def unroll(self, stage: Any, iterator: Any, max_unroll: int | None = None) -> Iterator_:
        """Unroll a loop, unless it has more than `max_unroll` iterations."""
        position, axis = self._at(stage, iterator)
        extent = self.replay.extent(position, self.replay.axes(position)[axis])
        if max_unroll is not None and extent is not None and extent > max_unroll:
            return self.stages[position].iters[axis]
        return self._annotated(stage, iterator, "unroll")

    def bind(self, stage: Any, iterator: Any, thread_name: str) -> Iterator_:
        """Bind a loop to an index of a thread."""
        if thread_name not in ANNOTATIONS:
            raise ScheduleError(
                f"bind: there is no thread {thread_name!r}; there are: {', '.join(list(ANNOTATIONS)[4:])}"
            )
        return self._annotated(stage, iterator, thread_name)

    def pragma(self, stage: Any, iterator: Any, pragma_type: str) -> None:
        """A hint, such as "auto_unroll_max_step$64"."""
        position, axis = self._at(stage, iterator)
        self.replay.add(["PR", position, axis, pragma_type])

    def storage_align(self, stage: Any, iterator: Any, factor: int, offset: int) -> None:
        """Align what lies along a loop."""
        position, axis = self._at(stage, iterator)
        self.replay.add(["SA", position, axis, factor, offset])

    def compute_at(self, stage: Any, target_stage: Any, target_iter: Any) -> None:
        """Compute a stage within a loop of another."""
        target, axis = self._at(target_stage, target_iter)
        self.replay.add(["CA", self._stage(stage), target, axis])

    def compute_inline(self, stage: Any) -> None:
        """Compute a stage wherever it is read."""
        self.replay.add(["CI", self._stage(stage)])

    def compute_root(self, stage: Any) -> None:
        """Compute a stage by itself."""
        self.replay.add(["CR", self._stage(stage)])

    def cache_write(self, stage: Any, scope_name: str) -> te.Tensor:
        """Compute a stage into memory of another scope; the tensor there."""
        position = self.replay.add(["CHW", self._stage(stage), scope_name])
        return self.replay.stages[position].op.output(0)

    def cache_read(self, stage: Any, scope_name: str, reader_stages: Sequence[Any]) -> te.Tensor:
        """Have readers read a stage from a copy; the copy."""
        step = ["CHR", self._stage(stage), scope_name, [self._stage(one) for one in reader_stages]]
        made = self.replay.add(step)
        return self.replay.stages[made].op.output(0)

    def rfactor(self, stage: Any, iterator: Any, factor_iter_id: int) -> te.Tensor:
        """Reduce in two steps; the tensor of partial results."""
        position, axis = self._at(stage, iterator)
        made = self.replay.add(["RF", position, axis, factor_iter_id])
        return self.replay.stages[made].op.output(0)

    # ----------------------------------------------------------------------------------------------------- names
    def _annotated(self, stage: Any, iterator: Any, name: str) -> Iterator_:
        position, axis = self._at(stage, iterator)
        return self._made(position, ["AN", position, axis, ANNOTATIONS[name]])

    def _made(self, position: int, step: Step) -> Any:
        made = self.replay.add(step)
        if isinstance(made, te.IterVar):
            return self._iterator(position, made)
        return [self._iterator(position, axis) for axis in made]

    def _stage(self, key: Any) -> int:
        if isinstance(key, int):
            return key
        op = key.op if isinstance(key, te.Tensor | Stage) else key
        names = [stage.op.name for stage in self.replay.stages]
        wanted = self.replay.schedule.stage_map.get(op) or self._same_stage.get(op)
        for position, stage in enumerate(self.replay.stages):
            if stage.op is op or wanted is stage:
                return position
        raise ScheduleError(f"{getattr(op, 'name', key)!r} is no stage of this state; there are: {', '.join(names)}")

    def _axis(self, position: int, iterator: Any) -> int:
        axes = self.replay.axes(position)
        wanted = iterator.axis if isinstance(iterator, Iterator_) else iterator
        if isinstance(wanted, int):
            return wanted
        wanted = wanted if wanted in axes else self._same_loop.get(wanted, wanted)
        if wanted not in axes:
            names = ", ".join(axis.name for axis in axes)
            raise ScheduleError(
                f"{wanted} is no loop of {self.replay.stages[position].op.name}; its loops are: {names}"
            )
        return axes.index(wanted)

    def _at(self, stage: Any, iterator: Any) -> tuple[int, int]:
        position = self._stage(stage)
        return position, self._axis(position, iterator)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.transform_steps == other.transform_steps

    def __hash__(self) -> int:
        return hash(str(self.transform_steps))

    def __str__(self) -> str:
        inputs = [s.op.name for s in self.replay.stages if isinstance(s.op, te.PlaceholderOp)]
        loops = te.schedule_to_tir(self.replay.schedule, self.replay.tensors, "main")
        return f"Placeholder: {', '.join(inputs)}\n{loops}"


StateObject = State
Iterator = Iterator_
