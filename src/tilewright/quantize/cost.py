"""Costs of layers in float and in integers: seconds, bytes that kernels read and write, energy; and of whole models.

Kernels of compiled models are timed in turns, the least of several runs counts. A kernel belongs to the first product
among the layers whose nodes it computes; conversions have the names of the layers that they are for. Whole models are
timed by the processor time of their thread, with the first of them once more in each turn as a control.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tilewright.compile import compile
from tilewright.quantize.energy import joules
from tilewright.quantize.layers import Layer
from tilewright.relay.ir.expr import Constant, Function, GlobalVar, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op import qnn
from tilewright.runtime.model import Model

#: What a layer in integers may cost more, as the share of noise of a measurement; and seconds that no one measures.
_MARGIN, _NOISE_SECONDS = 1.1, 20e-6
_TURNS, _REPEAT = 3, 3
#: Seconds of one measurement of a whole model at least, and turns at most: they end once the least times of each
#: model are this near to each other, so many of them.
_MEASURED_SECONDS, _MOST_TURNS, _NEAR, _LEAST_NEAR = 1e-3, 80, 0.01, 4
#: The share of a run by which a control may excuse the model in integers at most.
_MOST_CONTROL = 0.02
#: Seconds of a whole run that the calls around it take, now more, now less.
_CALL_SECONDS = 5e-6
#: Elements of the tensor whose conversion is timed: the second cache holds them.
_CONVERTED = 1 << 16
#: Bytes that a conversion reads and writes for an element: a float and a code.
_CONVERTED_BYTES = 5


@dataclass(frozen=True)
class Cost:
    """The cost of a layer or a model."""

    seconds: float = 0.0
    nbytes: int = 0
    joules: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.nbytes + other.nbytes, self.joules + other.joules)

    def by(self, objective: str) -> float:
        """Its number for one of `OBJECTIVES`."""
        return {"time": self.seconds, "memory": float(self.nbytes), "energy": self.joules}[objective]

    def text(self) -> str:
        """For a person."""
        return f"{self.seconds * 1e3:.3f} ms, {self.nbytes / 1e6:.2f} MB read and written, {self.joules * 1e3:.3f} mJ"


@dataclass(frozen=True)
class Point:
    """A model with `in_float` of its layers in float, those that lose most: its loss, and its cost by its layers."""

    in_float: int
    loss: float
    cost: Cost


@dataclass(frozen=True)
class Whole:
    """Two models as a whole, in seconds: float, integers, and by how much the float model differed from itself.

    Both are the least of equally many runs: the least of more is less, without any difference.
    """

    exact: float
    integer: float
    control: float

    @property
    def slower(self) -> bool:
        """True if integers take more time than can be the measurement; one that is bad is no excuse."""
        return self.integer - self.exact > min(self.control, _MOST_CONTROL * self.exact) + _CALL_SECONDS

    def text(self) -> str:
        """For a person."""
        return f"the model takes {self.integer * 1e3:.3f} ms, in float {self.exact * 1e3:.3f} ms"


OBJECTIVES = ("time", "memory", "energy")
_UNITS = {"time": (1e6, "us"), "memory": (1e-3, "kB"), "energy": (1e6, "uJ")}


def costs(
    models: Sequence[Model], inputs: Mapping[str, Any], layers: Sequence[Layer], integers: Sequence[Collection[str]]
) -> list[dict[str, Cost]]:
    """The cost of each layer, by name, in each of `models`, whose layers `integers` are so; "" has the rest."""
    order = [*(layer.name for layer in layers if layer.channels), *(layer.name for layer in layers)]
    names = list(dict.fromkeys(order))
    rows: list[list[Any]] = [[] for _ in models]
    for _ in range(_TURNS):
        for number, model in enumerate(models):
            given = {spec.name: inputs[spec.name] for spec in model.inputs}
            rows[number].append(model.profile(given, repeat=_REPEAT))
    found: list[dict[str, Cost]] = []
    for turns, whole in zip(rows, integers, strict=True):
        made: dict[str, Cost] = {}
        for kernel in zip(*turns, strict=True):
            source = set(re.split(r"[;,]\s*", kernel[0].source))
            name = next((one for one in names if one.partition("#")[0] in source), "")
            energy = joules(kernel[0].flops / 2, "int8" if name in whole else "float32", kernel[0].nbytes)
            cost = Cost(min(turn.seconds for turn in kernel), kernel[0].nbytes, energy)
            made[name] = made.get(name, Cost()) + cost
        found.append(made)
    return found


def whole(exact: Model, integer: Model, inputs: Mapping[str, Any]) -> Whole:
    """The time of two models in turns: processor time for one thread, time that passes for several."""
    order = (exact, integer, exact)
    clock = time.thread_time if max(model.threads for model in order) == 1 else time.perf_counter
    given = [{spec.name: inputs[spec.name] for spec in model.inputs} for model in order]
    counts = [0] * len(order)
    for number, model in enumerate(order):
        model.run(given[number])
        start = clock()
        model.run(given[number])
        counts[number] = 1 + int(_MEASURED_SECONDS / max(clock() - start, 1e-6))
    times: list[list[float]] = [[] for _ in order]
    for _ in range(_MOST_TURNS):
        for number, model in enumerate(order):
            start = clock()
            for _ in range(counts[number]):
                model.run(given[number])
            times[number].append((clock() - start) / counts[number])
        if all(sum(one <= min(own) * (1 + _NEAR) for one in own) >= _LEAST_NEAR for own in times):
            break
    first, ours, again = (min(own) for own in times)
    return Whole(max(first, again), ours, abs(first - again))


def conversion(elements: int, objective: str) -> float:
    """The cost of a tensor's conversion between floats and codes, as `Cost.by` counts it."""
    if objective == "time":
        return _conversion_seconds() * elements
    nbytes = _CONVERTED_BYTES * elements
    return float(nbytes) if objective == "memory" else joules(0.0, "int8", nbytes)


