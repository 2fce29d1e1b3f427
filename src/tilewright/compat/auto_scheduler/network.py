"""Networks: their tasks, time given to these by what it saves the network, and the best of a log as it is compiled.

Kernels of networks have templates, so that their tasks are searched through those, from what the cost model puts first;
`relay.build` within `ApplyHistoryBest` takes what was found.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from tilewright import te
from tilewright.autotvm.classic.extract import extract_from_program, module_of
from tilewright.autotvm.sketch.kernel import SketchKernel, kernel_explorer, sketch_kernels
from tilewright.autotvm.task.extract import network_calls
from tilewright.autotvm.task.task import KernelTask, Task
from tilewright.autotvm.tuner.explorer import Explorer
from tilewright.autotvm.tuner.explorers import make_explorer
from tilewright.backend.lower import to_compute
from tilewright.compat.auto_scheduler.cost_model import XGBModel
from tilewright.compat.auto_scheduler.dag import ComputeDAG
from tilewright.compat.auto_scheduler.measure import MeasureInput, MeasureResult, TuningOptions
from tilewright.compat.auto_scheduler.policy import SketchPolicy
from tilewright.compat.auto_scheduler.record import RecordReader
from tilewright.compat.auto_scheduler.state import State
from tilewright.compat.auto_scheduler.steps import SKETCH
from tilewright.compat.auto_scheduler.task import HardwareParams, SearchTask
from tilewright.compat.ir.meanings import only
from tilewright.compat.target.target import Target
from tilewright.errors import InputError
from tilewright.records.context import applied
from tilewright.records.database import Database, processor_of
from tilewright.records.entry import Entry, TaskKey, canonical

#: The prefix of the workload keys of kernels of networks.
_KERNEL = "kernel"


class KernelState(State):
    """A configuration of a kernel's template."""

    def __init__(self, tensors: Sequence[te.Tensor], config: Any) -> None:
        super().__init__(tensors)
        self._config = dict(config)

    @property
    def transform_steps(self) -> list[Any]:
        return [[SKETCH, self._config]]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self._config.items())


class KernelSearchTask(SearchTask):
    """A kernel of a network."""

    def __init__(self, kernel: KernelTask | SketchKernel, target: Any) -> None:
        compute = to_compute(kernel.function)
        self.kernel, self.sketch = kernel, None
        key = [_KERNEL, kernel.key.template, kernel.key.version, json.loads(kernel.key.workload)]
        self.workload_key, self.desc = json.dumps(key), kernel.name
        self.compute_dag = ComputeDAG([*compute.inputs, *compute.outputs])
        self.target, self.target_host = Target(target), None
        self.hardware_params, self.layout_rewrite_option = HardwareParams(target=self.target), 2
        self.task_input_names, self.best_state, self.best_seconds = [], None, float("inf")

    @property
    def own(self) -> Task:
        return self.kernel

    def state(self, config: Any) -> State:
        return KernelState(self.compute_dag.tensors, config)

    def lower_state(self, state: Any) -> Any:
        return self.kernel.lower(self.kernel.points.config(self.point(state)))

    def network_explorer(self, generator: Random) -> Explorer:
        """The explorer that a search begins with where a policy has nothing of its own."""
        if isinstance(self.kernel, SketchKernel):
            return kernel_explorer(self.kernel, generator, None)
        return make_explorer("auto", self.kernel.points, generator)


def extract_tasks(
    mod: Any,
    params: Any = None,
    target: Any = "llvm",
    target_host: Any = None,
    hardware_params: Any = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: Any = None,
    opt_level: int = 3,
    other_targets: Any = None,
) -> tuple[list[SearchTask], list[int]]:
    """The tasks of a module with parameters, and how often each is called.

    Kernels of one schedule are tasks, through their sketches, with `include_simple_tasks`. The file
    `dump_workload_to_dag_log` gets JSON: the computation of each task as text, by its key.
    """
    target = Target(target)
    found = [KernelSearchTask(kernel, target) for kernel in extract_from_program(mod, params, target)]
    if include_simple_tasks:
        calls = network_calls(module_of(mod, params), target)
        found += [KernelSearchTask(kernel, target) for kernel in sketch_kernels(calls, target, 0.0)]
    if dump_workload_to_dag_log is not None:
        text = json.dumps({task.workload_key: str(task.compute_dag) for task in found})
        Path(dump_workload_to_dag_log).write_text(text, encoding="utf-8")
    return [*found], [task.kernel.calls for task in found]


