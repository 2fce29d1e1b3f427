"""Logs of the classic stack to records and back: AutoTVM's (version 0.2) and the auto-scheduler's (v0.6).

    entries = read_log("resnet18.log")             # of either kind, line by line
    write_log("resnet18.log", entries)

A line that was read comes out again with the same fields: what records have no position for is kept beside them.
Kernels of this compiler are written as AutoTVM's lines with the workload as their one argument; verdicts are in no such
log. The auto-scheduler's steps are kept, not followed: this compiler has no sketches to apply them to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewright.autotvm.classic.measure import ERROR_NUMBERS, FAILED, MeasureErrorNo
from tilewright.autotvm.classic.record import AUTOTVM_LOG_VERSION, RecordedTask, decode
from tilewright.errors import ArtifactError, TargetError
from tilewright.records.database import processor_of
from tilewright.records.entry import BUILD, RUN, TIMEOUT, TRIAL, WRONG, Entry, TaskKey, canonical, this_compiler
from tilewright.support.cache import atomic_file
from tilewright.target import Target

#: The template that tasks of the auto-scheduler are known by, and the versions of its logs whose lines are of one form.
ANSOR, _ANSOR_VERSIONS = "auto_scheduler", ("v0.5", "v0.6")

_KINDS = {
    MeasureErrorNo.NO_ERROR: "", MeasureErrorNo.WRONG_ANSWER: WRONG, MeasureErrorNo.RUNTIME_DEVICE: RUN,
    MeasureErrorNo.BUILD_TIMEOUT: TIMEOUT, MeasureErrorNo.RUN_TIMEOUT: TIMEOUT, MeasureErrorNo.UNKNOWN_ERROR: RUN,
}  # fmt: skip


def read_log(path: str | os.PathLike[str]) -> list[Entry]:
    """The entries of a log. Raises `ArtifactError` naming the line that is of neither kind."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path}: this log cannot be read: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            found.append(_entry(line))
        except ArtifactError as error:
            raise ArtifactError(f"{path}, line {number}: {error}") from None
    return found


def write_log(path: str | os.PathLike[str], entries: Iterable[Entry]) -> int:
    """Write the trials among `entries`; how many lines there are."""
    lines = [_line(entry) for entry in entries if entry.kind == TRIAL and entry.config is not None]
    with atomic_file(Path(path)) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)


def _entry(line: str) -> Entry:
    try:
        fields = json.loads(line)
        if isinstance(fields, dict) and "i" in fields and str(fields.get("v")).startswith("v"):
            return _of_ansor(fields)
        decode(line)  # says what is wrong with it
        return _of_autotvm(fields)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ArtifactError(f"no line of a log of tuning: {error!r}: {line[:80]}") from None


def _of_autotvm(fields: Mapping[str, Any]) -> Entry:
    target, name, args, kwargs = fields["input"]
    costs, number, all_cost, when = fields["result"]
    task = RecordedTask(name, args, kwargs, target)
    entities = fields["config"]["entity"]
    config = {key: value if task.is_kernel else [code, value] for key, code, value in entities}
    rest = {
        "log": "autotvm", "target": target, "args": args, "kwargs": kwargs, "costs": costs, "error": number,
        "all_cost": all_cost, "version": fields.get("tvm_version", ""),
        "index": fields["config"]["index"], "code_hash": fields["config"].get("code_hash"),
    }  # fmt: skip
    return _timed(task.key, target, config, costs, number, when, rest)


def _of_ansor(fields: Mapping[str, Any]) -> Entry:
    if fields["v"] not in _ANSOR_VERSIONS:
        raise ArtifactError(f"a log of version {fields['v']} is not read, only of {', '.join(_ANSOR_VERSIONS)}")
    (workload, target, *_), (_, steps) = fields["i"]
    costs, number, all_cost, when = fields["r"]
    key = TaskKey(ANSOR, canonical({"workload_key": workload}))
    rest = {
        "log": ANSOR, "input": fields["i"][0], "costs": costs, "error": number, "all_cost": all_cost,
        "version": fields["v"],
    }  # fmt: skip
    return _timed(key, target, {"steps": steps}, costs, number, when, rest)


def _timed(
    key: TaskKey, target: str, config: Any, costs: Any, number: int, when: float, rest: Mapping[str, Any]
) -> Entry:
    failure = _KINDS.get(number, BUILD)
    seconds = None if failure else sum(map(float, costs)) / len(costs)
    return Entry(key, _processor(target), config, seconds, failure, "", compiler="", time=float(when), more=rest)


def _processor(target: str) -> str:
    """The processor of a target of a log; its own words where this compiler has no such target."""
    try:
        return processor_of(Target(target))
    except TargetError:
        return target


def _line(entry: Entry) -> str:
    kinds: Mapping[str, Callable[[Entry], dict[str, Any]]] = {ANSOR: _to_ansor}
    return json.dumps(kinds.get(str(entry.more.get("log")), _to_autotvm)(entry))


def _to_ansor(entry: Entry) -> dict[str, Any]:
    more, config = entry.more, entry.config or {}
    result = [more["costs"], more["error"], more["all_cost"], _when(entry)]
    return {"i": [more["input"], [[], config["steps"]]], "r": result, "v": more["version"]}


def _to_autotvm(entry: Entry) -> dict[str, Any]:
    more, config = entry.more, entry.config or {}
    kernel = not all(isinstance(value, list) for value in config.values()) or not config
    entity = [[name, "ot", value] if kernel else [name, *value] for name, value in config.items()]
    workload = json.loads(entry.task.workload)
    args = more.get("args", workload.get("args", [workload]))
    costs = more.get("costs", [FAILED if entry.seconds is None else entry.seconds])
    number = more.get("error", ERROR_NUMBERS[entry.failure])
    return {
        "input": [more.get("target", entry.processor), entry.task.template, args,
                  more.get("kwargs", {"version": entry.task.version})],
        "config": {"index": more.get("index", 0), "code_hash": more.get("code_hash"), "entity": entity},
        "result": [costs, number, more.get("all_cost", 0.0), _when(entry)],
        "version": AUTOTVM_LOG_VERSION,
        "tvm_version": more.get("version") or f"tilewright-{entry.compiler or this_compiler()}",
    }  # fmt: skip


def _when(entry: Entry) -> float | int:
    """Whole seconds as the logs have them."""
    return int(entry.time) if entry.time == int(entry.time) else entry.time
