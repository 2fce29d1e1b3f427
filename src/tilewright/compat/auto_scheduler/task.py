"""Search tasks: a workload on a target, tuned, and the best schedule taken from a log.

task = SearchTask(func=matmul, args=(512, 512, 512), target="llvm")
task.tune(TuningOptions(num_measure_trials=64, measure_callbacks=[RecordToFile("log.json")]))
schedule, args = task.apply_best("log.json")
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any

from tilewright import te
from tilewright.autotvm.classic.measure import MeasureInput as Job
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.sketch.task import SketchTask
from tilewright.autotvm.task.task import Task
from tilewright.compat.auto_scheduler.cost_model import XGBModel
from tilewright.compat.auto_scheduler.dag import ComputeDAG, LayoutRewriteOption
from tilewright.compat.auto_scheduler.measure import (
    LocalRunner,
    MeasureInput,
    MeasureResult,
    TuningOptions,
    options_of,
    result_of,
)
from tilewright.compat.auto_scheduler.policy import SearchPolicy, SketchPolicy
from tilewright.compat.auto_scheduler.record import RecordedTask, load_best_record, task_fields
from tilewright.compat.auto_scheduler.rules import StatesTask
from tilewright.compat.auto_scheduler.state import State
from tilewright.compat.auto_scheduler.steps import SKETCH
from tilewright.compat.auto_scheduler.workload import (
    WORKLOAD_FUNC_REGISTRY,
    decode_workload_key,
    make_workload_key,
    register_workload_tensors,
)
from tilewright.compat.target.target import Target
from tilewright.errors import ArtifactError, InputError, UnsupportedError
from tilewright.tir.op import as_const

#: Arrays that programs register to measure workloads with, by name.
TASK_INPUT_BUFFER_TABLE: dict[str, dict[str, Any]] = {}


@dataclass
class HardwareParams:
    """Figures of a processor; None: those of the target."""

    num_cores: int | None = None
    vector_unit_bytes: int | None = None
    cache_line_bytes: int | None = None
    max_shared_memory_per_block: int | None = None
    max_local_memory_per_block: int | None = None
    max_threads_per_block: int | None = None
    max_vthread_extent: int | None = None
    warp_size: int | None = None
    target: InitVar[Any] = None
    target_host: InitVar[Any] = None

    def __post_init__(self, target: Any, target_host: Any) -> None:
        machine = getattr(None if target is None else Target(target), "machine", None)
        known = {} if machine is None else {
            "num_cores": machine.cores, "vector_unit_bytes": machine.lanes(8), "cache_line_bytes": machine.line,
        }  # fmt: skip
        for name, value in vars(self).items():
            setattr(self, name, known.get(name, 0) if value is None else value)

    def plain(self) -> list[int]:
        """As logs have them."""
        return list(vars(self).values())

    def __str__(self) -> str:
        return "HardwareParams:\n" + "".join(f"  {name}: {value}\n" for name, value in vars(self).items())


class SearchTask:
    """A workload: a registered `func` with `args`, a `workload_key`, or a `compute_dag`; on a `target`.

    `sketch` is this compiler's task behind it. `best_state` is the fastest that was measured here.
    """

    def __init__(
        self,
        func: Any = None,
        args: Any = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: Any = None,
        target_host: Any = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: int | None = None,
        task_inputs: Any = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        if func is None and compute_dag is None and workload_key is None:
            raise InputError("a SearchTask needs a workload: func with args, a workload_key or a compute_dag")
        if target is None:
            raise InputError("a SearchTask needs a target, such as 'llvm'")
        if workload_key is None:
            workload_key = compute_dag.workload_key() if func is None else make_workload_key(func, args or ())  # type: ignore[union-attr]
        self.workload_key, self.desc = workload_key, desc
        self.compute_dag = compute_dag if compute_dag is not None else ComputeDAG(workload_key)
        self.target = Target(target, target_host) if target_host else Target(target)
        self.target_host = self.target.host
        self.hardware_params = hardware_params or HardwareParams(target=self.target)
        option = LayoutRewriteOption.get_target_default(self.target)
        self.layout_rewrite_option = option if layout_rewrite_option is None else layout_rewrite_option
        self.task_input_names = _registered(workload_key, task_inputs, task_inputs_overwrite)
        self.values = _values_of(self.compute_dag.tensors, task_inputs or {})
        self._no_sketch: UnsupportedError | None = None
        self.sketch: SketchTask | None = self._sketch()
        self.best_state: State | None = None
        self.best_seconds = float("inf")

    def _sketch(self) -> SketchTask | None:
        """None where sketches are not for such a computation; rules of a program's own may be."""
        try:
            return SketchTask(self.compute_dag.tensors, self.target, self.desc or "sketch", values=self.values)
        except UnsupportedError as error:
            self._no_sketch = error
            return None

    @property
    def own(self) -> Task:
        """This compiler's task: sketches, or the template of a kernel. Raises `UnsupportedError` where it has none."""
        if self.sketch is None:
            assert self._no_sketch is not None
            raise self._no_sketch
        return self.sketch

    def state(self, config: Any) -> State:
        """The state of a configuration as plain data, or of the steps of a rule's."""
        if set(config) == {"steps"}:
            return State(self.compute_dag.tensors, config["steps"])
        return State(self.compute_dag.tensors, [[SKETCH, dict(config)]])

    def point(self, state: Any) -> int:
        """The point that a state of a search stands for. Raises `InputError` for others."""
        steps = state.transform_steps
        found = self.own.points.find(steps[0][1]) if len(steps) == 1 and steps[0][0] == SKETCH else None
        if found is None:
            raise InputError("only states that a search of this task made can be measured; others can be built and run")
        return found

    def lower_state(self, state: Any) -> Any:
        """The loops of a state."""
        schedule, args = self.compute_dag.apply_steps_from_state(state)
        return te.lower(schedule, args, "main")

    def measure_states(self, states: Sequence[Any], options: MeasureOptions) -> list[MeasureResult]:
        """Time states on this machine."""
        if any(len(one.transform_steps) != 1 or one.transform_steps[0][0] != SKETCH for one in states):
            own = StatesTask(self, [one.transform_steps for one in states])
            with Measurer([own], options) as measurer:
                return [result_of(trial) for trial in measurer.measure(own, range(len(states)))]
        with Measurer([self.own], options) as measurer:
            return [result_of(trial) for trial in measurer.measure(self.own, [self.point(one) for one in states])]

    def job_of(self, state: Any) -> Any:
        """The job of a state for a runner of devices."""
        return Job(self.target, self.own, self.own.points.config(self.point(state)))

    def tune(
        self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None, adaptive_training: bool = False
    ) -> None:
        """Search for as many trials as the options say."""
        options = tuning_options
        policy = search_policy or SketchPolicy(self, XGBModel())
        local, own = isinstance(options.runner, LocalRunner), policy.own
        if local and self.sketch is not None:
            self.sketch.check_runs_here()
        done, idle = 0, 0
        with Measurer([own], options_of(options.builder, options.runner)) as measurer:
            explorer = policy.explorer(measurer)
            while done < options.num_measure_trials:
                batch = explorer.propose(min(options.num_measures_per_round, options.num_measure_trials - done))
                if not batch:
                    break
                states = [self.state(own.points.plain(point)) for point in batch]
                inputs = [MeasureInput(self, state) for state in states]
                if local:
                    trials = measurer.measure(own, batch)
                    results = [result_of(trial) for trial in trials]
                else:
                    results = list(options.runner.run(inputs, options.builder.build(inputs)))
                    trials = [_trial(point, result) for point, result in zip(batch, results)]
                explorer.learn(trials)
                better = self._judge(states, trials)
                done, idle = done + len(batch), 0 if better else idle + len(batch)
                policy.learned(inputs, results)
                for callback in options.measure_callbacks:
                    callback.callback(policy, inputs, results)
                if options.verbose:
                    print(f"{self.desc or self.workload_key}: {done} trials, best {self.best_seconds * 1e6:.2f} us")
                if options.early_stopping and idle >= options.early_stopping:
                    break

    def _judge(self, states: Sequence[State], trials: Sequence[Trial]) -> bool:
        """Keep the fastest; whether there is a new one. The first that works is a local runner's yardstick."""
        before = self.best_seconds
        for state, trial in zip(states, trials):
            if trial.seconds is not None and trial.seconds < self.best_seconds:
                self.best_state, self.best_seconds = state, trial.seconds
        return self.best_seconds < before

    def apply_best(
        self, log_file: str, include_compatible: bool = False, layout_rewrite_option: int | None = None
    ) -> tuple[te.Schedule, list[te.Tensor]]:
        """The schedule of the fastest line of a log, and the arguments. Raises `InputError` where there is none."""
        return self.compute_dag.apply_steps_from_state(self._best(log_file, include_compatible))

    def print_best(self, log_file: str, print_mode: str = "schedule") -> str:
        """The schedule of the fastest line of a log as a Python program."""
        if print_mode != "schedule":
            raise InputError(f"print_best has the mode 'schedule' for CPUs, not {print_mode!r}")
        return self.compute_dag.print_python_code_from_state(self._best(log_file, False))

    def _best(self, log_file: str, include_compatible: bool) -> Any:
        inp, _ = load_best_record(log_file, self.workload_key, self.target, include_compatible)
        if inp is None:
            raise InputError(f"{log_file} has no measurement of {self.workload_key} for {self.target} that worked")
        return inp.state

    def __reduce__(self) -> Any:
        named = decode_workload_key(self.workload_key)[0] in WORKLOAD_FUNC_REGISTRY
        tensors = None if named else self.compute_dag.tensors
        host = None if self.target_host is None else str(self.target_host)
        figures = self.hardware_params.plain()
        return _revived, (self.workload_key, str(self.target), self.desc, tensors, host, figures)


