"""Programs for `tvm.autotvm`: the tutorial's matrix product, a network's tasks, and records that are looked up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError


def matmul_template() -> Any:
    """The template of the tutorial."""
    from tvm import autotvm, te

    @autotvm.template("tests/tutorial_matmul")
    def matmul(n, l, m, dtype):  # type: ignore[no-untyped-def]
        a = te.placeholder((n, l), name="A", dtype=dtype)
        b = te.placeholder((l, m), name="B", dtype=dtype)
        k = te.reduce_axis((0, l), name="k")
        c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        s = te.create_schedule(c.op)
        y, x = s[c].op.axis
        cfg = autotvm.get_config()
        cfg.define_split("tile_y", y, num_outputs=2)
        cfg.define_split("tile_x", x, num_outputs=2)
        yo, yi = cfg["tile_y"].apply(s, c, y)
        xo, xi = cfg["tile_x"].apply(s, c, x)
        s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
        return s, [a, b, c]

    return matmul


def test_the_tutorials_matrix_product_is_tuned_and_built(tmp_path: Path) -> None:
    import tvm
    import tvm.testing
    from tvm import autotvm

    matmul, log = matmul_template(), str(tmp_path / "matmul.log")
    task = autotvm.task.create("tests/tutorial_matmul", args=(32, 32, 32, "float32"), target="llvm")
    assert len(task.config_space) == 36 and "tile_y" in str(task.config_space)
    option = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=5))
    tuner = autotvm.tuner.RandomTuner(task)
    tuner.tune(n_trial=4, measure_option=option, callbacks=[autotvm.callback.log_to_file(log)])
    with autotvm.apply_history_best(log) as context:
        best = context.query(task.target, task.workload)
        assert best.to_json_dict() == tuner.best_config.to_json_dict()
        with tvm.target.Target("llvm"):
            s, args = matmul(32, 32, 32, "float32")
            func = tvm.build(s, args)
    a, b = (np.random.default_rng(seed).random((32, 32), np.float32) for seed in (0, 1))
    c = tvm.nd.empty((32, 32))
    func(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


def test_tasks_of_a_network_are_tuned_and_the_network_built_with_the_best(tmp_path: Path) -> None:
    import tvm
    from tvm import autotvm, relay

    x, w = relay.var("x", shape=(1, 16, 8, 8)), relay.var("w", shape=(16, 16, 1, 1))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.conv2d(x, w)))
    params = {"w": tvm.nd.array(np.ones((16, 16, 1, 1), "float32"))}
    tasks = autotvm.task.extract_from_program(
        mod["main"], target="llvm", params=params, ops=(relay.op.get("nn.conv2d"),)
    )
    assert len(tasks) == 1 and len(tasks[0].config_space) > 1
    log = str(tmp_path / "conv.log")
    tuner = autotvm.tuner.GridSearchTuner(tasks[0])
    tuner.tune(n_trial=2, measure_option=autotvm.measure_option(), callbacks=[autotvm.callback.log_to_file(log)])
    with autotvm.apply_history_best(log), tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params=params)
    from tvm.contrib import graph_executor

    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", np.ones((1, 16, 8, 8), "float32"))
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), 16.0)


def test_tuners_work_with_a_runner_of_the_programs_own() -> None:
    from tvm import autotvm
    from tvm.testing.autotvm import DummyRunner, get_sample_records, get_sample_task

    task, target = get_sample_task()
    option = autotvm.measure_option(autotvm.LocalBuilder(), DummyRunner())
    tuner = autotvm.tuner.GATuner(task, pop_size=4)
    tuner.tune(12, option)
    assert tuner.best_flops > 0
    records = get_sample_records(10)
    context = autotvm.task.dispatcher.ApplyHistoryBest(records)
    assert context.query(target, task.workload) == records[0][0].config


def test_records_are_text_and_back() -> None:
    from tvm import autotvm
    from tvm.testing.autotvm import get_sample_task

    task, target = get_sample_task()
    inp = autotvm.measure.MeasureInput(target, task, task.config_space.get(0))
    result = autotvm.measure.MeasureResult((2.0, 2.23, 0.23), autotvm.measure.MeasureErrorNo.NO_ERROR, 2.3, 0)
    decoded = autotvm.record.decode(autotvm.record.encode(inp, result))
    assert decoded is not None
    assert autotvm.record.measure_str_key(inp) == autotvm.record.measure_str_key(decoded[0])
    assert autotvm.record.measure_str_key(inp) != autotvm.record.measure_str_key(
        inp._replace(config=task.config_space.get(2))
    )
    assert decoded[1] == result


def test_a_fallback_context_of_the_programs_own() -> None:
    from tvm import autotvm
    from tvm.autotvm.task.space import FallbackConfigEntity, SplitEntity

    matmul = matmul_template()

    class Mine(autotvm.FallbackContext):
        def _query_inside(self, target: Any, workload: Any) -> Any:
            config = FallbackConfigEntity()
            config["tile_y"] = SplitEntity([-1, 8])
            return config

    with Mine():
        s, args = matmul(16, 16, 16, "float32")
    assert [int(leaf.dom.extent) for leaf in s[args[2]].leaf_iter_vars if leaf.dom is not None] or s is not None


def test_a_classic_name_that_is_not_there_is_told() -> None:
    from tvm import autotvm
    from tvm.autotvm.database import RedisDatabase

    with pytest.raises(UnsupportedError, match=r"RedisDatabase .* keep measurements in a log"):
        RedisDatabase()
    with pytest.raises(InputError, match="request_remote needs a tracker"):
        autotvm.measure.request_remote("key")


def test_a_graph_tuner_writes_a_log_that_networks_are_built_with(tmp_path: Path) -> None:
    import tvm
    from tvm import autotvm, relay
    from tvm.autotvm.graph_tuner import DPTuner, PBQPTuner

    x, w, v = relay.var("x", shape=(1, 16, 8, 8)), relay.var("w", shape=(16, 16, 3, 3)), relay.var("v")
    first = relay.nn.conv2d(x, w, padding=(1, 1), channels=16, kernel_size=(3, 3))
    net = relay.Function([x, w, v], relay.nn.conv2d(first, v, channels=16, kernel_size=(1, 1)))
    mod = tvm.IRModule.from_expr(net)
    generator = np.random.default_rng(0)
    params = {
        name: tvm.nd.array(generator.random(shape, np.float32))
        for name, shape in (("w", (16, 16, 3, 3)), ("v", (16, 16, 1, 1)))
    }
    log, best = str(tmp_path / "kernels.log"), str(tmp_path / "graph.log")
    for task in autotvm.task.extract_from_program(mod["main"], target="llvm", params=params):
        callbacks = [autotvm.callback.log_to_file(log)]
        autotvm.tuner.GridSearchTuner(task).tune(2, autotvm.measure_option(), callbacks=callbacks)
    for kind in (DPTuner, PBQPTuner):
        executor = kind(mod["main"], {"x": (1, 16, 8, 8)}, log, [relay.op.get("nn.conv2d")], "llvm")
        executor.benchmark_layout_transform(min_exec_num=10)
        with pytest.raises(InputError, match="call run"):
            executor.get_optimal_records()
        executor.run(seconds=1)
        executor.write_opt_sch2record_file(best)
    lines = Path(best).read_text().splitlines()
    assert len(lines) >= 2
    outputs = []
    for context in (autotvm.apply_graph_best(best), autotvm.FallbackContext()):
        with context, tvm.transform.PassContext(opt_level=3):
            lib = relay.build(mod, target="llvm", params=params)
        from tvm.contrib import graph_executor

        module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        module.set_input("x", np.ones((1, 16, 8, 8), "float32"))
        module.run()
        outputs.append(module.get_output(0).numpy())
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-4)


def test_tuners_that_take_a_part_of_the_space() -> None:
    from tvm import autotvm
    from tvm.testing.autotvm import DummyRunner, get_sample_task

    task, _ = get_sample_task()
    option = autotvm.measure_option(builder=autotvm.LocalBuilder(), runner=DummyRunner())
    for kind in (autotvm.tuner.GridSearchTuner, autotvm.tuner.RandomTuner):
        whole = kind(task)
        assert (whole.index_offset, whole.range_length) == (0, len(task.config_space))
        tuner, seen = kind(task, range_idx=(8, 15)), []
        tuner.tune(20, option, callbacks=[lambda _, inputs, __, seen=seen: seen.extend(i.config.index for i in inputs)])
        assert sorted(seen) == sorted(tuner.visited) == list(range(8, 16))
        assert tuner.counter == tuner.range_length == 8 and not tuner.has_next() and tuner.best_flops > 0
        with pytest.raises(InputError, match=r"range_idx=\(5, 64\) is not within the 64 configurations"):
            kind(task, range_idx=(5, 64))
