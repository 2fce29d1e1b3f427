"""Logs of the auto-scheduler (v0.6), a line a measurement: written by searches, read by whoever wants the best.

Lines of searches of this compiler have one step, the configuration of its sketches; of the classic stack's lines the
steps are done one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.compat.auto_scheduler.measure import MeasureCallback, MeasureInput, MeasureResult
from tilewright.compat.auto_scheduler.workload import calc_workload_dis_factor, decode_workload_key
from tilewright.compat.target.target import Target
from tilewright.errors import ArtifactError

LOG_VERSION = "v0.6"


def task_fields(task: Any) -> list[Any]:
    """A task as logs have it; one that was read from there as it stands there."""
    if isinstance(task, RecordedTask):
        return task.fields
    host = "" if task.target_host is None else str(task.target_host)
    inputs = list(task.task_input_names or [])
    figures = task.hardware_params.plain()
    return [task.workload_key, str(task.target), figures, host, task.layout_rewrite_option, inputs]


def dump_input(given: MeasureInput) -> list[Any]:
    """An input as logs have it."""
    return [task_fields(given.task), [[], given.state.transform_steps]]


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """A line of a log."""
    result = [res.costs, res.error_no, res.all_cost, int(res.timestamp)]
    return json.dumps({"i": dump_input(inp), "r": result, "v": LOG_VERSION}) + "\n"


class RecordedState:
    """The steps of a line; the state that they make needs the computation, which `recover_measure_input` looks up."""

    def __init__(self, steps: Sequence[Any]) -> None:
        self.transform_steps = [list(step) for step in steps]


class RecordedTask:
    """The description of a task in a line: the key, the target, and the rest of the line."""

    def __init__(self, fields: Sequence[Any]) -> None:
        self.workload_key, self.fields = fields[0], list(fields)
        self._host = str(fields[3] or "") if len(fields) > 3 else ""
        self.layout_rewrite_option = fields[4] if len(fields) > 4 else 0
        self.task_input_names = fields[5] if len(fields) > 5 else []
        self.desc = ""

    @property
    def target(self) -> Any:
        """The target. Raises `TargetError` where this compiler has no such."""
        return Target(self.fields[1], self._host or None)

    @property
    def target_host(self) -> Any:
        """The target of the host's part; None where the line has none."""
        return Target(self._host) if self._host else None

    @property
    def hardware_params(self) -> Any:
        """The figures of the processor."""
        return _Plain(self.fields[2] if len(self.fields) > 2 else [])


class _Plain(list[Any]):
    def plain(self) -> list[Any]:
        """As they stand in the line."""
        return list(self)


def load_record_from_string(record: str) -> tuple[MeasureInput, MeasureResult]:
    """The measurement of a line. Raises `ArtifactError` where it is none."""
    try:
        fields = json.loads(record)
        task, (_, steps) = fields["i"]
        costs, number, all_cost, when = fields["r"]
        version = str(fields["v"])
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"no line of an auto-scheduler log: {error!r}: {record[:80]}") from None
    if not version.startswith("v0."):
        raise ArtifactError(f"a log of version {version} is not read, only of {LOG_VERSION}")
    return MeasureInput(RecordedTask(task), RecordedState(steps)), MeasureResult(costs, number, "", all_cost, when)


class RecordToFile(MeasureCallback):
    """Appends every measurement to a file."""

    def __init__(self, filename: str) -> None:
        self.filename = str(filename)
        Path(self.filename).parent.mkdir(parents=True, exist_ok=True)

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """A batch was measured."""
        save_records(self.filename, inputs, results)


class RecordReader:
    """Reads the measurements of a file."""

    def __init__(self, filename: str) -> None:
        self.filename = str(filename)

    def __iter__(self) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        try:
            lines = Path(self.filename).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ArtifactError(f"{self.filename}: this log cannot be read: {error.strerror}") from None
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                try:
                    yield load_record_from_string(line)
                except ArtifactError as error:
                    raise ArtifactError(f"{self.filename}, line {number}: {error}") from None

    def read_lines(self, max_lines: int | None = None, skip_lines: int = 0) -> tuple[list[Any], list[Any]]:
        """Up to `max_lines` inputs and results after the first `skip_lines`."""
        pairs = list(self)[skip_lines:]
        pairs = pairs if max_lines is None else pairs[:max_lines]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def check_workload_key(self, inputs: Iterable[MeasureInput]) -> None:
        """Raises `ArtifactError` where an input has no key."""
        for given in inputs:
            if not given.task.workload_key:
                raise ArtifactError(f"{self.filename}: a line has no workload key")


def load_records(filename: str) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The measurements of a file."""
    return iter(RecordReader(filename))


def save_records(filename: str, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
    """Append measurements to a file."""
    with open(filename, "a", encoding="utf-8") as file:
        file.writelines(dump_record_to_string(inp, res) for inp, res in zip(inputs, results, strict=True))


def load_best_record(
    filename: str, workload_key: str | None = None, target: Any = None, include_compatible: bool = False
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """The fastest measurement of a file, of a workload and a kind of target where they are given."""
    best: tuple[MeasureInput | None, MeasureResult | None] = (None, None)
    least = float("inf")
    for inp, res in RecordReader(filename):
        if res.error_no != 0 or not _same_workload(workload_key, inp.task.workload_key, include_compatible):
            continue
        if target is not None and str(inp.task.fields[1]).split(" ", 1)[0] != str(target).split(" ", 1)[0]:
            continue
        cost = sum(res.costs) / len(res.costs)
        if cost < least:
            least, best = cost, (inp, res)
    return best


def _same_workload(wanted: str | None, found: str, include_compatible: bool) -> bool:
    if wanted is None or wanted == found:
        return True
    pair = decode_workload_key(wanted), decode_workload_key(found)
    return include_compatible and calc_workload_dis_factor(*pair) < float("inf")


def distill_record_file(in_file: str, out_file: str) -> None:
    """Write the fastest line of each workload of a log to another."""
    best: dict[tuple[str, str], tuple[float, MeasureInput, MeasureResult]] = {}
    for inp, res in RecordReader(in_file):
        key, cost = (inp.task.workload_key, str(inp.task.fields[1])), sum(res.costs) / len(res.costs)
        if res.error_no == 0 and cost < best.get(key, (float("inf"),))[0]:
            best[key] = cost, inp, res
    Path(out_file).write_text("")
    save_records(out_file, [one[1] for one in best.values()], [one[2] for one in best.values()])
