"""Tasks for the tests: small, quick to build, and one whose configurations go wrong in every way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tilewright import relay, te, tir
from tilewright.autotvm.network.compare import Comparison, Interval
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.points import EnumeratedPoints, Points
from tilewright.autotvm.task.task import INPUT, OUTPUT, Argument, KernelTask, Task
from tilewright.errors import ScheduleError
from tilewright.records.entry import TaskKey, canonical
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace


def conv_module(channels: int = 32, size: int = 14, filters: int = 32) -> relay.IRModule:
    """A 1x1 convolution with ReLU."""
    x = relay.var("x", shape=(1, channels, size, size))
    weight = relay.const(np.random.default_rng(0).standard_normal((filters, channels, 1, 1)).astype("float32"))
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.conv2d(x, weight))))


def conv_task() -> KernelTask:
    """The task of that module."""
    (task,) = extract_from_program(conv_module())
    return task


def outcome(first: float, second: float) -> Comparison:
    """A comparison of two networks that take so many seconds, on a machine that disturbs nothing."""
    gain = first / second
    return Comparison(first, second, Interval(gain, gain, gain), Interval(1.0, 1.0, 1.0))


class OddTask(Task):
    """`ELEMENTS` numbers doubled; `BEHAVIOURS` are what its configurations do instead, by number."""

    ELEMENTS = 64
    BEHAVIOURS = ("well", "again", "wrong", "unbuildable", "crash", "hang", "slow build", "greedy")

    def __init__(self, name: str = "odd") -> None:
        self.name, self.target = name, Target("cpu -cores=1")
        self.key = TaskKey(name, canonical({"elements": self.ELEMENTS}))
        self.arguments = (Argument((self.ELEMENTS,), "float32", INPUT), Argument((self.ELEMENTS,), "float32", OUTPUT))
        self.flops = float(self.ELEMENTS)

    @cached_property
    def points(self) -> Points:
        space = ConfigSpace()
        space.define_knob("behaviour", range(len(self.BEHAVIOURS)))
        space.rank_by(lambda config: Cost(arithmetic=1000.0 + config["behaviour"]))
        return EnumeratedPoints(space, self.target.machine.seconds)

    @property
    def default(self) -> int | None:
        return 0

    def lower_reference(self) -> PrimFunc:
        return self._function("well")

    def lower(self, config: Mapping[str, Any]) -> PrimFunc:
        return self._function(self.BEHAVIOURS[config["behaviour"]])

    def loops(self, config: Mapping[str, Any]) -> PrimFunc:
        return self.lower(config)

    def _function(self, behaviour: str) -> PrimFunc:
        if behaviour == "unbuildable":
            raise ScheduleError("no such tile")
        if behaviour == "greedy":
            bytearray(1 << 36)
        while behaviour == "slow build":
            pass
        x = te.placeholder((self.ELEMENTS,), "float32", "x")
        y = te.extern((self.ELEMENTS,), [x], lambda ins, outs: _body(behaviour, ins[0], outs[0]), dtype="float32")
        *_, (_, func) = te.lower_stages(te.create_schedule(y.op), [x, y], "kernel", target=self.target)
        return func


def _body(behaviour: str, x: Any, y: Any) -> Any:
    ib = tir.ir_builder.create()
    source, result = ib.buffer_ptr(x), ib.buffer_ptr(y)
    with ib.for_range(0, OddTask.ELEMENTS, name="i") as i:
        result[i] = source[i] * (3.0 if behaviour == "wrong" else 2.0)
    if behaviour == "hang":
        with ib.for_range(0, 1 << 30, name="a"), ib.for_range(0, 1 << 30, name="b"):
            result[0] = result[0] + source[0]
    if behaviour == "crash":
        with ib.for_range(0, 4096, name="j") as j:
            result[j * (1 << 18)] = 1.0
    return ib.get()
