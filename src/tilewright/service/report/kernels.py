"""The kernels of a model as plain data: schedule, loops, code, operations, bytes, and the share of the time.

Times are measured ones where a profile was run, else those that the cost model expects, of one core. Texts are made for
the kernels that take longest first, until time or bytes for them are used up; code is made again, with its lines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.backend import Backend
from tilewright.backend.kernels import Task
from tilewright.driver.lower import lower_function, schedule_choice, search_space
from tilewright.errors import UnsupportedError, UserError
from tilewright.relay.ir.expr import Call
from tilewright.relay.op.cost import flops, moved_bytes
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.profile import KernelTime
from tilewright.target import Target
from tilewright.tir.printer import to_text
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.choice import Choice


@dataclass
class Budget:
    """Seconds and characters that are left for the texts of kernels; of one text at most `longest`."""

    seconds: float = 30.0
    characters: int = 3_500_000
    longest: int = 120_000
    _end: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    @property
    def is_spent(self) -> bool:
        """True once no more texts are to be made."""
        return self.characters <= 0 or time.monotonic() > self._end

    def take(self, text: str) -> str:
        """The text, cut where it is too long."""
        most = min(self.longest, max(self.characters, 0))
        self.characters -= min(len(text), most)
        return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most} more characters\n"


def kernels_data(
    tasks: Sequence[Task],
    calls: Mapping[Call, tuple[str, int]],
    target: Target,
    backend: Backend,
    plan: ExecutionPlan | None = None,
    times: Sequence[KernelTime] = (),
    budget: Budget | None = None,
    loops: Mapping[str, PrimFunc] | None = None,
) -> list[dict[str, Any]]:
    """The distinct kernels, the one that takes most time first; `calls` has the name of each call and its group.

    `loops` are those of kernels that are lowered already, by name.
    """
    budget = budget or Budget()
    measured = _measured(calls, times)
    planned = {} if plan is None else {one.name: one.choice for one in plan.kernels}
    rows: list[dict[str, Any]] = []
    for task in tasks:
        own = [call for call, (name, _) in calls.items() if name == task.name]
        choice = planned.get(task.name) or _choice(task, target, backend)
        expected = float(choice.get("alone", 0.0)) * 1e-6
        seconds = [measured.get(call, expected) for call in own]
        rows.append({
            "name": task.name,
            "group": calls[own[0]][1] if own else None,
            "calls": [
                {"group": calls[call][1], "seconds": one, "flops": _number(flops(call)),
                 "bytes": _number(moved_bytes(call))}
                for call, one in zip(own, seconds)
            ],
            "seconds": sum(seconds),
            "expected": expected * len(own),
            "measured": bool(own) and all(call in measured for call in own),
            "schedule": dict(choice),
        })  # fmt: skip
    total = sum(row["seconds"] for row in rows) or 1.0
    by_name = {task.name: task for task in tasks}
    rows.sort(key=lambda row: -row["seconds"])
    for row in rows:
        row["share"] = row["seconds"] / total
        for figure in ("flops", "bytes"):
            known = [call[figure] for call in row["calls"]]
            row[figure] = None if None in known else sum(known)
        func = (loops or {}).get(row["name"])
        row.update(_texts(by_name[row["name"]], func, row["schedule"], target, backend, budget))
    return rows


def _measured(calls: Mapping[Call, tuple[str, int]], times: Sequence[KernelTime]) -> dict[Call, float]:
    """The measured seconds of each call; none unless the profile is one of these calls."""
    rows = [row for row in times if not row.kernel.startswith("copy_")]
    if [row.kernel for row in rows] != [name for name, _ in calls.values()]:
        return {}
    return {call: row.seconds for call, row in zip(calls, rows)}


def _choice(task: Task, target: Target, backend: Backend) -> Mapping[str, Any]:
    """The choice of a kernel's schedule as the manifest has it; empty where it has none."""
    if not backend.lowers(task.function):
        return {}
    try:
        return schedule_choice(task.function, target).to_json()
    except UserError:
        return {}


def _texts(
    task: Task,
    func: PrimFunc | None,
    choice: Mapping[str, Any],
    target: Target,
    backend: Backend,
    budget: Budget,
) -> dict[str, Any]:
    """The explanation of a schedule, the loops and the code of a kernel; `omitted` is the reason why there are none."""
    if not backend.lowers(task.function):
        return {"omitted": "the device runs this function as instructions of its own, not as loops"}
    if budget.is_spent:
        return {"omitted": "the time or room for texts of kernels was used up by kernels that take longer"}
    found: dict[str, Any] = {"explained": []}
    try:
        if choice:
            found["explained"] = backend.explain(Choice.from_json(choice), search_space(task.function, target))
        func = func or lower_function(task.function, task.name, target)
        found["workspace"] = [int(func.attrs.get(name, 0) or 0) for name in _WORKSPACE]
        found["loops"] = budget.take(to_text(func, True))
        found["form"], code = _code(func, target, backend)
        found["assembly"] = budget.take(code)
    except UserError as error:
        found["omitted"] = str(error)
    return found


def _code(func: PrimFunc, target: Target, backend: Backend) -> tuple[str, str]:
    """The form of the target's code that people read, and the code, with its source lines where it has any."""
    forms = backend.code_stages()
    form = "asm" if "asm" in forms else next(iter(forms), "")
    if not form:
        return "", ""
    try:
        return form, backend.code_text([func], form, form == "asm")
    except UnsupportedError:
        return form, backend.code_text([func], form)


_WORKSPACE = ("workspace_bytes", "worker_workspace_bytes")


def _number(value: Any) -> int | None:
    """A figure; None where it depends on symbolic sizes."""
    return int(value) if isinstance(value, int | float) else None
