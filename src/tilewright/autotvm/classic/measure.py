"""Measuring by its classic names: inputs and results, builders and runners, and what puts them together.

    option = measure_option(builder=LocalBuilder(), runner=LocalRunner(number=4, repeat=3))
    results = create_measure_batch(task, option)([MeasureInput(task.target, task, task.config_space.get(0))])

Local builders and runners are processes of `measure.Measurer`, whose comparison in turns decides how often code is run:
`number`, `repeat` and `min_repeat_ms` are taken as a wish for more, not for less. A program's own `Runner` gets what
the builder built.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tilewright.autotvm.classic.executor import Executor, result_of_future
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.task.task import Task
from tilewright.errors import InputError, TargetError
from tilewright.records.entry import BUILD, CRASH, RUN, TIMEOUT, WRONG
from tilewright.support.dtype import DType

#: The cost that a failed measurement has in logs.
FAILED = 1e9


class MeasureErrorNo:
    """Why a measurement failed, by the numbers of the classic logs."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


#: The number of each kind of failure.
ERROR_NUMBERS = {
    "": MeasureErrorNo.NO_ERROR, BUILD: MeasureErrorNo.COMPILE_HOST, RUN: MeasureErrorNo.RUNTIME_DEVICE,
    TIMEOUT: MeasureErrorNo.RUN_TIMEOUT, WRONG: MeasureErrorNo.WRONG_ANSWER, CRASH: MeasureErrorNo.RUNTIME_DEVICE,
}  # fmt: skip


class MeasureInput(NamedTuple):
    """One configuration to measure: `config` of `task`, for `target`."""

    target: Any
    task: Any
    config: Any


class MeasureResult(NamedTuple):
    """The result of a measurement: seconds a call, an `error_no` of `MeasureErrorNo`, the seconds it all took, and the
    time of day.

    `costs` of a failure are what is known of it.
    """

    costs: Sequence[Any]
    error_no: int
    all_cost: float
    timestamp: float


class BuildResult(NamedTuple):
    """The result of a build: the `filename` of code (none here, it stays in memory), or an error."""

    filename: str
    arg_info: Any
    error: Any
    time_cost: float


class Builder:
    """Builds inputs; `n_parallel` at a time, each for `timeout` seconds at most."""

    def __init__(self, timeout: float = 20, n_parallel: int | None = None, build_kwargs: Any = None) -> None:
        self.timeout, self.n_parallel, self.build_kwargs = timeout, n_parallel, build_kwargs
        self.task: Any = None

    def set_task(self, task: Any, build_kwargs: Any = None) -> None:
        """The task whose inputs are to be built."""
        self.task, self.build_kwargs = task, build_kwargs

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """A `BuildResult` for each input."""
        raise NotImplementedError


