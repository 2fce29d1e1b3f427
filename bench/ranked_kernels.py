"""Times of samples of the search spaces of networks' kernels: made first, at leisure, then measured in quiet portions.

    make(names, networks, kernels, 10, known)      # object code and a description of each task, below `kernels`
    measure_all(kernels, known, 0.05, portion=190) # {task: {"name", "template", "microseconds": {configuration: ...}}}

A task is what templates choose by, so kernels that several networks share are measured once. Of each the configuration
that the compiler chooses is measured, others at ranks that lie apart by equal ratios, so most near the first, and the
fastest two of the times before, all in turns. Where costs have changed since, `make` finds which tasks have a choice
that was not measured, and these get another sample.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from networks import model_file

from tilewright.autotvm.task.extract import extract_from_program
from tilewright.autotvm.task.task import KernelTask
from tilewright.backend import backend_of
from tilewright.cli.timing import TIMED_CALLS
from tilewright.driver.lower import lower_function, schedule_choice
from tilewright.frontend.formats.import_model import import_model
from tilewright.runtime.module import Module, Prepared
from tilewright.support.dtype import DType
from tilewright.target import Target

#: What is known of the tasks, by their keys as text.
Known = dict[str, dict[str, Any]]

#: What kernels are made for: one thread of this machine.
ONE_CORE = "cpu -cores=1"

#: Rounds of calls in turns, at least, and at most.
_FEWEST, _MOST = 5, 1000

#: Of the configurations that were measured before, the fastest so many are measured again.
_KEPT = 2


def make(names: Iterable[str], networks: Path, kernels: Path, sample: int, known: Known) -> None:
    """Object code for a sample of each task of networks, where that in `kernels` lacks the compiler's choice."""
    kernels.mkdir(parents=True, exist_ok=True)
    target = Target(ONE_CORE)
    for name in names:
        _leave(name, kernels)
        path, shapes = model_file(name, networks)
        for task in extract_from_program(import_model(str(path), shapes), target):
            key = json.dumps(task.key.to_json(), sort_keys=True)
            _make(task, key, name, kernels / hashlib.sha256(key.encode()).hexdigest()[:16], sample, known.get(key, {}))


def _leave(network: str, kernels: Path) -> None:
    """Take the tasks that a network had: other costs may choose other layouts, and so other tasks."""
    for described in kernels.glob("*.json"):
        task = json.loads(described.read_text())
        if task["networks"].pop(network, None):
            _describe(described, task)


def _make(task: KernelTask, key: str, network: str, position: Path, sample: int, known: Mapping[str, Any]) -> None:
    described = position.with_suffix(".json")
    before = json.loads(described.read_text()) if described.exists() else {}
    chosen = text_of(dict(schedule_choice(task.function, task.target).config))
    configs = before.get("configs", [])
    if chosen not in configs:
        configs = list(dict.fromkeys([chosen, *_sample(task, sample, known)]))
    networks = before.get("networks", {}) | {network: task.calls}
    description = {
        "key": key,
        "name": task.name,
        "template": task.key.template,
        "networks": networks,
        "chosen": chosen,
        "arguments": [(argument.shape, argument.dtype) for argument in task.arguments],
        "configs": configs,
    }
    if before.get("configs") != configs:
        funcs = [
            lower_function(task.function, f"k{number}", task.target, json.loads(config))
            for number, config in enumerate(configs)
        ]
        backend_of(task.target).compiled(funcs).save(position.with_suffix(".kernels"))
    _describe(described, description)


def _describe(position: Path, task: Mapping[str, Any]) -> None:
    """Written whole or not at all, as a run may be ended at any time."""
    whole = position.with_suffix(".new")
    whole.write_text(json.dumps(task) + "\n")
    whole.replace(position)


def text_of(config: Mapping[str, Any]) -> str:
    """A configuration as text that finds it again."""
    return json.dumps(dict(config), sort_keys=True)


def _sample(task: KernelTask, count: int, known: Mapping[str, Any]) -> list[str]:
    """`count` configurations by rank, and the fastest of those that were measured before."""
    ranked = [text_of(task.points.plain(point)) for point in range(len(task.points))]
    positions = [round(len(ranked) ** (step / count)) - 1 for step in range(1, count + 1)] if count else []
    times = known.get("microseconds", {})
    kept = sorted((config for config in times if config in set(ranked)), key=times.__getitem__)[:_KEPT]
    return list(dict.fromkeys([*(ranked[position] for position in positions), *kept]))


def measure_all(kernels: Path, known: Known, seconds: float, portion: float) -> bool:
    """Measure the tasks of `kernels` into `known`, those without times of their sample; False where `portion` ended it.

    `seconds` are for each configuration, `portion` for all.
    """
    end = time.monotonic() + portion
    for described in sorted(kernels.glob("*.json")):
        task = json.loads(described.read_text())
        if not task["networks"]:
            known.pop(task["key"], None)
            continue
        found = known.get(task["key"], {})
        if found.get("sample") != task["configs"]:
            if time.monotonic() + 2 * seconds * len(task["configs"]) > end:
                return False
            times = _measure(described.with_suffix(".kernels"), task, seconds)
            found = {"sample": task["configs"], "microseconds": dict(zip(task["configs"], times, strict=True))}
        known[task["key"]] = found | {name: task[name] for name in ("name", "template", "networks", "chosen")}
    return True


def _measure(kernels: Path, task: Mapping[str, Any], seconds: float) -> list[float]:
    """Microseconds of the fastest call of each configuration: calls in turns."""
    module, random = Module.load(kernels, threads=1), np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype(DType(dtype).numpy) for shape, dtype in task["arguments"]]
    calls = [module[f"k{number}"].prepared(*arrays) for number in range(len(task["configs"]))]
    times = _in_turns(calls, seconds * len(calls))
    return [1e6 * taken for taken in times]


def _in_turns(calls: Sequence[Prepared], seconds: float) -> list[float]:
    least = [float("inf")] * len(calls)
    end = time.monotonic() + seconds
    for rounds in range(_MOST):
        if rounds >= _FEWEST and time.monotonic() > end:
            break
        for position, call in enumerate(calls):
            call.seconds()
            least[position] = min(least[position], *(call.seconds() for _ in range(TIMED_CALLS)))
    return least