class TaskScheduler:
    """Searches tasks in turns: all once, then the one that saves the whole the most for a trial.

    `task_weights` is how often each is called; an `objective_func` of the tasks' seconds may stand for their sum.
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Any = None,
        strategy: str = "gradient",
        load_model_file: str | None = None,
        load_log_file: str | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Any = None,
    ) -> None:
        if strategy not in ("gradient", "round-robin"):
            raise InputError(f"TaskScheduler has the strategies 'gradient' and 'round-robin', not {strategy!r}")
        for name, file in (("load_model_file", load_model_file), ("load_log_file", load_log_file)):
            only("TaskScheduler", name, file)
        self.tasks, self.strategy, self.callbacks = list(tasks), strategy, list(callbacks or ())
        self.task_weights = list(task_weights) if task_weights is not None else [1.0] * len(self.tasks)
        self.objective_func = objective_func or (
            lambda costs: sum(cost * weight for cost, weight in zip(costs, self.task_weights))
        )
        self.best_costs = [1e10] * len(self.tasks)
        self.task_cts = [0] * len(self.tasks)
        self.gains = [math.inf] * len(self.tasks)
        self.best_ct, self.ct, self.cur_score = 0, 0, 1e10

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: Any = "default",
        search_policy_params: Any = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
    ) -> None:
        """Assign batches to tasks until all trials of `tune_option` are spent or nothing is left to try."""
        policies = [self._policy(search_policy, i, tune_option) for i in range(len(self.tasks))]
        left = set(range(len(self.tasks)))
        while self.ct < tune_option.num_measure_trials and left:
            number = self._next(left)
            count = min(tune_option.num_measures_per_round, tune_option.num_measure_trials - self.ct)
            done = self._step(number, policies[number], count, tune_option)
            self.ct += done
            self.task_cts[number] += done
            if done < count or 0 < (per_task_early_stopping or 0) <= self.task_cts[number]:
                left.discard(number)

    def _policy(self, search_policy: Any, number: int, options: TuningOptions) -> Any:
        if isinstance(search_policy, list | tuple):
            return search_policy[number]
        if search_policy == "default":
            return SketchPolicy(self.tasks[number], XGBModel(), verbose=options.verbose)
        if search_policy == "sketch.random":
            return SketchPolicy(self.tasks[number], verbose=options.verbose)
        raise InputError(f"TaskScheduler takes 'default', 'sketch.random' or a list of policies, not {search_policy!r}")

    def _next(self, left: set[int]) -> int:
        new = [number for number in sorted(left) if not self.task_cts[number]]
        if new:
            return new[0]
        if self.strategy == "round-robin":
            return min(left, key=lambda number: self.task_cts[number])
        return max(left, key=lambda number: self.gains[number] / max(1, self.task_cts[number]))

    def _step(self, number: int, policy: Any, count: int, options: TuningOptions) -> int:
        """A batch for one task; how many were measured."""
        task, before = self.tasks[number], self.cur_score
        for callback in self.callbacks:
            callback.pre_tune(self, number)
        measured: list[Any] = []
        counting = SimpleNamespace(callback=lambda policy, inputs, results: measured.extend(inputs))
        batch = replace(options, num_measure_trials=count, early_stopping=None, num_measures_per_round=count)
        task.tune(replace(batch, measure_callbacks=[*options.measure_callbacks, counting]), policy)
        self.best_costs[number] = min(self.best_costs[number], task.best_seconds)
        self.cur_score = float(self.objective_func(self.best_costs))
        gain = max(0.0, before - self.cur_score) if before < 1e10 else 0.0
        if gain:
            self.best_ct = self.ct + len(measured)
        self.gains[number] = max(gain, 0.05 * self.best_costs[number] * self.task_weights[number])
        for callback in self.callbacks:
            callback.post_tune(self, number)
        return len(measured)


Records = Any


class ApplyHistoryBest:
    """Within `with ApplyHistoryBest(log):` networks are compiled with the best that a log has of their kernels."""

    def __init__(self, records: Records, n_lines: int | None = None, include_compatible: bool = False) -> None:
        self.database = Database(name="the log")
        self.best: dict[tuple[str, str], tuple[MeasureInput, MeasureResult]] = {}
        self._stack = ExitStack()
        if records is not None:
            self.load(records, n_lines)

    def load(self, records: Records, n_lines: int | None = None) -> None:
        """Add the measurements of a log, of several, or pairs."""
        for number, (inp, res) in enumerate(_pairs(records)):
            if n_lines is not None and number >= n_lines:
                break
            if res.error_no == 0:
                self.update(inp.task.target, inp.task.workload_key, inp.state, res, inp)

    def update(self, target: Any, workload_key: str, state: Any, res: Any = None, inp: Any = None) -> None:
        """Add one."""
        cost = sum(res.costs) / len(res.costs) if res is not None else 0.0
        key = (workload_key, str(target).split(" ", 1)[0])
        if key not in self.best or cost < sum(self.best[key][1].costs) / len(self.best[key][1].costs):
            self.best[key] = inp, res
        fields = json.loads(workload_key)
        if isinstance(fields, list) and len(fields) == 4 and fields[0] == _KERNEL:
            task = TaskKey(fields[1], canonical(fields[3]), fields[2])
            self.database.add(Entry(task, processor_of(Target(str(target))), state.transform_steps[0][1], cost))

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool = True, dag: Any = None, func_name: Any = None
    ) -> Any:
        """The state of a workload; None where the log has none."""
        found = self.best.get((workload_key, str(target).split(" ", 1)[0]))
        return None if found is None else found[0].state

    def __enter__(self) -> ApplyHistoryBest:
        self._stack.enter_context(applied(self.database if self.database.entries else None))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """The best of a log; where that has none of a workload, a state at random, which is right but no faster."""

    def __init__(
        self,
        records: Records,
        sample_simple_workloads: bool = False,
        cost_model_file: Any = None,
        num_measure: int = -1,
    ) -> None:
        super().__init__(records)

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool = True, dag: Any = None, func_name: Any = None
    ) -> Any:
        found = super().query(target, workload_key)
        if found is not None:
            return found
        (state, *_) = SketchPolicy(SearchTask(workload_key=workload_key, target=target)).sample_initial_population()
        return state


def _pairs(records: Records) -> Iterable[tuple[MeasureInput, MeasureResult]]:
    if isinstance(records, list | tuple) and records and isinstance(records[0], str):
        return [pair for path in records for pair in RecordReader(path)]
    if isinstance(records, list | tuple):
        return records
    return RecordReader(str(records))
