"""Fusion by category, what must not fuse, and that values stay the same."""

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import assert_same, module, small_cnn, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.registry import OpPattern
from tilewright.relay.ir.visitor import calls, post_order
from tilewright.relay.transform.fuse.fuse_ops import FusionForm, fuse_ops, fused_name
from tilewright.target import Target

nn = relay.nn


def _groups(body: relay.Expr, max_group: int = 256) -> list[str]:
    """Names of the kernels after fusion, in order; the fused graph must compute the same."""
    mod = module(body)
    fused = fuse_ops(mod, max_group)
    assert_same(mod, fused, rtol=1e-6)
    kernels = calls(fused["main"].body)
    assert all(isinstance(call.op, relay.Function) and call.op.attrs.Primitive == 1 for call in kernels)
    return [fused_name(call.op).removeprefix("fused_") for call in kernels if isinstance(call.op, relay.Function)]


def _x(*shape: int) -> relay.Var:
    return relay.var("x", shape=shape)


def test_injective_chains_fuse() -> None:
    x = _x(4, 6)
    assert _groups(relay.exp(relay.add(relay.transpose(nn.relu(x)), weights(4)))) == ["nn_relu_transpose_add_exp"]


def test_diamond_fuses_once() -> None:
    shared = relay.exp(_x(4))
    assert _groups(relay.add(relay.sqrt(shared), relay.negative(shared))) == ["exp_sqrt_negative_add"]


def test_value_needed_outside_stays_apart() -> None:
    shared = relay.exp(_x(4))
    assert _groups(relay.Tuple([relay.sqrt(shared), shared])) == ["exp", "sqrt"]


def test_reduction_takes_what_comes_before_and_nothing_after() -> None:
    total = relay.sum(relay.exp(_x(4, 6)), axis=1)
    assert _groups(relay.sqrt(total)) == ["exp_sum", "sqrt"]


def test_convolution_takes_bias_activation_and_residual() -> None:
    x = _x(1, 4, 6, 6)
    y = relay.add(nn.conv2d(x, weights(4, 4, 3, 3), padding=(1, 1)), weights(4, 1, 1))
    assert _groups(nn.relu(relay.add(y, x))) == ["nn_conv2d_add_add_nn_relu"]


def test_two_convolutions_never_share_a_kernel() -> None:
    x = _x(1, 4, 6, 6)
    a, b = nn.conv2d(x, weights(4, 4, 1, 1)), nn.conv2d(x, weights(4, 4, 1, 1, seed=1))
    assert sorted(_groups(relay.add(a, nn.relu(b)))) == ["nn_conv2d_add", "nn_conv2d_nn_relu"]
    assert _groups(nn.conv2d(a, weights(4, 4, 1, 1))) == ["nn_conv2d", "nn_conv2d"]


def test_convolution_does_not_take_what_enlarges_its_result() -> None:
    x = _x(1, 4, 6, 6)
    gate = relay.sigmoid(nn.conv2d(nn.global_avg_pool2d(x), weights(4, 4, 1, 1)))
    assert _groups(relay.multiply(x, gate)) == ["nn_global_avg_pool2d", "nn_conv2d_sigmoid", "multiply"]


def test_cheap_values_are_repeated_and_costly_ones_are_not() -> None:
    x, row = _x(64, 64), relay.var("row", shape=(1, 64))
    assert _groups(relay.add(x, relay.negative(row))) == ["negative_add"]
    assert _groups(relay.add(x, relay.tanh(row))) == ["tanh", "add"]
    image = relay.exp(_x(1, 2, 8, 8))
    assert _groups(nn.max_pool2d(image, (3, 3), padding=(1, 1))) == ["exp", "nn_max_pool2d"]


def test_opaque_and_multiple_results() -> None:
    parts = relay.split(nn.relu(_x(4, 6)), 2, axis=1)
    assert _groups(relay.add(parts[0], parts[1])) == ["nn_relu_split_add"]
    assert _groups(relay.Tuple([relay.exp(parts[0]), parts[1]])) == ["nn_relu_split", "exp"]


def test_reshapes_at_the_rim_stand_alone_and_inside_they_fuse() -> None:
    x = _x(4, 6)
    assert _groups(relay.exp(relay.reshape(x, (24,)))) == ["reshape", "exp"]
    assert _groups(relay.squeeze(relay.exp(relay.expand_dims(x, 0)), 0)) == ["expand_dims", "exp", "squeeze"]
    inner = relay.reshape(relay.transpose(x), (2, 12))
    assert _groups(relay.transpose(inner)) == ["transpose_reshape_transpose"]


def test_slices_that_are_runs_of_memory_stand_alone() -> None:
    y = nn.dense(_x(3, 8), weights(8, 8))
    row = relay.strided_slice(y, [1], [2], axes=[0])
    assert _groups(relay.exp(row)) == ["nn_dense", "strided_slice", "exp"]
    column = relay.strided_slice(y, [1], [2], axes=[1])
    assert _groups(relay.exp(column)) == ["nn_dense", "strided_slice_exp"]
    fed = relay.strided_slice(_x(3, 8), [1], [2], axes=[0])
    assert _groups(relay.exp(fed)) == ["strided_slice_exp"]


def test_free_concatenations_stand_alone() -> None:
    x = _x(1, 4, 6, 6)
    a, b = nn.conv2d(x, weights(4, 4, 1, 1)), nn.conv2d(x, weights(2, 4, 1, 1))
    assert _groups(nn.relu(relay.concatenate([a, b], axis=1))) == ["nn_conv2d", "nn_conv2d", "concatenate", "nn_relu"]
    assert _groups(nn.relu(relay.concatenate([x, b], axis=1))) == ["nn_conv2d", "concatenate_nn_relu"]


