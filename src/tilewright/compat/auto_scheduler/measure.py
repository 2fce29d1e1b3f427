"""Measuring by the auto-scheduler's names: inputs, results, builders, runners, and what is called after each batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.autotvm.classic.measure import ERROR_NUMBERS, FAILED
from tilewright.autotvm.classic.measure import BuildResult as BuiltResult
from tilewright.autotvm.classic.measure import MeasureErrorNo as Numbers
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.compat.auto_scheduler.state import State
from tilewright.compat.autotvm.rpc_runner import RPCRunner as Devices
from tilewright.compat.autotvm.rpc_runner import request_remote
from tilewright.errors import InputError
from tilewright.records.entry import TIMEOUT


class MeasureErrorNo(Numbers):
    """Why a measurement failed, by the numbers of logs."""


class MeasureInput:
    """One state to measure: `state` of `task`."""

    def __init__(self, task: Any, state: Any) -> None:
        self.task, self.state = task, state if isinstance(state, State) else getattr(state, "state_object", state)


class Seconds(float):
    """A time that also answers `value`, as constants of the classic stack do."""

    @property
    def value(self) -> float:
        """The plain number."""
        return float(self)


class MeasureResult:
    """The result of a measurement: seconds of calls, `error_no` and `error_msg`, the seconds it all took, and the time
    of day.
    """

    def __init__(
        self, costs: Sequence[float], error_no: int, error_msg: str | None, all_cost: float, timestamp: float
    ) -> None:
        self.costs, self.error_no, self.error_msg = [Seconds(cost) for cost in costs], int(error_no), error_msg or ""
        self.all_cost, self.timestamp = all_cost, timestamp

    def __str__(self) -> str:
        shown = f"costs:{self.costs}" if self.error_no == 0 else f"error_no:{self.error_no}, error_msg:{self.error_msg}"
        return f"MeasureResult({shown}, all_cost:{self.all_cost:.2f}, timestamp:{self.timestamp:.2f})"


class BuildResult:
    """The result of a builder, for a runner."""

    def __init__(self, filename: str | None, args: Any, error_no: int, error_msg: str | None, time_cost: float) -> None:
        self.filename, self.args, self.error_no = filename or "", args, error_no
        self.error_msg, self.time_cost = error_msg or "", time_cost


class ProgramBuilder:
    """Builds for `timeout` seconds each at most, `n_parallel` at a time; `build_func` can only be the default."""

    def __init__(self, timeout: float = 15, n_parallel: int | None = None, build_func: Any = "default") -> None:
        if build_func != "default":
            raise InputError(f"LocalBuilder: build_func must be 'default', not {build_func!r}")
        self.timeout, self.n_parallel, self.build_func = timeout, n_parallel, build_func

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """The result of lowering the schedule of each input."""
        found = []
        for given in measure_inputs:
            begun, number, message = time.perf_counter(), Numbers.NO_ERROR, ""
            try:
                given.task.lower_state(given.state)
            except Exception as error:
                number, message = Numbers.INSTANTIATION_ERROR, str(error)
            found.append(BuildResult("", given.task.compute_dag.tensors, number, message, time.perf_counter() - begun))
        return found


class LocalBuilder(ProgramBuilder):
    """Processes of this machine."""


@dataclass(eq=False)
class ProgramRunner:
    """Runs what was built, for `timeout` seconds each at most, by the settings that all runners have."""

    timeout: float = 10
    number: int = 3
    repeat: int = 1
    min_repeat_ms: float = 100
    cooldown_interval: float = 0.0
    enable_cpu_cache_flush: bool = False
    device: int = 0

    def run(self, measure_inputs: Sequence[Any], build_results: Sequence[Any], verbose: int = 1) -> list[MeasureResult]:
        """A result for each input."""
        raise NotImplementedError


class LocalRunner(ProgramRunner):
    """A process of this machine. How often code is run is decided as it is compared with the best so far: `number`,
    `repeat` and `min_repeat_ms` are taken as a wish for more. `cooldown_interval` and `device` make no difference."""

    def run(self, measure_inputs: Sequence[Any], build_results: Sequence[Any], verbose: int = 1) -> list[MeasureResult]:
        """The results of inputs of one task or several."""
        found = []
        for given in measure_inputs:
            found += given.task.measure_states([given.state], options_of(LocalBuilder(), self))
        return found


@dataclass(eq=False)
class _Tracked:
    """The tracker of a runner's devices, whose parameters come before those of all runners."""

    key: str
    host: str
    port: int
    priority: int = 1
    n_parallel: int = 1


