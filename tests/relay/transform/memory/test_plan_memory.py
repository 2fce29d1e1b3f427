"""The memory plan: evaluated in real bytes, and its guarantees checked directly."""

import numpy as np
import pytest

from tests.relay.helpers import feed, module, run_plan, small_cnn, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.errors import UnsupportedError
from tilewright.relay.transform import alter_layout, fold_constant, fold_scale_axis, simplify_expr, simplify_inference
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.memory.plan_memory import ALIGNMENT, MemoryPlan, Where, plan_memory

nn = relay.nn


def _plan(body: relay.Expr | relay.IRModule) -> MemoryPlan:
    """The plan of the fused graph, after checking that running by it gives the right results."""
    mod = body if isinstance(body, relay.IRModule) else module(body)
    fused = fuse_ops(mod)
    plan = plan_memory(fused)
    inputs = feed(mod)
    for expected, got in zip(relay.interpret(mod, inputs), run_plan(fused, plan, inputs), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    return plan


def _kernel(x: relay.Expr) -> relay.Expr:
    """A call that fuses with nothing before or after it."""
    return nn.softmax(x)


def test_a_chain_alternates_between_two_positions() -> None:
    x: relay.Expr = relay.var("x", shape=(4, 16))
    for _ in range(6):
        x = _kernel(x)
    plan = _plan(x)
    assert len(plan.order) == 6 and plan.arena_bytes == 2 * 256
    assert plan.storage[plan.order[-1]][0].where is Where.OUTPUT


def test_positions_are_aligned_and_inputs_and_constants_are_outside() -> None:
    x = relay.var("x", shape=(3,))
    plan = _plan(_kernel(relay.add(_kernel(_kernel(x)), weights(3))))
    assert plan.arena_bytes % ALIGNMENT == 0
    positions = [position for some in plan.storage.values() for position in some]
    assert all(p.position % ALIGNMENT == 0 for p in positions if p.where is Where.ARENA)
    assert len(plan.constants) == 1 and plan.arguments(plan.order[0])[0].where is Where.INPUT


def test_reshapes_cost_nothing() -> None:
    x = relay.var("x", shape=(4, 6))
    plan = _plan(relay.reshape(_kernel(relay.reshape(_kernel(x), (24,))), (2, 12)))
    assert len(plan.order) == 2
    assert plan.copies == ()


def test_outputs_that_no_kernel_writes_are_copied() -> None:
    x = relay.var("x", shape=(4,))
    y = _kernel(x)
    plan = _plan(relay.Tuple([x, y, y, relay.const(np.ones(3, "float32")), relay.reshape(x, (2, 2))]))
    assert [index for _, index in plan.copies] == [0, 2, 3, 4]


def test_whole_slices_and_splits_are_views() -> None:
    x = relay.var("x", shape=(3, 4))
    y = _kernel(x)
    rows = [_kernel(relay.strided_slice(y, [i], [i + 1], axes=[0])) for i in range(3)]
    first, second = (_kernel(relay.split(y, [1], axis=0)[i]) for i in range(2))
    plan = _plan(relay.Tuple([*rows, first, second]))
    assert len(plan.order) == 6


def test_columns_are_copied_out() -> None:
    y = _kernel(relay.var("x", shape=(3, 4)))
    plan = _plan(relay.Tuple([_kernel(relay.strided_slice(y, [0, 1], [3, 3])), relay.strided_slice(y, [1], [2])]))
    assert len(plan.order) == 3 and len(plan.copies) == 1


def test_parts_of_a_concatenation_are_written_in_place() -> None:
    x = relay.var("x", shape=(1, 4))
    a, b = _kernel(x), _kernel(_kernel(x))
    joined = relay.concatenate([a, b], axis=0)
    plan = _plan(relay.Tuple([nn.dense(joined, weights(2, 4)), relay.add(a, b)]))
    assert len(plan.order) == 5
    first, _, second = (plan.storage[call][0].position for call in plan.order[:3])
    assert second == first + 16


def test_growing_concatenations_share_one_memory() -> None:
    """As in a DenseNet: each layer reads all results before it."""
    features: list[relay.Expr] = [_kernel(relay.var("x", shape=(1, 8)))]
    for _ in range(5):
        joined = relay.concatenate(features, axis=1) if len(features) > 1 else features[0]
        features.append(_kernel(nn.dense(joined, weights(8, 8 * len(features)))))
    plan = _plan(_kernel(relay.concatenate(features, axis=1)))
    assert len(plan.order) == 12


@pytest.mark.parametrize(
    "fields",
    [
        lambda a, b, x: [a, a],
        lambda a, b, x: [a, x],
        lambda a, b, x: [a, relay.const(np.ones((1, 4), "float32"))],
        lambda a, b, x: [a, relay.strided_slice(relay.concatenate([a, b], axis=0), [1], [2])],
    ],
)
def test_concatenations_that_need_a_kernel(fields: object) -> None:
    x = relay.var("x", shape=(1, 4))
    a, b = _kernel(x), _kernel(nn.relu(x))
    joined = relay.concatenate(fields(a, b, x), axis=0)  # type: ignore[operator]
    _plan(relay.Tuple([_kernel(joined), relay.concatenate([b, a], axis=0), joined]))


@pytest.mark.parametrize("width", [4, 64])
def test_parts_are_aligned_as_kernels_want_them(width: int) -> None:
    x = relay.var("x", shape=(1, width))
    joined = relay.concatenate([_kernel(x), _kernel(nn.relu(x))], axis=1)
    whole = _kernel(joined)
    parts = relay.split(_kernel(whole), 2, axis=1)
    fused = fuse_ops(module(relay.add(parts[0], parts[1])))
    free, aligned = plan_memory(fused), plan_memory(fused, 256, 256)
    assert all(where.position % 256 == 0 for call in aligned.order for where in aligned.arguments(call))
    copied = len(aligned.order) - len(free.order)
    assert copied == (0 if 4 * width % 256 == 0 else 2)  # parts of 256 bytes stay where they are computed


def test_returned_parts_and_results_of_concatenations() -> None:
    x = relay.var("x", shape=(1, 4))
    a, b = _kernel(x), _kernel(nn.relu(x))
    _plan(relay.Tuple([a, relay.concatenate([a, b], axis=0)]))
    _plan(relay.Tuple([relay.reshape(relay.concatenate([b, a], axis=0), (8,)), _kernel(b)]))


def test_network_after_all_passes() -> None:
    mod = small_cnn()
    for graph_pass in (simplify_inference, fold_scale_axis, simplify_expr, fold_constant):
        mod = relay.transform.infer_type(graph_pass(mod))
    plan = _plan(relay.transform.infer_type(alter_layout(mod, backend_of(None))))
    assert plan.copies == ()
    assert plan.arena_bytes == 4 * 16 * 64 * 4  # two inputs of the residual add, and the memory its result is joined in


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_keep_their_values_in_planned_memory(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values: list[relay.Expr] = [relay.var("x", shape=(1, 4)), relay.var("y", shape=(1, 4))]
    for _ in range(16):
        a, b, c = (values[i] for i in rng.integers(0, len(values), 3))
        kind = rng.integers(0, 6)
        if kind == 0:
            values.append(_kernel(a))
        elif kind == 1:
            values.append(relay.reshape(relay.reshape(a, (2, 2)), (1, 4)))
        elif kind == 2:
            joined = relay.concatenate([a, b, c], axis=0)
            start = int(rng.integers(0, 3))
            values.append(relay.strided_slice(joined, [start], [start + 1], axes=[0]))
        elif kind == 3:
            parts = relay.split(relay.concatenate([a, b], axis=1), 2, axis=1)
            values.append(relay.maximum(parts[0], parts[1]))
        else:
            values.append(relay.add(a, _kernel(b)))
    _plan(relay.Tuple(values[-4:]))


def test_what_the_executor_cannot_run_is_named() -> None:
    x = relay.var("x", shape=())
    with pytest.raises(UnsupportedError, match="cannot run If"):
        plan_memory(module(relay.If(relay.const(True), x, x)))


def test_thousands_of_values() -> None:
    x: relay.Expr = relay.var("x", shape=(16,))
    for _ in range(1500):
        x = relay.add(_kernel(x), 1.0)
    assert plan_memory(fuse_ops(module(x))).arena_bytes <= 3 * ALIGNMENT