def _revived(
    workload_key: str,
    target: str,
    desc: str,
    tensors: Sequence[te.Tensor] | None = None,
    target_host: str | None = None,
    figures: Sequence[int] = (),
) -> SearchTask:
    """The task again; of a computation without a function that is registered under its key."""
    if tensors is not None and workload_key not in WORKLOAD_FUNC_REGISTRY:
        register_workload_tensors(workload_key, tensors)
    params = HardwareParams(*figures) if figures else None
    return SearchTask(
        workload_key=workload_key, target=target, target_host=target_host, hardware_params=params, desc=desc
    )


def _trial(point: int, result: MeasureResult) -> Trial:
    works = result.error_no == 0
    return Trial(point, {}, sum(result.costs) / len(result.costs) if works else None, failure="" if works else "run")


#: What names of inputs of sparse products end with: where a computation has no names for them, sizes and types tell.
_PARTS = ("data", "indices", "indptr")


def _values_of(tensors: Sequence[te.Tensor], inputs: Mapping[str, Any]) -> dict[te.Tensor, Any]:
    """The array of each placeholder of which `inputs` has one by its name, or by what part of a sparse matrix it is.

    Names of no placeholder are registered for whoever looks them up, and nothing is measured with them.
    """
    found: dict[te.Tensor, Any] = {}
    positions = [tensor for tensor in tensors if isinstance(tensor.op, te.PlaceholderOp)]
    for name, value in inputs.items():
        array = value.numpy()
        fitting = [
            tensor
            for tensor in positions
            if tensor not in found and tuple(map(as_const, tensor.shape)) == array.shape and tensor.dtype == array.dtype
        ]
        named = [tensor for tensor in fitting if tensor.op.name == name]
        part = name.rsplit("_", 1)[-1] in _PARTS and all(tensor.op.name == "placeholder" for tensor in fitting)
        chosen = named or (fitting if part else [])
        if not chosen and not part and name not in {tensor.op.name for tensor in positions}:
            continue
        if len(chosen) != 1:
            known = ", ".join(f"{t.op.name} {t.dtype} {list(map(as_const, t.shape))}" for t in positions)
            raise InputError(
                f"task_inputs: {name!r}, {array.dtype} of shape {list(array.shape)}, is not one of the inputs, "
                f"or several; there are: {known}"
            )
        found[chosen[0]] = array
    return found