@dataclass(eq=False)
class RPCRunner(ProgramRunner, _Tracked):
    """Devices of the kind `key` of a tracker's."""

    def __post_init__(self) -> None:
        self._devices = Devices(**{name: value for name, value in vars(self).items() if name != "device"})

    def run(self, measure_inputs: Sequence[Any], build_results: Sequence[Any], verbose: int = 1) -> list[MeasureResult]:
        """The results by devices. Raises `RpcError` where there is no such tracker or device."""
        request_remote(self.key, self.host, self.port, self.priority, self.timeout).session.close()
        built = [BuiltResult("", (), b.error_msg or None, b.time_cost) for b in build_results]
        jobs = [given.task.job_of(given.state) for given in measure_inputs]
        return [_of_autotvm(result) for result in self._devices.run(jobs, built)]


class LocalRPCMeasureContext:
    """A runner on this machine: `context.runner`. Nothing listens for local work, so that there is no server."""

    def __init__(
        self,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        self.runner = LocalRunner(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device
        )


class MeasureCallback:
    """A callback after every batch."""


class PythonBasedMeasureCallback(MeasureCallback):
    """A callback that a program writes."""

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """A batch was measured."""
        raise NotImplementedError


@dataclass(eq=False)
class TuningOptions:
    """The budget of a search, and options of measuring."""

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: Any = "local"
    runner: Any = "local"
    measure_callbacks: Any = None

    def __post_init__(self) -> None:
        self.builder = LocalBuilder() if self.builder == "local" else self.builder
        self.runner = LocalRunner() if self.runner == "local" else self.runner
        for given, kind in ((self.builder, ProgramBuilder), (self.runner, ProgramRunner)):
            if not isinstance(given, kind):
                raise InputError(f"TuningOptions takes a {kind.__name__} or 'local', not {given!r}")
        self.measure_callbacks = list(self.measure_callbacks or ())


def result_of(trial: Trial) -> MeasureResult:
    """A trial by its classic name."""
    number = ERROR_NUMBERS[trial.failure]
    if trial.failure == TIMEOUT and not trial.run_seconds:
        number = Numbers.BUILD_TIMEOUT
    costs = [1e10 if trial.seconds is None else trial.seconds]
    return MeasureResult(costs, number, trial.reason, trial.build_seconds + trial.run_seconds, trial.time)


def _of_autotvm(result: Any) -> MeasureResult:
    if result.error_no == Numbers.NO_ERROR:
        return MeasureResult(result.costs, 0, "", result.all_cost, result.timestamp)
    return MeasureResult([FAILED], result.error_no, str(result.costs[0]), result.all_cost, result.timestamp)


#: A trial runs the reference and the best so far beside the program whose seconds a runner limits.
_BESIDE = 3


def options_of(builder: ProgramBuilder, runner: Any) -> MeasureOptions:
    """The options of this compiler's measuring that match a program's."""
    repeat = max(MeasureOptions.blocks, getattr(runner, "repeat", 1))
    cold = 64 << 20 if getattr(runner, "enable_cpu_cache_flush", False) else 0
    return MeasureOptions(
        build_seconds=builder.timeout, run_seconds=_BESIDE * runner.timeout, builders=builder.n_parallel or 0,
        blocks=repeat, cold_bytes=cold,
    )  # fmt: skip
