"""Tuning for a board: every configuration of every template, its instructions counted under qemu.

    result = tune_on_board(mod, board_named("mps2-an386"), Target("c -mcpu=cortex-m4"), "kws.jsonl", print)
    export_source(path, "kws.c", target="c -mcpu=cortex-m4", records="kws.jsonl")

Spaces of boards are small and counts exact, so that nothing is searched: run n of the network has the n-th
configuration of each task, and each kernel's count is its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.autotvm.network.inputs import timing_inputs
from tilewright.autotvm.task.extract import network_calls, task_of_kernels, tasks_of
from tilewright.autotvm.task.task import KernelTask
from tilewright.board import Board, BoardDevice, BoardProgram, EmulatedBoard
from tilewright.driver.build_source import source_backend, write_source
from tilewright.driver.optimize import optimize
from tilewright.errors import UnsupportedError
from tilewright.records.database import Database
from tilewright.records.entry import TRIAL, VERDICT, WRONG, Entry, TaskKey, this_compiler
from tilewright.records.file import RecordFile
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.target import Target


@dataclass(frozen=True)
class TaskCounts:
    """A task's instructions in a run of the network: by the cost model's choice, and the least of all `tried`."""

    name: str
    default: int
    best: int
    config: Mapping[str, Any]
    tried: int


@dataclass(frozen=True)
class BoardTuning:
    """The outcome: tasks, and the instructions of the whole network before and after."""

    tasks: Sequence[TaskCounts]
    before: int
    after: int


def tune_on_board(
    mod: IRModule,
    board: Board,
    target: Target,
    records: str | Path,
    tell: Callable[[str], None] = lambda line: None,
    trials: int | None = None,
    device: BoardDevice | None = None,
) -> BoardTuning:
    """Count up to `trials` configurations of each task, and keep all counts in the file `records`.

    They run under qemu on this machine, or on the board of a `device`.

    Its verdicts are what compiling with it takes: configurations with which the whole network takes fewer
    instructions, or else the cost model's. Raises `UnsupportedError` where no kernel has a choice.
    """
    calls = network_calls(mod, target)
    tasks = tasks_of(calls, target)
    if not tasks:
        raise UnsupportedError("no kernel of the model has a choice of schedules for this board")
    kernels = task_of_kernels(calls, target)
    known = {name: key for name, key in kernels.items() if key is not None}
    bench = _Bench(mod, board, target, known, device or EmulatedBoard(board))
    with RecordFile(records) as file:
        search = _Search(bench, tasks, file)
        search.count(None)
        rounds = min(max(len(task.points) for task in tasks), trials or max(len(task.points) for task in tasks))
        for number in range(rounds):
            search.count(number)
            tell(f"configuration {number + 1} of {rounds} of each of {len(tasks)} kernels is counted")
        return search.verdict()


class _Bench:
    """The network on the board, with one set of inputs."""

    def __init__(
        self, mod: IRModule, board: Board, target: Target, kernels: Mapping[str, TaskKey], device: BoardDevice
    ) -> None:
        self.device = device
        self.mod, self.board, self.target, self.kernels = expand_calls(lower_external(mod)), board, target, kernels
        self.cpu = getattr(target, "cpu", "")

    def program(self, entries: Sequence[Entry]) -> BoardProgram:
        """The network with these configurations."""
        with tempfile.TemporaryDirectory(prefix="tilewright-board-") as folder:
            path = Path(folder) / "model.c"
            known = Database(entries, "what is counted") if entries else None
            graphs = [("model", optimize(self.mod, self.target, known))]
            files = write_source(graphs, source_backend(self.target), path, freestanding=True)
            (model,) = files.models
            return BoardProgram(model.name, model.c_model.interface, files[0].read_text(), files[1].read_text())

    def count(self, entries: Sequence[Entry]) -> tuple[list[Any], dict[TaskKey, int]]:
        """Outputs, and the instructions of each task."""
        program = self.program(entries)
        inputs = list(timing_inputs(program.interface.inputs).values())
        run = self.device.load(program, self.cpu, kernels=True).run(inputs)
        found: dict[TaskKey, int] = {}
        for name, count in run.kernels.items():
            if name in self.kernels:
                found[self.kernels[name]] = found.get(self.kernels[name], 0) + count
        return run.outputs, found

    def whole(self, entries: Sequence[Entry]) -> int:
        """The instructions of the network, with nothing counted within it."""
        program = self.program(entries)
        inputs = list(timing_inputs(program.interface.inputs).values())
        return self.device.load(program, self.cpu).run(inputs).instructions


class _Search:
    """Counts of all tasks, in step."""

    def __init__(self, bench: _Bench, tasks: Sequence[KernelTask], file: RecordFile) -> None:
        self.bench, self.tasks, self.file = bench, tasks, file
        self.counts: dict[TaskKey, dict[int, int]] = {task.key: {} for task in tasks}
        self.default: dict[TaskKey, int] = {}
        self.outputs: list[Any] = []

    def count(self, number: int | None) -> None:
        """Run the network with point `number` of each task that has it, None for the cost model's choices."""
        chosen = {} if number is None else {task.key: number for task in self.tasks if number < len(task.points)}
        outputs, counts = self.bench.count([self._entry(task, chosen[task.key]) for task in self._of(chosen)])
        if number is None:
            self.outputs, self.default = outputs, counts
            return
        same = all(np.array_equal(one, other) for one, other in zip(outputs, self.outputs, strict=True))
        for task in self._of(chosen):
            count = counts[task.key]
            best = min(self.counts[task.key].values(), default=count + 1)
            if same:
                self.counts[task.key][number] = count
            self.file.append(self._entry(task, number, count, same, same and count < best))

    def _of(self, chosen: Mapping[TaskKey, int]) -> list[KernelTask]:
        return [task for task in self.tasks if task.key in chosen]

    def _entry(
        self, task: KernelTask, point: int, count: int | None = None, same: bool = True, accepted: bool = False
    ) -> Entry:
        """A record of a count; without one, of a configuration to compile with."""
        seconds = None if count is None or not same else self._seconds(count / task.calls)
        more = {} if count is None else {"board": self.bench.board.name, "instructions": count}
        return Entry(
            task.key, task.processor, task.points.plain(point), seconds, failure="" if same else WRONG,
            accepted=accepted, kind=VERDICT if count is None else TRIAL, compiler=this_compiler(), time=time.time(),
            more=more,
        )  # fmt: skip

    def _seconds(self, instructions: float) -> float:
        """The time of so many instructions, one each cycle."""
        return float(self.bench.target.machine.seconds(instructions))

    def verdict(self) -> BoardTuning:
        """Compile with the best of all tasks; what is no better in the whole network is not kept."""
        best = {key: min(counts, key=lambda point: counts[point]) for key, counts in self.counts.items() if counts}
        better = {key: point for key, point in best.items() if self.counts[key][point] < self.default[key]}
        entries = [self._entry(task, better[task.key]) for task in self._of(better)]
        before = after = self.bench.whole([])
        if entries:
            after = self.bench.whole(entries)
        if after < before:
            for entry in entries:
                self.file.append(entry)
        rows = [
            TaskCounts(
                task.name,
                self.default[task.key],
                min(self.counts[task.key].values()),
                task.points.plain(best[task.key]),
                len(self.counts[task.key]),
            )
            for task in self._of(best)
        ]
        return BoardTuning(rows, before, min(before, after))
