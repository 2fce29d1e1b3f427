"""Logs of the classic stack: a line for each measurement, as text of JSON (docs/autotvm.md has the fields) or pickles.

    encode(inp, result)                    # a line; decode(line) is the pair again
    load_from_file("matmul.log")           # all pairs
    pick_best("matmul.log", "best.log")    # the fastest of each task and target
    with apply_history_best("best.log"): …

Kernels of the compiler are in such logs under the name of their template, with the workload as their one argument.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tilewright.autotvm.classic.measure import FAILED, MeasureErrorNo, MeasureInput, MeasureResult
from tilewright.autotvm.classic.pickled import pickled_row, unpickled_row
from tilewright.autotvm.template.dispatch import ApplyBest
from tilewright.autotvm.template.space import ConfigEntity
from tilewright.autotvm.template.template import args_to_workload
from tilewright.errors import ArtifactError
from tilewright.records.context import applied
from tilewright.records.database import Database, processor_of
from tilewright.records.entry import Entry, TaskKey, canonical, this_compiler
from tilewright.target import Target

#: The format of the lines, and the first version of the stack that wrote it.
AUTOTVM_LOG_VERSION = 0.2


class RecordedTask:
    """A task as a log describes it: its name, arguments, workload and target."""

    def __init__(self, name: str, args: Sequence[Any], kwargs: Any, target: Any) -> None:
        self.name, self.args, self.kwargs, self.target = name, tuple(args), kwargs or {}, target
        self.workload = (name, *self.args) if self.is_kernel else args_to_workload(self.args, name)

    @property
    def is_kernel(self) -> bool:
        """True for a kernel of the compiler, whose argument is a workload as plain data."""
        return len(self.args) == 1 and isinstance(self.args[0], dict)

    @property
    def key(self) -> TaskKey:
        """The key in records of this package."""
        if self.is_kernel:
            return TaskKey(self.name, canonical(self.args[0]), int(self.kwargs.get("version", 1)))
        return TaskKey(self.name, canonical({"args": self.args}))


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """A text that is equal for equal inputs."""
    config = inp.config.to_json_dict()["entity"] if include_config else ""
    return canonical([str(inp.target), inp.task.name, list(inp.task.args), config])


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """The line of a measurement, by the protocol "json" or "pickle". Raises `ArtifactError` for another."""
    _check_protocol(protocol)
    costs = list(result.costs) if result.error_no == MeasureErrorNo.NO_ERROR else [FAILED]
    task = [inp.task.name, list(inp.task.args), dict(inp.task.kwargs)]
    outcome = [costs, result.error_no, result.all_cost, result.timestamp]
    version = f"tilewright-{this_compiler()}"
    if protocol == "pickle":
        versions = (str(AUTOTVM_LOG_VERSION), version)
        return pickled_row(str(inp.target), task, inp.config.to_json_dict(), outcome, versions)
    return json.dumps(
        {
            "input": [str(inp.target), *task],
            "config": inp.config.to_json_dict(),
            "result": outcome,
            "version": AUTOTVM_LOG_VERSION,
            "tvm_version": version,
        }
    )


def decode(row: str, protocol: str = "json") -> tuple[MeasureInput, MeasureResult] | None:
    """The pair of a line; None for comments and empty lines.

    Raises `ArtifactError` for what is no such line; of "pickle" those that name anything but what records are made of.
    """
    _check_protocol(protocol)
    if not row.strip() or row.startswith("#"):
        return None
    if protocol == "pickle":
        return _pair(*unpickled_row(row), row)
    try:
        fields = json.loads(row)
        if "v" in fields or fields.get("version") != AUTOTVM_LOG_VERSION:
            version = fields.get("v", fields.get("version"))
            raise ArtifactError(f"a log of version {version} is not read, only of {AUTOTVM_LOG_VERSION}")
        target, *task = fields["input"]
        config, result = fields["config"], fields["result"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_line(error, row) from None
    return _pair(target, task, config, result, row)


def _pair(target: str, task: Any, config: Any, result: Any, row: str) -> tuple[MeasureInput, MeasureResult]:
    """Input and result of the parts of a line."""
    try:
        name, args, kwargs = task
        costs, number, all_cost, timestamp = result
        recorded = RecordedTask(name, _as_tuple(args), kwargs, target)
        entity = ConfigEntity.from_json_dict(config)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_line(error, row) from None
    return MeasureInput(target, recorded, entity), MeasureResult(tuple(costs), number, all_cost, timestamp)


def _no_line(error: Exception, row: str) -> ArtifactError:
    return ArtifactError(f"no line of a log of tuning: {error!r}: {row[:80]}")


def _check_protocol(protocol: str) -> None:
    if protocol not in ("json", "pickle"):
        raise ArtifactError(f"logs are written and read as 'json' or 'pickle', not {protocol!r}")


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def load_from_buffer(lines: Iterable[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The pairs of lines."""
    for row in lines:
        pair = decode(row)
        if pair is not None:
            yield pair


