"""Sketches by rules that programs write, and states of these with lengths and marks drawn at random.

    task = RuleTask(search_task, [rule], Random(0))     # asks each rule at every stage, from the last to the first
    task.sketches                                       # states whose splits may have lengths that are not known yet
    task.points                                         # some hundred of them, complete

At a stage that no rule takes, what is computed element by element for others is computed where it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tilewright import te
from tilewright.autotvm.sketch.task import ScheduledTask, arguments_of
from tilewright.autotvm.task.points import UnrestrictedPoints
from tilewright.compat.auto_scheduler.state import State
from tilewright.compat.auto_scheduler.steps import ANNOTATIONS, Step
from tilewright.errors import InputError, ScheduleError
from tilewright.records.entry import TaskKey, canonical
from tilewright.te.auto_inline import is_injective
from tilewright.te.itervar import IterType
from tilewright.te.operation import producer_loads
from tilewright.tir.stmt import ForKind, PrimFunc

#: What a rule answers: it leaves a stage to others, takes it, or takes it alone.
PASS, APPLY, APPLY_AND_SKIP_REST = 0, 1, 2

#: Complete states that are drawn, and the longest loop that is made one vector.
_DRAWN, _WIDEST = 192, 64

#: What lengths of loops are drawn from whose number of iterations is not known.
_OPEN_LENGTHS = (1, 2, 4, 8, 16)


class StatesTask(ScheduledTask):
    """The computation of `task` with states of it, each the `steps` that make it."""

    def __init__(self, task: Any, steps: Sequence[Sequence[Step]]) -> None:
        self.name, self.target, self.tensors = task.desc or "states", task.target, list(task.compute_dag.tensors)
        self.arguments = arguments_of(self.tensors, task.values)
        self.flops = self.flop = task.compute_dag.flop_ct
        self._steps = [list(one) for one in steps]
        self.key = TaskKey("states.v1", canonical({"workload": task.workload_key}))

    @property
    def points(self) -> StatePoints:
        return StatePoints(self._steps)

    def schedule(self, config: Mapping[str, Any]) -> te.Schedule:
        """The schedule of a state."""
        return State(self.tensors, config["steps"]).replay.schedule

    def lower_reference(self) -> PrimFunc:
        return self.lower({"steps": []})


class RuleTask(StatesTask):
    """With the states that `rules` make of it. Raises `InputError` where they make none."""

    def __init__(self, task: Any, policy: Any, rules: Sequence[Any], generator: Random) -> None:
        self.sketches = _sketches(task, policy, rules)
        names = ", ".join(rule.rule_name for rule in rules)
        if not self.sketches:
            raise InputError(f"the rules {names} make no state of {task.desc or task.workload_key}")
        drawn = [_completed(generator.choice(self.sketches), generator) for _ in range(_DRAWN)]
        super().__init__(task, list({str(steps): steps for steps in drawn if steps is not None}.values()))
        if not self._steps:
            raise InputError(f"no state of the rules {names} can be completed")


class StatePoints(UnrestrictedPoints):
    """States by their numbers."""

    def __init__(self, steps: Sequence[Sequence[Step]]) -> None:
        self._steps = list(steps)
        self.knobs = {"steps": len(self._steps)}

    def __len__(self) -> int:
        return len(self._steps)

    def config(self, point: int) -> dict[str, Any]:
        return {"steps": self._steps[point]}

    plain = config

    def find(self, config: Any) -> int | None:
        steps = config.get("steps") if isinstance(config, Mapping) else config
        return self._steps.index(steps) if steps in self._steps else None


def _sketches(task: Any, policy: Any, rules: Sequence[Any]) -> list[State]:
    """All that the rules make of the computation, from its last stage to its first."""
    first = task.compute_dag.get_init_state()
    open_ones, done = [(first, len(first.replay.stages) - 1)], []
    while open_ones:
        state, stage = open_ones.pop()
        if stage < 0:
            done.append(state)
            continue
        made: list[tuple[State, int]] = []
        for rule in rules:
            answer = int(rule.meet_condition_func(policy, state, stage))
            if answer != PASS:
                made += _pairs(rule.apply_func(policy, state, stage))
            if answer == APPLY_AND_SKIP_REST:
                break
        open_ones += made or [(_plain(state, stage), stage - 1)]
    return done


def _pairs(answer: Sequence[Any]) -> list[tuple[State, int]]:
    """The result of a rule: pairs of a state and the stage to go on with, or one such pair."""
    pairs = [answer] if answer and isinstance(answer[0], State) else answer
    return [(state, int(stage)) for state, stage in pairs]


def _plain(state: State, stage: int) -> State:
    """The state with a stage computed where it is read, if that is element by element and nobody's result."""
    found = state.replay.stages[stage]
    lengths = {
        load.producer.op
        for other in state.replay.stages
        for axis in other.op.reduce_axis
        if axis.dom is not None
        for load in producer_loads([axis.dom.min, axis.dom.extent])
    }
    if found.is_output or not is_injective(found.op) or found.op in lengths or found.attach_type != te.stage.ROOT:
        return state
    inlined = state.copy()
    inlined.compute_inline(stage)
    return inlined


