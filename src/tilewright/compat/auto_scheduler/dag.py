"""`ComputeDAG`: a computation as the auto-scheduler sees it, and states of it as schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.template.count_flops import count_flops
from tilewright.compat.auto_scheduler.state import State
from tilewright.compat.auto_scheduler.workload import dag_key, register_workload_tensors, workload_key_to_tensors
from tilewright.errors import InputError


class LayoutRewriteOption:
    """The layouts that inputs may be stored in: the order in which a schedule reads them; networks' weights
    always are.
    """

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    REWRITE_FOR_PRE_TRANSFORMED = 2

    @staticmethod
    def get_target_default(target: Any, in_relay_integration: bool = False) -> int:
        """The default option."""
        return LayoutRewriteOption.NO_REWRITE


class ComputeDAG:
    """The computation of `compute`: its arguments as tensors, a registered workload's key, or a schedule's outputs."""

    def __init__(self, compute_or_sche: Any) -> None:
        if isinstance(compute_or_sche, str):
            self.tensors = workload_key_to_tensors(compute_or_sche)
        elif isinstance(compute_or_sche, te.Schedule):
            self.tensors = _arguments(compute_or_sche)
        else:
            self.tensors = list(compute_or_sche)
        computed = [t for t in self.tensors if isinstance(t, te.Tensor) and not isinstance(t.op, te.PlaceholderOp)]
        if not computed:
            raise InputError("a ComputeDAG takes the arguments of a computation, at least one of them computed by te")
        self._schedule = te.create_schedule([t.op for t in computed])
        self.flop_ct = count_flops(self._schedule)

    @property
    def ops(self) -> list[te.Operation]:
        """All operations, producers first."""
        return [stage.op for stage in self._schedule.stages]

    @property
    def init_state(self) -> State:
        """The computation without a schedule."""
        return self.get_init_state()

    def get_init_state(self) -> State:
        """The computation without a schedule."""
        return State(self.tensors)

    def apply_steps_from_state(
        self, state: State, layout_rewrite: int = LayoutRewriteOption.NO_REWRITE
    ) -> tuple[te.Schedule, list[te.Tensor]]:
        """A schedule of this computation by the steps of a state, and the arguments."""
        return State(self.tensors, state.transform_steps).replay.schedule, list(self.tensors)

    def infer_bound_from_state(self, state: State) -> State:
        """The state with the extents of all loops."""
        return (state if isinstance(state, State) else State(self.tensors, state.transform_steps)).bounded()

    def print_python_code_from_state(self, state: State) -> str:
        """The steps of a state as a Python program."""
        return State(self.tensors, state.transform_steps).replay.schedule.to_text()

    def workload_key(self) -> str:
        """The key of this computation; it is registered under it."""
        return register_workload_tensors(dag_key(self.tensors), self.tensors)

    def rewrite_layout_from_state(self, state: State) -> ComputeDAG:
        """This computation: inputs stay as they are."""
        return self

    def hash_key(self) -> str:
        """The key."""
        return dag_key(self.tensors)

    def __str__(self) -> str:
        lines = []
        for op in self.ops:
            shape = [[int(getattr(d, "value", -1)) for d in t.shape] for t in op.outputs]
            if isinstance(op, te.PlaceholderOp):
                lines.append(f"{op.name} = PLACEHOLDER {shape[0]}")
            elif isinstance(op, te.ComputeOp):
                indices = ", ".join(axis.name for axis in op.axis)
                lines += [f"{op.name}({indices}) = {body}" for body in op.body]
            else:
                lines.append(f"{op.name} = {type(op).__name__}")
        return "\n".join(lines) + "\n"

    def __reduce__(self) -> Any:
        return ComputeDAG, (self.workload_key(),)


def get_shape_from_rewritten_layout(rewritten_layout: str, axis_names: Sequence[str]) -> list[int]:
    """The sizes of axes by a layout text such as "4i2o16i": the product of the numbers before each name."""
    sizes = dict.fromkeys(axis_names, 1)
    number = ""
    for letter in rewritten_layout:
        if letter.isdigit():
            number += letter
        elif letter in sizes:
            sizes[letter] *= int(number or 1)
            number = ""
    return list(sizes.values())


def _arguments(schedule: te.Schedule) -> list[te.Tensor]:
    """The inputs and outputs of a schedule."""
    inputs = [stage.op.output(0) for stage in schedule.stages if isinstance(stage.op, te.PlaceholderOp)]
    return [*inputs, *(tensor for stage in schedule.stages if stage.is_output for tensor in stage.op.outputs)]