def test_groups_are_limited_in_size() -> None:
    value: relay.Expr = _x(4)
    for _ in range(10):
        value = relay.negative(value)
    assert len(_groups(value, max_group=4)) == 3


def test_scalar_constants_stay_inside_and_others_are_parameters() -> None:
    body = fuse_ops(module(relay.add(relay.multiply(_x(4), 2.0), weights(4))))["main"].body
    assert isinstance(body, relay.Call) and isinstance(body.op, relay.Function)
    assert len(body.args) == 2 and any(isinstance(n, relay.Constant) for n in post_order(body.op.body))


def test_spans_of_a_group_are_joined() -> None:
    x = _x(4)
    inner = relay.Call(relay.exp(x).op, [x], span="a")
    body = fuse_ops(module(relay.Call(relay.sqrt(x).op, [inner], span="b;a")))["main"].body
    assert isinstance(body, relay.Call) and body.span == "a;b"


def test_bytes_are_widened_by_the_kernel_that_reads_them() -> None:
    x = _x(1, 4, 6, 6)
    narrow = relay.cast(relay.round(nn.conv2d(x, weights(4, 4, 1, 1))), "int8")
    wide = relay.multiply(relay.cast(narrow, "float32"), relay.const(np.float32(0.5)))
    other = nn.conv2d(x, weights(4, 4, 3, 3), padding=(1, 1))
    assert _groups(relay.add(other, wide)) == ["nn_conv2d_round_cast", "nn_conv2d_cast_multiply_add"]
    # two readers would compute it twice
    assert _groups(relay.Tuple([relay.exp(wide), other + wide]))[0] == "nn_conv2d_round_cast_cast_multiply"


def test_network_computes_the_same() -> None:
    mod = small_cnn()
    assert_same(mod, fuse_ops(mod), rtol=1e-6)


def test_a_deep_graph_is_cut_into_groups_of_bounded_size() -> None:
    value: relay.Expr = _x(4)
    for _ in range(2000):
        value = relay.add(nn.relu(value), value)
    kernels = calls(fuse_ops(module(value))["main"].body)
    assert 4000 / 256 <= len(kernels) < 60


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_compute_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values: list[relay.Expr] = [_x(4, 4), relay.var("y", shape=(1, 4))]
    for _ in range(14):
        a, b = (values[i] for i in rng.integers(0, len(values), 2))
        kind = rng.integers(0, 6)
        if kind == 0:
            values.append(relay.tanh(a))
        elif kind == 1:
            values.append(relay.sum(a, axis=0, keepdims=True))
        elif kind == 2:
            values.append(nn.dense(a, weights(4, 4, seed=seed)))
        elif kind == 3:
            values.append(relay.reshape(relay.reshape(a, (-1,)), relay.tensor_type_of(a).shape))
        else:
            values.append(relay.add(a, b))
    _groups(relay.Tuple(values[-3:]))


def test_forms_of_groups_that_a_caller_asks_for() -> None:
    """Categories of its own, fields as results, constants as parameters: with the same values."""
    form = FusionForm(
        views_apart=False, patterns={"nn.max_pool2d": OpPattern.OUT_ELEMWISE_FUSABLE}, sparing=False, whole=True
    )
    x = _x(1, 6, 8, 8)
    pooled = nn.relu(nn.max_pool2d(relay.split(x, 3, axis=1)[1], pool_size=(2, 2)))
    body = relay.multiply(nn.conv2d(pooled, weights(2, 2, 1, 1)), relay.const(np.ones(1, "float32")))
    mod = module(body)
    fused = fuse_ops(mod, form=form)
    assert_same(mod, fused, rtol=1e-6)
    kernels = [call.op for call in calls(fused["main"].body)]
    names = [fused_name(kernel) for kernel in kernels if isinstance(kernel, relay.Function)]
    assert names == ["fused_split", "fused_nn_max_pool2d_nn_relu", "fused_nn_conv2d_multiply"]
    assert isinstance(kernels[0].body, relay.TupleGetItem) and len(kernels[2].params) == 3


def test_a_mark_that_ends_fusion_is_no_kernel() -> None:
    stopped = relay.annotation.stop_fusion(relay.exp(_x(4)))
    assert _groups(relay.sqrt(stopped)) == ["exp", "sqrt"]


def test_what_follows_a_normalization_is_computed_with_its_rows() -> None:
    x = relay.var("x", shape=(16, 48))
    gamma, beta = (relay.const(np.full(48, value, "float32")) for value in (1.5, 0.25))
    for normalized in (nn.layer_norm(x, gamma, beta), nn.softmax(x)):
        scaled = relay.round(relay.clip(relay.divide(normalized, relay.const(0.01)), -128.0, 127.0))
        mod = module(relay.cast(scaled, "int8"))
        apart, joined = (fuse_ops(infer_type(mod), backend=backend) for backend in (None, backend_of(Target("cpu"))))
        assert [len(calls(one["main"].body)) for one in (apart, joined)] == [2, 1]
        data = np.random.default_rng(3).normal(size=(16, 48)).astype("float32")
        found = np.asarray(tw.compile(mod, cache=False)(data)).astype(int)
        (expected,) = relay.interpret(mod, [data])
        assert abs(found - expected).max() <= 1  # a unit in the last place may cross a number and a half
