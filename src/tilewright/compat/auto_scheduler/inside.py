"""Questions about stages of states that programs ask of the search's inside."""

from __future__ import annotations

from typing import Any

from tilewright import te
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


def SearchPolicyUtilsIsTiled(state: Any, stage_id: int) -> bool:
    """True if loops of a stage were split."""
    return any(isinstance(relation, Split) for relation in state.replay.stages[stage_id].relations)
