"""Recorded search spaces as tasks of today's compiler: measurements that cost models and explorers are tried on.

    replays = given_replays()                                  # ../shared/machines: Skylake-SP
    replays = own_replays("here.jsonl", layers=["C2"])         # what bench/autotvm/spaces.py has recorded

The given records were made by an older compiler: a task is built again from the shapes, and a configuration is the one
of today's space that has the same values, of knobs that were not there yet those that do what was done then (nothing is
fetched ahead) or cost least. Configurations that today's templates do not have are left out.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ranking import RECORDED, RECORDS

from tilewright import relay
from tilewright.autotvm.task.points import EnumeratedPoints
from tilewright.autotvm.task.task import INPUT, WEIGHT, KernelTask
from tilewright.errors import TilewrightError
from tilewright.records.file import read_records
from tilewright.relay.ir.expr import Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.target import Target

#: Fewer configurations say little of a ranking.
_FEWEST = 4

#: Windows of filtered convolutions by the points of one dimension: m, taps, stride.
_FILTERS = {4: (2, 3, 1), 5: (2, 3, 2), 6: (4, 3, 1), 9: (4, 3, 2)}


@dataclass(frozen=True, eq=False)
class Replay:
    """A task with measured points of its space, and their seconds; `model` is the network or layer it comes from."""

    model: str
    task: KernelTask
    points: tuple[int, ...]
    seconds: NDArray[np.float64]

    @property
    def best(self) -> float:
        """The least of the seconds."""
        return float(self.seconds.min())


def given_replays(path: Path = RECORDS, spelled: str = RECORDED) -> list[Replay]:
    """The tasks of a file of ../shared/machines that today's compiler has, each once."""
    tasks: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with gzip.open(path, "rt") as lines:
        for record in map(json.loads, lines):
            tasks.setdefault((record["model"], record["task"]), []).append(record)
    found, seen = [], set()
    for (model, name), records in tasks.items():
        shape = (records[0]["template"], *records[0]["inputs"], *records[0]["outputs"], str(records[0]["attrs"]))
        if shape in seen:
            continue
        seen.add(shape)
        try:
            task = _given_task(name, records[0], Target(spelled))
        except (TilewrightError, AssertionError):
            continue  # an operator that today's compiler has no such kernel of
        times: dict[int, float] = {}
        for record in records:
            point = _today(task, record["config"])
            if point is not None:
                taken = min(record["hot_us"], record["cold_us"]) * 1e-6
                times[point] = min(taken, times.get(point, taken))
        if len(times) >= _FEWEST:
            found.append(Replay(model, task, tuple(times), np.array(list(times.values()))))
    return found


def _today(task: KernelTask, config: Mapping[str, Any]) -> int | None:
    """The point of today's space that stands for a configuration of then."""
    assert isinstance(task.points, EnumeratedPoints)
    values = {name: int(value) for name, value in config.items()}
    ranked = task.points.space.ranked
    if not set(values) <= set(ranked[0][1]):
        return None
    same = [p for p, (_, c) in enumerate(ranked) if all(c[name] == value for name, value in values.items())]
    return min(same, key=lambda point: (ranked[point][1].to_json().get("ahead", 0), point), default=None)


def _shape(text: str) -> tuple[int, ...]:
    """(1, 3, 224, 224) of "Tensor p0: float32[1, 3, 224, 224]"."""
    return tuple(int(size) for size in re.findall(r"\d+", text[text.index("[") :]))


def _given_task(name: str, record: Mapping[str, Any], target: Target) -> KernelTask:
    """The kernel that a record is of."""
    inputs = [relay.var(f"p{i}", shape=_shape(text)) for i, text in enumerate(record["inputs"])]
    make = _dense if record["template"] == "dense_pack" else _winograd if "winograd" in name else _convolution
    value = _epilogue(name, make(record, inputs[0], inputs[1]), inputs[2:])
    function = infer_type(IRModule.from_expr(Function(inputs, value)))["main"]
    assert isinstance(function, Function)
    roles = [INPUT, WEIGHT, *[INPUT] * (len(inputs) - 2)]
    task = KernelTask(name, function.with_attr("Primitive", 1), target, roles)
    assert task.key.template == record["template"] and len(task.points) > 1
    return task


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _convolution(record: Mapping[str, Any], data: Expr, weight: Expr) -> Expr:
    shapes = [_shape(text) for text in (*record["inputs"][:2], record["outputs"][0])]
    attrs, (given, kernel, result) = record["attrs"], shapes
    blocks = [f"NCHW{shape[4]}c" if len(shape) == 5 else "NCHW" for shape in (given, result)]
    inner = {4: "", 5: f"{kernel[-1]}o"}.get(len(kernel), f"{kernel[-2]}i{kernel[-1]}o")
    channels = result[1] * (result[4] if len(result) == 5 else 1)
    window = {key: _numbers(attrs[key]) for key in ("strides", "padding", "dilation")}
    return relay.nn.conv2d(
        data, weight, **window, groups=attrs["groups"], channels=channels, kernel_size=kernel[2:4],
        data_layout=blocks[0], kernel_layout=f"OIHW{inner}", out_layout=blocks[1],
    )  # fmt: skip


def _winograd(record: Mapping[str, Any], data: Expr, weight: Expr) -> Expr:
    m, taps, stride = _FILTERS[_shape(record["inputs"][1])[1]]
    return relay.nn.contrib_conv2d_winograd_without_weight_transform(
        data, weight, tile_size=m, padding=_numbers(record["attrs"]["padding"]), kernel_size=(taps, taps),
        strides=(stride, stride), data_layout=f"NCHW{record['attrs']['ic_block']}c",
    )  # fmt: skip


def _dense(record: Mapping[str, Any], data: Expr, weight: Expr) -> Expr:
    shape = _shape(record["inputs"][1])
    return relay.nn.dense(
        data, weight, units=_shape(record["outputs"][0])[-1], weight_layout=f"NC{shape[2]}n"
    )  # fmt: skip


def _epilogue(name: str, value: Expr, others: Iterable[Expr]) -> Expr:
    """The operators after the anchor, by the kernel's name."""
    for other in others:
        value = relay.add(value, other)
    if "relu" in name:
        return relay.nn.relu(value)
    if "clip" in name:
        return relay.clip(value, 0.0, 6.0)
    if "erf" in name:
        half = relay.multiply(value, relay.const(np.float32(0.5)))
        return relay.multiply(half, relay.add(relay.erf(value), relay.const(np.float32(1.0))))
    if "sigmoid" in name:
        gate = relay.sigmoid(value)
        return relay.multiply(value, gate) if "multiply" in name else gate
    return value


def own_replays(path: Path, tasks: Iterable[tuple[str, KernelTask]]) -> list[Replay]:
    """The measured points of `tasks` in a file of records, as `spaces.py` writes it."""
    times: dict[Any, dict[str, float]] = {}
    for entry in read_records(path):
        if entry.seconds is not None:
            known = times.setdefault((entry.task, entry.processor), {})
            known.setdefault(entry.config_text, entry.seconds)
    found = []
    for model, task in tasks:
        known = times.pop((task.key, task.processor), {})
        points = {task.points.find(json.loads(text)): taken for text, taken in known.items()}
        points.pop(None, None)
        if len(points) >= _FEWEST:
            found.append(Replay(model, task, tuple(points), np.array(list(points.values()))))
    return found
