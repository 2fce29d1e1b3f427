"""Questions about stages of states that programs ask of the search's inside."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.compat.ir.containers import Map
from tilewright.te.loop_relation import Split


def _named(state: Any, stage: int, suffix: str) -> bool:
    name = state.replay.stages[stage].op.name
    return any(other.op.name.startswith(f"{name}.{suffix}") for other in state.replay.stages)


def SearchPolicyUtilsHasCacheReadStage(state: Any, stage_id: int) -> bool:
    """True if what a stage makes is read from a copy."""
    steps = state.transform_steps
    return any(step[0] == "CHR" and step[1] == stage_id for step in steps)


def SearchPolicyUtilsHasCacheWriteStage(state: Any, stage_id: int) -> bool:
    """True if a stage is computed in memory of its own, then copied."""
    return any(step[0] == "CHW" for step in state.transform_steps) and (
        _named(state, stage_id, "local") or _named(state, stage_id, "global")
    )


def SearchPolicyUtilsHasRfactorStage(state: Any, stage_id: int) -> bool:
    """True if a stage reduces partial results."""
    return _named(state, stage_id, "rf")


def SearchPolicyUtilsHasCrossThreadReduction(state: Any, stage_id: int) -> bool:
    """True if a reduction's loop is bound to threads."""
    stage = state.replay.stages[stage_id]
    return any(axis.iter_type is te.IterType.REDUCE and stage.attr(axis).thread for axis in stage.leaf_iter_vars)


def SearchPolicyUtilsGetConsumers(task: Any, state: Any, stage_id: int) -> Map:
    """The stages that read a stage, by number; those computed where they are read stand for what reads them."""
    stages = state.replay.stages
    found: dict[int, Any] = {}
    for number, reader in enumerate(stages):
        if any(tensor.op is stages[stage_id].op for tensor in reader.op.input_tensors):
            inlined = reader.attach_type == te.stage.INLINE
            found |= SearchPolicyUtilsGetConsumers(task, state, number) if inlined else {number: number}
    return Map(found)


def SearchPolicyUtilsIsElementwiseMatch(task: Any, state: Any, stage_id: int, target_stage_id: int) -> bool:
    """True if an element of a stage is needed for that at the same position of another alone, and both have one
    shape.
    """
    stages = state.replay.stages
    while stage_id != target_stage_id:
        source = stages[stage_id].op
        readers = [n for n, one in enumerate(stages) if any(t.op is source for t in one.op.input_tensors)]
        if len(readers) != 1 or not isinstance(stages[readers[0]].op, te.ComputeOp):
            return False
        reader = stages[readers[0]].op
        own = [axis.var for axis in reader.axis]
        in_place = all(list(indices) == own for tensor, indices in reader.reads() if tensor.op is source)
        if reader.is_reduction or not in_place or list(reader.output(0).shape) != list(source.output(0).shape):
            return False
        (stage_id,) = readers
    return True


def SearchPolicyUtilsIsTiled(state: Any, stage_id: int) -> bool:
    """True if loops of a stage were split."""
    return any(isinstance(relation, Split) for relation in state.replay.stages[stage_id].relations)
