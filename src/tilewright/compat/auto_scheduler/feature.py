"""Features of states for cost models: a row of named features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright import te
from tilewright.autotvm.feature.loops import LOOP_FEATURES, loop_features


def get_per_store_feature_names(max_n_bufs: int | None = None) -> list[str]:
    """The names of the features of a state."""
    return list(LOOP_FEATURES)


def get_per_store_features_from_states(
    states: Sequence[Any], task: Any, max_n_bufs: int | None = None
) -> list[NDArray[np.float32]]:
    """For each state a matrix of one row: the whole, and the two statements that work most."""
    found = []
    for state in states:
        schedule, tensors = task.compute_dag.apply_steps_from_state(state)
        func = te.schedule_to_tir(schedule, tensors, "kernel")
        found.append(loop_features(func, task.target.machine).row[None])
    return found