class Runner:
    """Runs what was built, each for `timeout` seconds at most."""

    def __init__(self, timeout: float = 20, n_parallel: int | None = None) -> None:
        self.timeout, self.n_parallel = timeout, n_parallel
        self.task: Any = None

    def set_task(self, task: Any) -> None:
        """The task whose inputs are to be run."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """The properties of the device that the builder needs."""
        return {}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """A `MeasureResult` for each input."""
        raise NotImplementedError


class LocalBuilder(Builder):
    """Processes of this machine; `build_func` can only be the default."""

    def __init__(
        self,
        timeout: float = 20,
        n_parallel: int | None = None,
        build_kwargs: Any = None,
        build_func: Any = "default",
        do_fork: bool = True,
        runtime: Any = None,
    ) -> None:
        super().__init__(timeout, n_parallel, build_kwargs)
        if build_func != "default":
            raise InputError(
                f"LocalBuilder: build_func must be 'default', not {build_func!r}; subclass Builder instead"
            )

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """The result of lowering each input, for runners that run nothing of it."""
        results = []
        for given in measure_inputs:
            begun, error = time.perf_counter(), None
            try:
                given.task.lower(given.config)
            except Exception as caught:
                error = caught
            results.append(BuildResult("", (), error, time.perf_counter() - begun))
        return results


class LocalRunner(Runner):
    """A process of this machine. `cooldown_interval` makes no difference.

    With `enable_cpu_cache_flush`, weights and inputs that no kernel writes are as cold as after 64 MiB of others.
    `ref_input` has the arrays to run with, one for each argument (default: random ones). An `executor` of the
    program's own is given `run_one` for each input, and everything else is up to it. Raises `InputError` for a
    `module_loader`.
    """

    def __init__(
        self,
        timeout: float = 20,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: Any = None,
    ) -> None:
        super().__init__(timeout)
        if module_loader is not None:
            raise InputError("LocalRunner takes no module_loader: code stays in memory; subclass Runner instead")
        self.number, self.repeat, self.min_repeat_ms = number, repeat, min_repeat_ms
        self.cooldown_interval, self.enable_cpu_cache_flush = cooldown_interval, enable_cpu_cache_flush
        self.ref_input: Sequence[Any] | None = None
        self.executor: Executor | None = None

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """A `MeasureResult` for each input."""
        if self.executor is None:
            return [run_one(*pair, **self._settings()) for pair in zip(measure_inputs, build_results, strict=True)]
        pairs = zip(measure_inputs, build_results, strict=True)
        futures = [self.executor.submit(run_one, *pair, **self._settings()) for pair in pairs]
        return [self._outcome(future) for future in futures]

    def _settings(self) -> dict[str, Any]:
        return {
            "number": self.number, "repeat": self.repeat, "min_repeat_ms": self.min_repeat_ms,
            "cooldown_interval": self.cooldown_interval, "ref_input": self.ref_input,
            "enable_cpu_cache_flush": self.enable_cpu_cache_flush, "timeout": self.timeout,
        }  # fmt: skip

    def _outcome(self, future: Any) -> MeasureResult:
        try:
            found: MeasureResult = result_of_future(future, self.timeout)
        except Exception as error:  # whatever an executor of others raises
            return MeasureResult((error,), MeasureErrorNo.RUN_TIMEOUT, self.timeout, time.time())
        return found


def run_one(
    measure_input: MeasureInput,
    build_result: Any,
    number: int,
    repeat: int,
    min_repeat_ms: float,
    cooldown_interval: float,
    ref_input: Sequence[Any] | None,
    enable_cpu_cache_flush: bool = False,
    timeout: float = 20,
) -> MeasureResult:
    """Measure one input in a process of this machine; see `LocalRunner`."""
    if build_result is not None and build_result.error is not None:
        costs = (build_result.error,)
        return MeasureResult(costs, MeasureErrorNo.INSTANTIATION_ERROR, build_result.time_cost, time.time())
    runner = LocalRunner(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
    runner.ref_input = ref_input
    measure = MeasureBatch(measure_input.task, {"builder": LocalBuilder(), "runner": runner})
    try:
        return measure([measure_input])[0]
    finally:
        measure.close()


def measure_option(builder: Any = "local", runner: Any = "local") -> dict[str, Any]:
    """Options of measuring: a builder and a runner, or "local" for those of this machine."""
    builder = LocalBuilder() if builder == "local" else builder
    runner = LocalRunner() if runner == "local" else runner
    for given, kind in ((builder, Builder), (runner, Runner)):
        if not isinstance(given, kind):
            raise InputError(f"measure_option takes a {kind.__name__} or 'local', not {given!r}")
    return {"builder": builder, "runner": runner}


class MeasureBatch:
    """Measures lists of inputs of one task; `close` ends its processes."""

    def __init__(self, task: Any, option: dict[str, Any]) -> None:
        self.task, self.builder, self.runner = task, option["builder"], option["runner"]
        self.n_parallel = 8
        self._measurer: Measurer | None = None
        self.builder.set_task(task, self.runner.get_build_kwargs())
        self.runner.set_task(task)
        if isinstance(self.runner, LocalRunner) and self.runner.executor is None:
            _check_target(task)
            self._task = _with_inputs(task, self.runner.ref_input)
            self._measurer = Measurer([self._task], _options(self.builder, self.runner))

    def __call__(self, measure_inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        if self._measurer is None:
            return list(self.runner.run(measure_inputs, self.builder.build(measure_inputs)))
        trials = self._measurer.measure(self._task, [given.config.index for given in measure_inputs])
        return [result_of(trial) for trial in trials]

    def close(self) -> None:
        """End the processes."""
        if self._measurer is not None:
            self._measurer.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


def create_measure_batch(task: Any, option: dict[str, Any]) -> MeasureBatch:
    """A function that measures inputs of `task` by a `measure_option`. Raises `TargetError` where this machine cannot
    run them.
    """
    return MeasureBatch(task, option)


def result_of(trial: Trial) -> MeasureResult:
    """A trial by its classic name."""
    number = ERROR_NUMBERS[trial.failure]
    if trial.failure == TIMEOUT and not trial.run_seconds:
        number = MeasureErrorNo.BUILD_TIMEOUT
    costs: Sequence[Any] = (trial.reason,) if trial.seconds is None else (trial.seconds,)
    return MeasureResult(costs, number, trial.build_seconds + trial.run_seconds, trial.time)


def _check_target(task: Task) -> None:
    if not task.target.is_processor or not task.target.is_host:
        raise TargetError(
            f"{task.name} is a task for {task.target}, which cannot be built and run on this machine; tune it for "
            "'llvm', or pass measure_option a Runner of your own"
        )


def _with_inputs(task: Task, arrays: Sequence[Any] | None) -> Task:
    """`task`, measured with `arrays` in place of random ones. Raises `InputError` where they are no arguments of it."""
    if arrays is None:
        return task
    values = [np.asarray(array.numpy() if hasattr(array, "numpy") else array) for array in arrays]
    shapes = [argument.shape for argument in task.arguments]
    if [value.shape for value in values] != shapes:
        raise InputError(f"ref_input: {task.name} takes arrays of the shapes {shapes}, one for each argument")
    made = copy.copy(task)
    made.arguments = tuple(
        replace(argument, values=value.astype(DType(argument.dtype).numpy))
        for argument, value in zip(task.arguments, values)
    )
    return made


def _options(builder: Builder, runner: LocalRunner) -> MeasureOptions:
    blocks = max(MeasureOptions.blocks, runner.repeat)
    cold = 64 << 20 if runner.enable_cpu_cache_flush else 0
    return MeasureOptions(
        build_seconds=builder.timeout, run_seconds=runner.timeout, builders=builder.n_parallel or 0, blocks=blocks,
        cold_bytes=cold, block_seconds=max(MeasureOptions.block_seconds, runner.min_repeat_ms / 1e3 / blocks),
    )  # fmt: skip