def _registered(workload_key: str, inputs: Any, overwrite: bool) -> list[str]:
    """Register arrays of a workload; their names."""
    if inputs:
        table = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
        table |= inputs if overwrite else {**inputs, **table}
    return list(inputs or ())


def register_task_input_buffer(
    workload_key: str, input_name: str, input_data: Any, overwrite: bool = False, save_to_file: bool = False
) -> Any:
    """Register an array for the input of a workload; the one that is registered then."""
    _registered(workload_key, {input_name: input_data}, overwrite)
    return TASK_INPUT_BUFFER_TABLE[workload_key][input_name]


def get_task_input_buffer(workload_key: str, input_name: str) -> Any:
    """The array that is registered. Raises `InputError` where none is."""
    found = TASK_INPUT_BUFFER_TABLE.get(workload_key, {})
    if input_name not in found:
        raise InputError(f"no array {input_name!r} is registered for {workload_key}; there are: {list(found)}")
    return found[input_name]


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """An input of a log with its task, and with `rebuild_state` its state, looked up by its workload's key."""
    recorded = inp.task
    if isinstance(recorded, SearchTask):
        return inp
    task = SearchTask(workload_key=recorded.workload_key, target=recorded.target, target_host=recorded.target_host)
    steps = inp.state.transform_steps
    return MeasureInput(task, State(task.compute_dag.tensors, steps) if rebuild_state else inp.state)


def create_task(func: Any, args: Any, target: Any, target_host: Any = None, hardware_params: Any = None) -> SearchTask:
    """The task of a registered function."""
    return SearchTask(func, args, target=target, target_host=target_host, hardware_params=hardware_params)


def auto_schedule(
    task: SearchTask, search_policy: SearchPolicy | None = None, tuning_options: TuningOptions | None = None
) -> tuple[te.Schedule, list[te.Tensor]]:
    """Search, and the best schedule with its arguments."""
    task.tune(tuning_options or TuningOptions(), search_policy)
    if task.best_state is None:
        raise InputError("no state of the search worked: pass more trials, or see what RecordToFile has of them")
    return task.compute_dag.apply_steps_from_state(task.best_state)


def serialize_search_task(task: SearchTask) -> str:
    """A task as JSON: as logs have it."""
    return json.dumps(task_fields(task))


def deserialize_search_task(text: str) -> SearchTask:
    """The inverse of `serialize_search_task`. Raises `ArtifactError` for other text."""
    try:
        recorded = RecordedTask(json.loads(text))
    except (ValueError, TypeError, IndexError) as error:
        raise ArtifactError(f"no task of the auto-scheduler: {error!r}: {text[:80]}") from None
    made = SearchTask(
        workload_key=recorded.workload_key,
        target=recorded.target,
        target_host=recorded.target_host,
        hardware_params=HardwareParams(*recorded.hardware_params),
        layout_rewrite_option=recorded.layout_rewrite_option,
    )
    made.task_input_names = list(recorded.task_input_names)
    return made