def load_from_file(filepath: str | os.PathLike[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The pairs of a log. Raises `ArtifactError` naming the line where one does not read."""
    try:
        lines = Path(filepath).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ArtifactError(f"{filepath}: this log cannot be read: {error.strerror}") from None
    for number, row in enumerate(lines, 1):
        try:
            pair = decode(row)
        except ArtifactError as error:
            raise ArtifactError(f"{filepath}, line {number}: {error}") from None
        if pair is not None:
            yield pair


def _cost(result: MeasureResult) -> float:
    """Mean seconds; infinite for a failure."""
    if result.error_no != MeasureErrorNo.NO_ERROR:
        return float("inf")
    return sum(result.costs) / len(result.costs)


def pick_best(in_file: str | os.PathLike[str], out_file: str | os.PathLike[str]) -> None:
    """Write the fastest line of each task and target of a log to another."""
    best: dict[str, tuple[MeasureInput, MeasureResult]] = {}
    for inp, result in load_from_file(in_file):
        key = measure_str_key(inp, include_config=False)
        if _cost(result) < (_cost(best[key][1]) if key in best else float("inf")):
            best[key] = inp, result
    Path(out_file).write_text("".join(f"{encode(*pair)}\n" for pair in best.values()), encoding="utf-8")


Records = str | os.PathLike[str] | Iterable[tuple[MeasureInput, MeasureResult]] | None


class ApplyHistoryBest(ApplyBest):
    """The best configuration of each workload in a log: of users' templates by their context, of kernels in `compile`.

    `records` are a log's path, or pairs; `load` adds more.
    """

    def __init__(self, records: Records) -> None:
        super().__init__(self._best)
        self.best: dict[Any, tuple[MeasureInput, MeasureResult]] = {}
        self.database = Database(name="the log")
        self._stack = ExitStack()
        if records is not None:
            self.load(records)

    def load(self, records: Records) -> None:
        """Add the pairs of a log."""
        pairs = load_from_file(records) if isinstance(records, str | os.PathLike) else records
        for inp, result in pairs or ():
            cost = _cost(result)
            if cost == float("inf"):
                continue
            recorded = RecordedTask(inp.task.name, inp.task.args, inp.task.kwargs, inp.target)
            if recorded.is_kernel:
                config = inp.config.get_other_option()
                self.database.add(Entry(recorded.key, processor_of(Target(str(inp.target))), config, cost))
            elif recorded.workload not in self.best or cost < _cost(self.best[recorded.workload][1]):
                self.best[recorded.workload] = inp, result

    def _best(self, target: Any, workload: Any) -> Any:
        found = self.best.get(workload)
        return None if found is None else found[0].config

    def __enter__(self) -> Any:
        self._stack.enter_context(applied(self.database if self.database.entries else None))
        return super().__enter__()

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        self._stack.close()


def apply_history_best(records: Records) -> ApplyHistoryBest:
    """The context of a log's best configurations; see `ApplyHistoryBest`."""
    return ApplyHistoryBest(records)
