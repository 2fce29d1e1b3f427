"""The classic interface: logs that either stack reads, tuners, callbacks, and contexts of the best."""

from __future__ import annotations

import concurrent.futures
import io
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import tilewright as tw
from tests.autotvm.tasks import conv_module
from tests.autotvm.template.test_template import tiled
from tilewright.autotvm.classic import callback, measure, record
from tilewright.autotvm.classic.executor import Executor
from tilewright.autotvm.classic.extract import extract_from_program
from tilewright.autotvm.classic.tuner import GATuner, GridSearchTuner, RandomTuner, Tuner, XGBTuner
from tilewright.autotvm.model.trees_model import has_xgboost
from tilewright.autotvm.template.template import create
from tilewright.errors import ArtifactError, InputError, TargetError

#: A line as the classic stack writes it.
LINE = {
    "input": ["llvm -keys=cpu", "demo/matmul", [64, 64, 64, "float32"], {}],
    "config": {"index": 37, "code_hash": None, "entity": [
        ["tile_y", "sp", [-1, 4]], ["order", "re", [0, 1]], ["ann", "an", ["none"]], ["unroll", "ot", 0]]},
    "result": [[0.00015, 0.00016], 0, 0.75, 1541030400.25], "version": 0.2, "tvm_version": "0.16.dev0",
}  # fmt: skip


class Told(measure.Runner):
    """Tells of each configuration the time that its number says."""

    def run(self, measure_inputs: Any, build_results: Any) -> list[measure.MeasureResult]:
        return [measure.MeasureResult((1e-3 * (1 + i.config.index),), 0, 0.1, 7.0) for i in measure_inputs]


def option() -> dict[str, Any]:
    return measure.measure_option("local", Told())


def test_a_line_of_the_classic_stack_is_read_and_written_the_same() -> None:
    pair = record.decode(json.dumps(LINE))
    assert pair is not None
    inp, result = pair
    assert inp.task.workload == ("demo/matmul", 64, 64, 64, "float32")
    assert inp.config["tile_y"].size == [-1, 4] and result.costs == (0.00015, 0.00016)
    again = json.loads(record.encode(inp, result))
    assert {k: v for k, v in again.items() if k != "tvm_version"} == {
        k: v for k, v in LINE.items() if k != "tvm_version"
    }


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"i": ["llvm", "m", [], {}], "r": [], "v": 0.1}', "a log of version 0.1 is not read"),
        ("{", "no line of a log"),
        ('{"version": 0.2}', "no line of a log"),
    ],
)
def test_what_is_no_line_is_refused_with_its_number(line: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "m.log"
    path.write_text(f"# a comment\n{json.dumps(LINE)}\n{line}\n")
    with pytest.raises(ArtifactError, match=f"m.log, line 3: .*{reason}"):
        list(record.load_from_file(path))


def test_a_missing_log_and_another_protocol_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="this log cannot be read"):
        list(record.load_from_file(tmp_path / "m.log"))
    with pytest.raises(ArtifactError, match="not 'csv'"):
        record.decode(json.dumps(LINE), "csv")


def test_a_failed_measurement_has_the_cost_of_failures() -> None:
    pair = record.decode(json.dumps(LINE))
    assert pair is not None
    failed = pair[1]._replace(costs=("it hung",), error_no=measure.MeasureErrorNo.RUN_TIMEOUT)
    assert json.loads(record.encode(pair[0], failed))["result"][:2] == [[1e9], 7]


@pytest.mark.parametrize("kind", [RandomTuner, GATuner, GridSearchTuner, XGBTuner])
def test_each_tuner_measures_as_often_as_it_is_told_and_keeps_the_best(kind: type[Tuner]) -> None:
    if kind is XGBTuner and not has_xgboost():
        pytest.skip("xgboost is not installed (the extra `tune`)")
    task, log, monitor = create("tests/product", args=(8,)), io.StringIO(), callback.Monitor()
    tuner = kind(task)
    tuner.tune(20, option(), callbacks=[callback.log_to_file(log), monitor])
    lines = log.getvalue().splitlines()
    indices = [json.loads(line)["config"]["index"] for line in lines]
    assert len(set(indices)) == len(lines) == len(monitor.trial_scores()) == 20
    assert tuner.best_config.index == min(indices)
    assert tuner.best_flops == pytest.approx(task.flop / (1e-3 * (1 + min(indices))))


def test_tuning_stops_early_where_nothing_gets_better() -> None:
    tuner, count = GridSearchTuner(create("tests/product", args=(8,))), list[int]()
    tuner.tune(400, option(), early_stopping=10, callbacks=[lambda t, i, r: count.append(len(i))])
    assert sum(count) < 30


def test_a_tuner_learns_from_history() -> None:
    task = create("tests/product", args=(8,))
    pairs = [
        (measure.MeasureInput(task.target, task, task.config_space.get(i)), measure.MeasureResult((1e-3,), 0, 0.1, 0.0))
        for i in (3, 4)
    ]
    tuner = RandomTuner(task)
    tuner.load_history(pairs)
    assert tuner.explorer.seen == {3, 4}


