"""A tuner for each task of a network: its explorer, its records, and the models of other tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.network.options import TuneOptions
from tilewright.autotvm.network.transfer import TransferPool
from tilewright.autotvm.sketch.kernel import SketchKernel, kernel_explorer
from tilewright.autotvm.task.task import KernelTask
from tilewright.autotvm.tuner.explorer import Explorer
from tilewright.autotvm.tuner.explorers import KNOBS, make_explorer
from tilewright.autotvm.tuner.model_explorer import ModelExplorer
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.records.database import Database
from tilewright.records.entry import TRIAL, Entry
from tilewright.records.tophub import top_hub

#: Points that the hub has a task begin with.
_HINTS = 3

#: What is tuned of a network.
NetworkTask = KernelTask | SketchKernel


def tuners_of(
    tasks: Sequence[NetworkTask],
    measurer: Measurer,
    options: TuneOptions,
    known: Database,
    record: Callable[[Entry], None],
) -> list[TaskTuner]:
    """The tuners of `tasks`, which share a general model; `known` are the existing records, `record` adds one."""
    pool = TransferPool(options.model, options.seed)
    if options.model != KNOBS:
        others = [entry for entry in known.entries if entry.processor != tasks[0].processor]
        kernels = [task for task in tasks if isinstance(task, KernelTask)]
        pool.add_foreign(kernels, {name: [e for e in others if e.processor == name] for name in known.processors})
    found = []
    for number, task in enumerate(tasks):
        explorer = _explorer(task, Random(options.seed * 10007 + number), pool, measurer, options)
        entries = [entry for entry in known.of(task.key, task.processor) if entry.kind == TRIAL]
        found.append(TaskTuner(task, measurer, explorer, record, entries, _hints(task)))
    return found


def _explorer(
    task: NetworkTask, generator: Random, pool: TransferPool, measurer: Measurer, options: TuneOptions
) -> Explorer:
    if isinstance(task, SketchKernel):
        return kernel_explorer(task, generator, measurer)
    explorer = make_explorer(options.explorer, task.points, generator, task, options.model, pool.general, measurer)
    if isinstance(explorer, ModelExplorer) and options.model != KNOBS:
        pool.add(explorer)
    return explorer


def _hints(task: NetworkTask) -> list[int]:
    """Points that did well where the records of the package were measured."""
    near = top_hub().nearest(task.key, task.processor, _HINTS)
    points = (task.points.find(entry.config) for entry in near if entry.config is not None)
    return [point for point in points if point is not None]