@cache
def _conversion_seconds() -> float:
    """Seconds of one element, on this machine and one thread."""
    x = Var("x", TensorType((_CONVERTED,), "float32"))
    scale, zero = Constant(np.float32(0.02)), Constant(np.int32(128))
    func = Function([x], qnn.quantize(x, scale, zero, out_dtype="uint8"))
    model = compile(infer_type(IRModule({GlobalVar("main"): func})), threads=1)
    rows = model.profile({"x": np.zeros(_CONVERTED, np.float32)}, repeat=_TURNS * _REPEAT)
    return sum(row.seconds for row in rows) / _CONVERTED


def least(one: Mapping[str, Cost], other: Mapping[str, Cost]) -> dict[str, Cost]:
    """Two measurements of the same kernels as one."""
    return {name: min(cost, other[name], key=lambda found: found.seconds) for name, cost in one.items()}


def total(parts: Mapping[str, Cost]) -> Cost:
    """The cost of the whole model."""
    return sum(parts.values(), Cost())


def why_costlier(integer: Cost, exact: Cost, objective: str) -> str:
    """The reason to leave a layer in float; "" if integers cost less, or so little that it cannot be measured.

    A sum that the kernel of a product computes costs nothing by itself in float, and has none.
    """
    ours, theirs = integer.by(objective), exact.by(objective)
    if not theirs or ours <= theirs * _MARGIN or (objective == "time" and ours - theirs < _NOISE_SECONDS):
        return ""
    return beside(integer, exact, objective)


def beside(integer: Cost, exact: Cost, objective: str) -> str:
    """Two costs of one layer for a person."""
    ours, theirs = (cost_text(cost.by(objective), objective) for cost in (integer, exact))
    return f"in integers it costs {ours}, in float {theirs}"


def cost_text(cost: float, objective: str) -> str:
    """A cost as `Cost.by` counts it, for a person."""
    scale, unit = _UNITS[objective]
    return f"{cost * scale:.0f} {unit}"