def test_the_best_of_a_log_is_what_the_template_gets(tmp_path: Path) -> None:
    task, path, best = create("tests/product", args=(8,)), tmp_path / "all.log", tmp_path / "best.log"
    GridSearchTuner(task).tune(30, option(), callbacks=[callback.log_to_file(path)])
    record.pick_best(path, best)
    assert len(best.read_text().splitlines()) == 1
    with record.apply_history_best(best) as context:
        assert context.query(task.target, task.workload).index == 0
        assert len(tiled(8)[1]) == 3


def test_kernels_of_a_network_are_tuned_and_applied_by_the_classic_names(tmp_path: Path) -> None:
    (task,) = extract_from_program(conv_module(), {}, "cpu", ops=["nn.conv2d"])
    assert len(task.config_space) > 1 and task.flop > 0
    last = len(task.config_space) - 1
    inp = measure.MeasureInput(task.target, task, task.config_space.get(last))
    path = tmp_path / "conv.log"
    path.write_text(record.encode(inp, measure.MeasureResult((1e-9,), 0, 0.1, 0.0)) + "\n")
    with record.apply_history_best(path):
        tuned = tw.compile(conv_module(), cache=False)
    kernels = [dict(k.choice["config"]) for k in tuned.manifest.kernels if k.choice]  # type: ignore[attr-defined]
    assert dict(task.points.plain(last)) in kernels


def test_a_local_runner_measures() -> None:
    task = create("tests/product", args=(16,))
    batch = measure.create_measure_batch(task, measure.measure_option())
    try:
        inputs = [measure.MeasureInput(task.target, task, task.config_space.get(i)) for i in (0, 7)]
        results = batch(inputs)
    finally:
        batch.close()
    assert [result.error_no for result in results] == [0, 0]
    assert all(result.costs[0] > 0 for result in results)


def test_a_task_for_a_device_that_is_not_here_cannot_be_measured() -> None:
    from tilewright.target import Target

    task = create("tests/product", args=(8,), target=Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"))
    with pytest.raises(TargetError, match="cannot be built and run on this machine"):
        RandomTuner(task).tune(1, measure.measure_option())


def test_wrong_options_are_refused() -> None:
    with pytest.raises(InputError, match="takes a Runner or 'local'"):
        measure.measure_option("local", "remote")
    with pytest.raises(InputError, match="build_func must be 'default'"):
        measure.LocalBuilder(build_func="ndk")
    with pytest.raises(InputError, match=r"range_idx=.* is not within the .* configurations of"):
        RandomTuner(create("tests/product", args=(8,)), range_idx=(3, 2))
    with pytest.raises(InputError, match="measure_option"):
        RandomTuner(create("tests/product", args=(8,))).tune(1, "local")  # type: ignore[arg-type]


def test_progress_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    task = create("tests/product", args=(8,))
    GridSearchTuner(task).tune(8, option(), callbacks=[callback.progress_bar(8, prefix="[Task]")])
    assert "[Task] best" in capsys.readouterr().err


def test_a_runner_measures_with_the_programs_own_arrays_by_the_programs_own_executor() -> None:
    task = create("tests/product", args=(8,))
    inputs = [measure.MeasureInput(task.target, task, task.config_space.get(point)) for point in (0, 5)]
    arrays = [np.full((8, 8), value) for value in (1.0, 2.0, 0.0)]

    class Here(Executor):
        given: ClassVar[list[Any]] = []

        def submit(self, func: Any, *args: Any, **kwargs: Any) -> Any:
            self.given.append(kwargs["ref_input"])
            future: Any = concurrent.futures.Future()
            future.set_result(func(*args, **kwargs))
            return future

    runner = measure.LocalRunner()
    runner.ref_input = arrays
    built = measure.LocalBuilder().build(inputs)
    assert [result.error_no for result in runner.run(inputs, built)] == [0, 0]
    runner.executor = Here()
    failed = built[1]._replace(error=ValueError("no"))
    numbers = [result.error_no for result in runner.run(inputs, [built[0], failed])]
    assert numbers == [0, measure.MeasureErrorNo.INSTANTIATION_ERROR] and Here.given == [arrays, arrays]
    runner.executor, runner.ref_input = None, arrays[:2]
    with pytest.raises(InputError, match="ref_input: tests/product takes arrays of the shapes"):
        runner.run(inputs, built)


def test_what_an_executor_fails_at_is_a_result() -> None:
    class Late(Executor):
        def submit(self, func: Any, *args: Any, **kwargs: Any) -> Any:
            future: Any = concurrent.futures.Future()
            future.set_exception(RuntimeError("the device is gone"))
            return future

    runner = measure.LocalRunner()
    runner.executor = Late()
    (result,) = runner.run([None], [None])
    assert result.error_no == measure.MeasureErrorNo.RUN_TIMEOUT and "gone" in str(result.costs[0])
