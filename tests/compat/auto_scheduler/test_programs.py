"""Programs for `tvm.auto_scheduler`: the tutorial's product, states by hand, logs of the classic stack, networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArtifactError, InputError, ScheduleError

_KEY = '["tests/mm_relu", 64, 64, 64]'
#: A line as the classic stack writes it.
_CLASSIC = (
    '{"i": [["[\\"tests/mm_relu\\", 64, 64, 64]", "llvm -keys=cpu", [1, 64, 64, 0, 0, 0, 0, 0], "", 1, []], [[], ['
    '["SP", 2, 0, 64, [4, 1, 8], 1], ["SP", 2, 4, 64, [8, 2, 2], 1], ["SP", 2, 8, 64, [32], 1], '
    '["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], ["FU", 2, [0, 1, 2, 3]], ["AN", 2, 0, 3], ["AN", 3, 0, 3], '
    '["PR", 2, 0, "auto_unroll_max_step$16"], ["AN", 2, 6, 2]]]], "r": [[0.001], 0, 0.2, 1600000000], "v": "v0.6"}\n'
)


@pytest.fixture
def mm_relu() -> str:
    """The key of a product with ReLU, registered."""
    from tvm import auto_scheduler, te, tir

    def func(n: int, m: int, depth: int) -> Any:
        a, b = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
        k = te.reduce_axis((0, depth), name="k")
        c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        return [a, b, te.compute((n, m), lambda i, j: tir.max(c[i, j], tir.const(0.0, "float32")), name="D")]

    auto_scheduler.register_workload("tests/mm_relu", func, override=True)
    return str(auto_scheduler.make_workload_key("tests/mm_relu", (64, 64, 64)))


def run(schedule: Any, args: Any) -> None:
    """Build a schedule of the product, and compare what it gives."""
    import tvm

    a, b = (np.random.default_rng(seed).standard_normal((64, 64)).astype("float32") for seed in (0, 1))
    out = tvm.nd.empty((64, 64))
    tvm.build(schedule, args, "llvm")(tvm.nd.array(a), tvm.nd.array(b), out)
    np.testing.assert_allclose(out.numpy(), np.maximum(a @ b, 0), rtol=1e-3, atol=1e-4)


def test_the_tutorials_product_is_searched_built_and_searched_on(mm_relu: str, tmp_path: Path) -> None:
    from tvm import auto_scheduler

    log = str(tmp_path / "log.json")
    task = auto_scheduler.SearchTask(workload_key=mm_relu, target="llvm")
    assert "C(i, j)" in str(task.compute_dag) and task.compute_dag.flop_ct > 2 * 64**3
    callbacks = [auto_scheduler.RecordToFile(log)]
    task.tune(auto_scheduler.TuningOptions(4, num_measures_per_round=2, measure_callbacks=callbacks, verbose=0))
    run(*task.apply_best(log))
    assert "split" in task.print_best(log)
    inp, res = auto_scheduler.load_best_record(log, task.workload_key, task.target)
    assert res.error_no == 0 and inp.task.workload_key == mm_relu
    recovered = auto_scheduler.measure.recover_measure_input(inp, rebuild_state=True)
    assert "C" in str(recovered.state)

    model = auto_scheduler.XGBModel()
    pytest.importorskip("xgboost", reason="boosted trees are trained by it")
    model.update_from_file(log)
    preload = auto_scheduler.PreloadMeasuredStates(log)
    policy = auto_scheduler.SketchPolicy(task, model, init_search_callbacks=[preload])
    before = {str(one.state.transform_steps) for one, _ in auto_scheduler.load_records(log)}
    task.tune(auto_scheduler.TuningOptions(2, measure_callbacks=callbacks, verbose=0), search_policy=policy)
    steps = [str(one.state.transform_steps) for one, _ in auto_scheduler.load_records(log)]
    assert len(steps) == 6 and not before & set(steps[4:])
    states = policy.sample_initial_population()
    assert len(model.predict(task, states)) == len(states)
    assert len(policy.evolutionary_search(states, 3)) == 3


def test_states_are_made_by_hand(mm_relu: str) -> None:
    from tvm import auto_scheduler

    dag = auto_scheduler.ComputeDAG(mm_relu)
    _, _, c, d = dag.ops
    state = dag.get_init_state()
    i, j, k = state[c].iters
    i_outer, i_inner = state.split(c, i, [8])
    j_outer, j_inner = state.split(c, j, [16])
    k_outer, k_inner = state.split(c, k, [4])
    assert [axis.range.extent for axis in (i_outer, j_inner)] == [8, 16]
    state.reorder(c, [i_outer, j_outer, k_outer, i_inner, k_inner, j_inner])
    fused = state.fuse(c, [i_outer, j_outer])
    state.parallel(c, fused)
    state.vectorize(c, j_inner)
    state.unroll(c, k_inner)
    state.pragma(c, fused, "auto_unroll_max_step$16")
    copy = state.copy()
    state.parallel(d, state[d].iters[0])
    assert len(copy.transform_steps) == len(state.transform_steps) - 1
    run(*dag.apply_steps_from_state(state))
    assert "parallel" in str(dag.infer_bound_from_state(state))
    assert "vectorize" in dag.print_python_code_from_state(state)
    with pytest.raises(ScheduleError, match=r"no loop of C; its loops are"):
        state.split(c, i, [2])


def test_stages_move_and_are_cached(mm_relu: str) -> None:
    from tvm import auto_scheduler

    dag = auto_scheduler.ComputeDAG(mm_relu)
    state = dag.get_init_state()
    a, _, c, d = dag.ops
    outer, _ = state.split(d, state[d].iters[0], [8])
    state.compute_at(c, d, outer)
    cached = state.cache_read(a, "local", [c])
    state.compute_at(cached, d, state[d].iters[0])
    run(*dag.apply_steps_from_state(state))


def test_a_reduction_is_made_in_two_steps(mm_relu: str) -> None:
    from tvm import auto_scheduler

    dag = auto_scheduler.ComputeDAG(mm_relu)
    state, c = dag.get_init_state(), dag.ops[2]
    share, _ = state.split(c, state[c].iters[2], [16])
    partial = state.rfactor(c, share, 0)
    state.parallel(partial, state[partial].iters[0])
    run(*dag.apply_steps_from_state(state))


def test_a_log_of_the_classic_stack_is_followed(mm_relu: str, tmp_path: Path) -> None:
    from tvm import auto_scheduler

    log = tmp_path / "classic.json"
    log.write_text(_CLASSIC)
    run(*auto_scheduler.SearchTask(workload_key=mm_relu, target="llvm").apply_best(str(log)))
    (pair,) = auto_scheduler.load_records(str(log))
    assert auto_scheduler.measure_record.dump_record_to_string(*pair) == _CLASSIC


def test_a_network_is_tuned_and_compiled_with_what_was_found(tmp_path: Path) -> None:
    import tvm
    from tvm import auto_scheduler, relay

    x = relay.var("x", shape=(1, 16, 8, 8))
    weight = relay.const(np.random.default_rng(0).standard_normal((32, 16, 1, 1)).astype("float32"))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.conv2d(x, weight))))
    tasks, weights = auto_scheduler.extract_tasks(mod["main"], {}, "llvm")
    assert len(tasks) == 1 and weights == [1]
    log = str(tmp_path / "log.json")
    tuner = auto_scheduler.TaskScheduler(tasks, weights)
    tuner.tune(auto_scheduler.TuningOptions(3, measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=0))
    assert tuner.ct == 3 and tuner.best_costs[0] < 1
    value = np.random.default_rng(1).standard_normal((1, 16, 8, 8)).astype("float32")
    with auto_scheduler.ApplyHistoryBest(log) as best:
        assert best.query("llvm", tasks[0].workload_key) is not None
        config = {"relay.backend.use_auto_scheduler": True}
        with tvm.transform.PassContext(opt_level=3, config=config):
            lib = relay.build(mod, target="llvm")
    module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", value)
    module.run()
    expected = np.maximum(np.einsum("nchw,fc->nfhw", value, weight.data.numpy()[:, :, 0, 0]), 0)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-3, atol=1e-4)


def test_programs_own_models_and_callbacks_are_asked(mm_relu: str) -> None:
    from tvm import auto_scheduler

    class Model(auto_scheduler.cost_model.PythonBasedModel):  # type: ignore[misc]
        learned = 0

        def update(self, inputs: Any, results: Any) -> None:
            self.learned += len(inputs)

        def predict(self, task: Any, states: Any) -> list[float]:
            return [float(len(str(state.transform_steps))) for state in states]

    class Callback(auto_scheduler.measure.PythonBasedMeasureCallback):  # type: ignore[misc]
        called = 0

        def callback(self, policy: Any, inputs: Any, results: Any) -> None:
            self.called += len(results)

    task, model, callback = auto_scheduler.SearchTask(workload_key=mm_relu, target="llvm"), Model(), Callback()
    options = auto_scheduler.TuningOptions(2, measure_callbacks=[callback], verbose=0)
    task.tune(options, auto_scheduler.SketchPolicy(task, model))
    assert model.learned == callback.called == 2


def test_workloads_are_known_by_their_keys(mm_relu: str) -> None:
    from tvm import auto_scheduler
    from tvm.auto_scheduler import utils

    assert utils.decode_workload_key(mm_relu) == ("tests/mm_relu", (64, 64, 64))
    other = auto_scheduler.make_workload_key("tests/mm_relu", (128, 64, 64))
    pair = utils.decode_workload_key(other), utils.decode_workload_key(mm_relu)
    assert utils.calc_workload_dis_factor(*pair) == 2
    assert utils.calc_workload_dis_factor(*pair[::-1]) == float("inf")
    assert utils.get_const_tuple(auto_scheduler.ComputeDAG(mm_relu).tensors[0].shape) == (64, 64)
    assert isinstance(utils.call_func_with_timeout(5, int, args=("x",)), ValueError)
    with pytest.raises(InputError, match="no registered workload"):
        auto_scheduler.make_workload_key("tests/unknown", ())
    with pytest.raises(InputError, match="registered already"):
        auto_scheduler.register_workload("tests/mm_relu", print)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("matmul_auto_scheduler_test", (16, 16, 16)),
        ("conv2d_nchw_bn_relu_auto_scheduler_test", (1, 7, 7, 8, 8, 3, 1, 1)),
        ("max_pool2d_auto_scheduler_test", (1, 8, 8, 4, 1)),
        ("min_nm_auto_scheduler_test", (16, 8)),
        ("softmax_nm_auto_scheduler_test", (8, 16)),
        ("softmax_abcd_auto_scheduler_test", (2, 2, 8, 16)),
        ("double_matmul_auto_scheduler_test", (16,)),
        ("parallel_matmul_auto_scheduler_test", (16,)),
        ("zero_rank_reduce_auto_scheduler_test", (16,)),
        ("zero_rank_compute_auto_scheduler_test", (16,)),
    ],
)
def test_workloads_of_the_test_suite_have_sketches(name: str, args: Any) -> None:
    from tvm import auto_scheduler, testing

    func = getattr(testing.auto_scheduler, name)
    task = auto_scheduler.SearchTask(func=func, args=args, target="llvm")
    sketches = auto_scheduler.SketchPolicy(task).generate_sketches()
    assert sketches
    for state in sketches[:3]:
        assert "for" in str(state) or name.startswith("zero_rank")
        assert task.lower_state(state) is not None


def test_a_tiled_product_is_made_by_hand() -> None:
    from tvm import testing
    from tvm.auto_scheduler import _ffi_api

    dag, state = testing.auto_scheduler.get_tiled_matmul()
    assert len(state[dag.ops[-1]].iters) == 13
    assert _ffi_api.SearchPolicyUtilsIsTiled(state, 2) and not _ffi_api.SearchPolicyUtilsHasCacheWriteStage(state, 2)


def test_features_have_names(mm_relu: str) -> None:
    from tvm import auto_scheduler
    from tvm.auto_scheduler import feature

    task = auto_scheduler.SearchTask(workload_key=mm_relu, target="llvm")
    states = auto_scheduler.SketchPolicy(task).sample_initial_population()[:2]
    rows = feature.get_per_store_features_from_states(states, task)
    assert [row.shape for row in rows] == [(1, len(feature.get_per_store_feature_names()))] * 2


def test_tasks_survive_as_text(mm_relu: str) -> None:
    from tvm import auto_scheduler
    from tvm.auto_scheduler import _ffi_api

    task = auto_scheduler.SearchTask(workload_key=mm_relu, target="llvm")
    assert _ffi_api.DeserializeSearchTask(_ffi_api.SerializeSearchTask(task)).workload_key == mm_relu


def test_errors_say_what_to_do(mm_relu: str, tmp_path: Path) -> None:
    from tvm import auto_scheduler

    task = auto_scheduler.SearchTask(workload_key=mm_relu, target="llvm")
    empty = tmp_path / "empty.json"
    empty.write_text("")
    with pytest.raises(InputError, match=r"has no measurement of.*that worked"):
        task.apply_best(str(empty))
    with pytest.raises(ArtifactError, match="cannot be read"):
        task.apply_best(str(tmp_path / "none.json"))
    empty.write_text("{}\n")
    with pytest.raises(ArtifactError, match=r"line 1: no line of an auto-scheduler log"):
        task.apply_best(str(empty))
    with pytest.raises(InputError, match="needs a workload"):
        auto_scheduler.SearchTask(target="llvm")
    with pytest.raises(InputError, match="ProgramRunner"):
        auto_scheduler.TuningOptions(runner="remote")


def test_copies_of_states_know_the_stages_and_loops_of_the_first() -> None:
    from tvm import auto_scheduler
    from tvm.testing.auto_scheduler import matmul_auto_scheduler_test

    A, B, C = matmul_auto_scheduler_test(64, 64, 64)
    dag = auto_scheduler.ComputeDAG([A, B, C])
    first = dag.get_init_state()
    local = first.cache_write(C, "local")
    outer, _ = first.split(C, first[C].iters[0], [16])
    state = first.copy().copy()
    state.compute_at(local, C, outer)
    marked = state.parallel(C, outer)
    assert marked == state[C].iters[0]
    assert marked.annotation == state.ANNOTATION_TRANS_TABLE["parallel"] and first[C].iters[0].annotation == 0
    assert (state[local].compute_at, first[local].compute_at) == (2, 0)
    assert state[local].iters[0].range.extent == 64
    bounded = dag.infer_bound_from_state(state)
    assert bounded[local].iters[0].range.extent == 16 and bounded == state
    factored = dag.get_init_state()
    outer, _ = factored.split(C, factored[C].iters[2], [16])
    copy = factored.copy()
    assert len(copy[copy.rfactor(C, outer, 2)].iters) == 4 and len(factored.stages) == 3


def test_operations_are_counted_as_their_author_says() -> None:
    from tvm import auto_scheduler, te, topi

    a = te.placeholder((8, 8), name="A")
    padded = topi.nn.pad(topi.nn.relu(a), [1, 1])
    assert auto_scheduler.ComputeDAG([a, padded]).flop_ct == 64
    chosen = te.compute((8, 8), lambda i, j: te.if_then_else(a[i, j] > 0, a[i, j], 0))
    assert auto_scheduler.ComputeDAG([a, chosen]).flop_ct == 64
    stated = te.compute((8, 8), lambda i, j: a[i, j], attrs={"FLOP": 1234})
    assert auto_scheduler.ComputeDAG([a, stated]).flop_ct == 1234


def test_tasks_are_the_same_after_a_trip_through_bytes_and_logs() -> None:
    import pickle

    import tvm
    from tvm import auto_scheduler
    from tvm.auto_scheduler import workload_registry
    from tvm.testing.auto_scheduler import matmul_auto_scheduler_test

    tensors = matmul_auto_scheduler_test(16, 16, 16)
    dag = auto_scheduler.ComputeDAG(tensors)
    key = workload_registry.register_workload_tensors(dag.workload_key(), tensors)
    data = workload_registry.serialize_workload_registry_entry(key)
    del workload_registry.WORKLOAD_FUNC_REGISTRY[key]
    workload_registry.deserialize_workload_registry_entry(data)
    assert key in workload_registry.WORKLOAD_FUNC_REGISTRY
    task = auto_scheduler.SearchTask(
        compute_dag=dag, workload_key='["a-key"]', target=tvm.target.Target("llvm", "llvm")
    )
    again = pickle.loads(pickle.dumps(task))
    assert (again.workload_key, str(again.target)) == ('["a-key"]', str(task.target))
    assert str(again.compute_dag) == str(dag) and again.hardware_params.plain() == task.hardware_params.plain()
    inp = auto_scheduler.MeasureInput(task, dag.init_state)
    result = auto_scheduler.MeasureResult([0.5], 0, "", 0.2, 1)
    recorded, read = auto_scheduler.measure_record.load_record_from_string(
        auto_scheduler.measure_record.dump_record_to_string(inp, result)
    )
    assert str(recorded.task.target.host) == str(task.target.host) and read.costs[0].value == 0.5


def test_kernels_of_one_schedule_are_tasks_where_they_are_asked_for(tmp_path: Path) -> None:
    import tvm
    from tvm import auto_scheduler, relay

    x = relay.var("x", shape=(8, 64))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(x)))
    assert auto_scheduler.extract_tasks(mod["main"], {}, "llvm") == ([], [])
    log = tmp_path / "dags.json"
    (task,), weights = auto_scheduler.extract_tasks(
        mod["main"], None, "llvm", include_simple_tasks=True, dump_workload_to_dag_log=str(log)
    )
    assert weights == [1] and json.loads(log.read_text()) == {task.workload_key: str(task.compute_dag)}
    records = str(tmp_path / "log.json")
    options = auto_scheduler.TuningOptions(
        2, num_measures_per_round=2, measure_callbacks=[auto_scheduler.RecordToFile(records)], verbose=0
    )
    task.tune(options)
    assert len(list(auto_scheduler.load_records(records))) == 2
    with auto_scheduler.ApplyHistoryBest(records), tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target="llvm")
    assert library is not None