# ------------------------------------------------------------------------------------------------ complete states
def _completed(sketch: State, generator: Random) -> list[Step] | None:
    """The steps of a sketch with drawn lengths, outer loops shared by workers and inner ones made vectors; None where
    a schedule refuses them."""
    state = State(sketch.replay.tensors)
    try:
        for step in sketch.transform_steps:
            state.replay.add(_filled(state, step, generator))
        for position, stage in enumerate(state.replay.stages):
            if isinstance(stage.op, te.ComputeOp) and stage.attach_type != te.stage.INLINE:
                _marked(state, position, generator)
    except ScheduleError:
        return None
    return state.transform_steps


def _filled(state: State, step: Step, generator: Random) -> Step:
    if step[0] != "SP" or None not in step[4]:
        return step
    kind, position, axis, _, lengths, *rest = step
    extent = state.replay.extent(position, state.replay.axes(position)[axis])
    left, drawn = extent, []
    for length in lengths:
        if length is None:
            choices = _OPEN_LENGTHS if left is None else [n for n in range(1, left + 1) if left % n == 0]
            length = generator.choice(choices)
        left = None if left is None else -(-left // length)
        drawn.append(length)
    return [kind, position, axis, extent, drawn, *rest]


def _marked(state: State, position: int, generator: Random) -> None:
    """Loops of a stage that stands by itself shared by workers, up to where others are computed; a vector within."""
    replay = state.replay
    stage, axes = replay.stages[position], replay.axes(position)
    if not axes or any(stage.attr(axis).kind is not ForKind.SERIAL for axis in axes):
        return
    users = [one.attach_ivar for one in replay.stages if one.attach_stage is stage]
    if stage.attach_type == te.stage.ROOT:
        data = next((i for i, axis in enumerate(axes) if axis.iter_type is not IterType.DATA_PAR), len(axes))
        last = min((axes.index(axis) + 1 for axis in users if axis in axes), default=max(1, data - 1))
        shared = min(generator.randint(1, max(1, last)), data)
        if shared > 1:
            replay.add(["FU", position, list(range(shared))])
        if shared:
            replay.add(["AN", position, 0, ANNOTATIONS["parallel"]])
    axes = replay.axes(position)
    inner = max((i for i, axis in enumerate(axes) if replay.extent(position, axis) != 1), default=0)
    extent = replay.extent(position, axes[inner])
    free = axes[inner].iter_type is IterType.DATA_PAR and stage.attr(axes[inner]).kind is ForKind.SERIAL
    if inner and free and axes[inner] not in users and extent is not None and 1 < extent <= _WIDEST:
        replay.add(["AN", position, inner, ANNOTATIONS["vectorize"]])
