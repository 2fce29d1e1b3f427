"""A tuning task: a computation with a search space, any configuration of which it lowers to the loop IR."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.autotvm.task.points import EnumeratedPoints, Points
from tilewright.backend import backend_of
from tilewright.backend.lower import to_compute
from tilewright.driver.apply_records import task_key_of
from tilewright.driver.lower import loops_of, lower_function, schedule_choice, search_space
from tilewright.records.database import processor_of
from tilewright.records.entry import TaskKey
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.target import Target
from tilewright.tir.op import as_const
from tilewright.tir.stmt import PrimFunc

#: What an argument of a kernel is: the result of another kernel, what stays the same from run to run, its result.
INPUT, WEIGHT, OUTPUT = "input", "weight", "output"


@dataclass(frozen=True)
class Argument:
    """One array that a kernel takes, and its `role`: `INPUT`, `WEIGHT` or `OUTPUT`. `values` are what it is measured
    with, None: random ones."""

    shape: tuple[int, ...]
    dtype: str
    role: str
    values: Any = field(default=None, repr=False, compare=False)


class Task(ABC):
    """A computation to tune. `flops` are the operations of one call, 0 if unknown.

    `begin_seconds` is the time to choose the first configurations, 0 if negligible.
    """

    name: str
    target: Target
    key: TaskKey
    arguments: tuple[Argument, ...]
    flops: float = 0.0
    begin_seconds: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        """The state without the search space, which processes that lower configurations do not need."""
        left_behind = ("points", "default", "roofline")
        return {name: value for name, value in self.__dict__.items() if name not in left_behind}

    @property
    def processor(self) -> str:
        """The processor that it is tuned for, by its name in records."""
        return processor_of(self.target)

    @property
    @abstractmethod
    def points(self) -> Points:
        """The search space."""

    @property
    @abstractmethod
    def default(self) -> int | None:
        """The point that is used without tuning; None if there is none."""

    @property
    def roofline(self) -> float:
        """A lower bound of the time in seconds: the arithmetic alone on all cores; 0 if unknown."""
        machine = self.target.machine if self.target.is_processor else None
        return self.flops / (machine.peak_gflops * machine.cores * 1e9) if machine is not None else 0.0

    @abstractmethod
    def lower(self, config: Any) -> PrimFunc:
        """The loop IR of a configuration. Raises a `UserError` for an invalid one."""

    @abstractmethod
    def loops(self, config: Any) -> PrimFunc:
        """The loops of its schedule before lowering, from which features are computed."""

    @abstractmethod
    def lower_reference(self) -> PrimFunc:
        """The function whose results those of all configurations are compared with."""


class KernelTask(Task):
    """A fused function of a network, by the template that the compiler itself schedules it by.

    `calls` is how often one run of the network calls it.
    """

    def __init__(
        self, name: str, function: Function, target: Target, roles: Sequence[str], calls: int = 1, flops: float = 0.0
    ) -> None:
        key = task_key_of(function, target)
        assert key is not None, f"{name} has no search space"
        self.name, self.function, self.target, self.key = name, function, target, key
        self.calls, self.flops = calls, flops
        compute = to_compute(function)
        tensors = [*compute.inputs, *compute.outputs]
        roles = [*roles, *[OUTPUT] * len(compute.outputs)]
        self.arguments = tuple(
            Argument(tuple(int(as_const(extent) or 0) for extent in tensor.shape), str(tensor.dtype), role)
            for tensor, role in zip(tensors, roles, strict=True)
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.function = infer_type(IRModule.from_expr(self.function))["main"]  # types are not pickled

    @functools.cached_property
    def points(self) -> Points:
        space = search_space(self.function, self.target)
        assert space is not None
        return EnumeratedPoints(space, backend_of(self.target).seconds)

    @functools.cached_property
    def default(self) -> int | None:
        return self.points.find(dict(schedule_choice(self.function, self.target).config))

    @functools.cached_property
    def roofline(self) -> float:
        """The least time of any configuration if its scarcest resource hides all others.

        Operations of the definition are no bound: Winograd convolution has fewer.
        """
        if not self.target.is_processor:  # the figures are of a GPU like it, which says little of this one
            return 0.0
        assert isinstance(self.points, EnumeratedPoints)
        least = min(max(cost.spent.values()) for cost, _ in self.points.space.ranked)
        return float(self.target.machine.seconds(least))

    def lower(self, config: Any) -> PrimFunc:
        return lower_function(self.function, "kernel", self.target, dict(config))

    def loops(self, config: Any) -> PrimFunc:
        return loops_of(self.function, self.target, dict(config))

    def lower_reference(self) -> PrimFunc:
        return lower_function(self.function, "kernel", self.target)
