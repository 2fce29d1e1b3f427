"""Programs that bring rules of their own to the search of `tvm.auto_scheduler`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError

ROWS, COLUMNS, TERMS, BLOCK = 8, 24, 16, 4


def _weight() -> Any:
    pytest.importorskip("scipy", reason="random_bsr_matrix makes matrices of scipy")
    from tvm.topi.sparse.utils import random_bsr_matrix

    return random_bsr_matrix(COLUMNS, TERMS, BLOCK, 1, density=0.5, dtype="float32")


def _task(weight: Any, inputs: bool = True) -> Any:
    """A product with a sparse weight, bias and ReLU, as a task."""
    import tvm
    from tvm import auto_scheduler, te, topi

    def product(data: Any, indices: Any, indptr: Any) -> Any:
        x, bias = te.placeholder((ROWS, TERMS)), te.placeholder((ROWS, COLUMNS))
        parts = [te.placeholder(data), te.placeholder(indices, "int32"), te.placeholder(indptr, "int32")]
        out = topi.nn.sparse_dense(x, *parts)
        out = te.compute((ROWS, COLUMNS), lambda i, j: out[i, j] + bias[i, j], name="biased")
        return [x, *parts, bias, topi.nn.relu(out)]

    auto_scheduler.register_workload("tests/sparse", product, override=True)
    parts = {f"w_{name}": tvm.nd.array(getattr(weight, name)) for name in ("data", "indices", "indptr")}
    shapes = tuple(part.shape for part in parts.values())
    given = {"task_inputs": parts, "task_inputs_save_to_file": True} if inputs else {}
    return auto_scheduler.SearchTask(func="tests/sparse", args=shapes, target="llvm", **given)


def _rule() -> Any:
    from tvm import auto_scheduler
    from tvm.auto_scheduler import _ffi_api

    rules, tag = auto_scheduler.PreloadCustomSketchRule, "sparse_dense_sp_rhs_bsrmm"

    def meets(policy: Any, state: Any, stage: int) -> int:
        state = auto_scheduler.loop_state.State(state, policy.search_task.compute_dag)
        return int(rules.APPLY_AND_SKIP_REST if state.stages[stage].op.tag == tag else rules.PASS)

    def apply(policy: Any, state: Any, stage: int) -> Any:
        s = auto_scheduler.loop_state.State(state, policy.search_task.compute_dag)
        product, blocks = s.stages[stage].op, s.stages[stage - 1].op
        readers = _ffi_api.SearchPolicyUtilsGetConsumers(policy.search_task, s.state_object, stage)
        last = int(readers.items()[0][0])
        assert _ffi_api.SearchPolicyUtilsIsElementwiseMatch(policy.search_task, s.state_object, stage, last)
        s.compute_inline(product)
        rows, block, within, positions, c = s[blocks].iters
        outer, inner = s.split(blocks, rows, [None])
        i, j = s[s.stages[last].op].iters
        out = s.stages[last].op
        i_outer, i_inner = s.follow_split(out, i, len(s.transform_steps) - 1, 1)
        s.reorder(blocks, [outer, block, positions, inner, within, c])
        s.reorder(out, [i_outer, j, i_inner])
        s.compute_at(blocks, out, i_outer)
        return [[s.state_object, stage - 2]]

    return rules(meets, apply, "rows of blocks")


@pytest.mark.parametrize("model", ["random", "trees", "own"])
def test_rule_of_a_program(tmp_path: Path, model: str) -> None:
    import tvm
    from tvm import auto_scheduler

    class ByLength(auto_scheduler.cost_model.PythonBasedModel):
        def update(self, inputs: Any, results: Any) -> None:
            pass

        def predict(self, task: Any, states: Any) -> Any:
            return [len(state.transform_steps) for state in states]

    models = {"random": auto_scheduler.RandomModel, "trees": auto_scheduler.XGBModel, "own": ByLength}
    weight, log = _weight(), str(tmp_path / "log.json")
    task = _task(weight)
    policy = auto_scheduler.SketchPolicy(task, models[model](), init_search_callbacks=[_rule()])
    (sketch,) = policy.generate_sketches()
    assert [step[4] for step in sketch.transform_steps if step[0] == "SP"] == [[None]]
    states = policy.sample_initial_population()
    assert states and not any(None in step[4] for s in states for step in s.transform_steps if step[0] == "SP")
    options = auto_scheduler.TuningOptions(3, measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=0)
    task.tune(options, policy)
    schedule, args = task.apply_best(log)
    rng = np.random.default_rng(0)
    x, bias = rng.standard_normal((ROWS, TERMS), np.float32), rng.standard_normal((ROWS, COLUMNS), np.float32)
    out = tvm.nd.empty((ROWS, COLUMNS))
    values = [x, weight.data, weight.indices, weight.indptr, bias]
    tvm.build(schedule, args, "llvm")(*map(tvm.nd.array, values), out)
    want = np.maximum(x @ np.asarray(weight.todense()).T + bias, 0)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-5)


def test_without_a_rule_lengths_must_be_known() -> None:
    from tvm import auto_scheduler

    task = _task(_weight(), inputs=False)
    with pytest.raises(UnsupportedError, match="symbolic dimension"):
        task.tune(auto_scheduler.TuningOptions(2, verbose=0))


def test_input_that_the_task_has_not() -> None:
    import tvm
    from tvm import auto_scheduler

    task = _task(_weight(), inputs=False)
    with pytest.raises(InputError, match=r"'w_data', float32 of shape .5., is not one of the inputs"):
        auto_scheduler.SearchTask(
            workload_key=task.workload_key, target="llvm", task_inputs={"w_data": tvm.nd.array(np.zeros(5, "float32"))}
        )


def test_states_by_hand_are_measured() -> None:
    from tvm import auto_scheduler, te

    def double(n: int) -> Any:
        a = te.placeholder((n,), name="a")
        return [a, te.compute((n,), lambda i: a[i] * 2, name="b")]

    auto_scheduler.register_workload("tests/double", double, override=True)
    task = auto_scheduler.SearchTask(func="tests/double", args=(64,), target="llvm")
    state = task.compute_dag.get_init_state()
    b = state.stage_ops[1]
    _, inner = state.split(b, state[b].iters[0], [16])
    state.vectorize(b, inner)
    inputs = [auto_scheduler.MeasureInput(task, one) for one in (state, task.compute_dag.init_state)]
    runner = auto_scheduler.LocalRunner(timeout=60)
    results = runner.run(inputs, auto_scheduler.LocalBuilder().build(inputs))
    assert [result.error_no for result in results] == [0, 0] and "costs" in str(results[0])
