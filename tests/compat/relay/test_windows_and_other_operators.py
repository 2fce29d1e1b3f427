"""Relay operators, questions and arguments of versions after 0.8, each compared with NumPy or with what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError

pytestmark = pytest.mark.usefixtures("classic")

RNG = np.random.default_rng(11)


def run(expr: Any, *arrays: np.ndarray, kind: str = "debug", params: Any = None) -> np.ndarray:
    """The value of an expression for values of its variables."""
    from tvm import relay

    func = relay.Function(params or relay.analysis.free_vars(expr), expr)
    return relay.create_executor(kind).evaluate(func)(*arrays).numpy()


@pytest.mark.parametrize("kind", ["debug", "graph"])
def test_triangles_agree_with_numpy(kind: str) -> None:
    from tvm import relay

    data = RNG.random((2, 4, 5), "float32")
    x = relay.var("x", shape=data.shape)
    np.testing.assert_array_equal(run(relay.trilu(x, 1), data, kind=kind), np.triu(data, 1))
    np.testing.assert_array_equal(run(relay.trilu(x, relay.const(-1), False), data, kind=kind), np.tril(data, -1))
    k = relay.var("k", shape=(), dtype="int64")
    np.testing.assert_array_equal(run(relay.trilu(x, k), data, np.int64(2), params=[x, k]), np.triu(data, 2))
    with pytest.raises(InputError, match="matrices are needed"):
        relay.trilu(relay.var("v", shape=(3,)), 0)


def test_triangles_of_sizes_known_when_it_runs() -> None:
    from tvm import relay

    x = relay.var("x", shape=(relay.Any(), 3))
    data = RNG.random((5, 3), "float32")
    np.testing.assert_array_equal(run(relay.trilu(x, 0), data, kind="vm"), np.triu(data))


def test_sliding_windows_agree_with_numpy() -> None:
    from tvm import relay

    data = RNG.random((2, 5, 8), "float32")
    got = run(relay.sliding_window(relay.var("x", shape=data.shape), 1, [2, 3], [3, 2]), data)
    want = np.lib.stride_tricks.sliding_window_view(data, (2, 3), (1, 2))[:, ::3, ::2]
    np.testing.assert_array_equal(got, want)
    with pytest.raises(InputError, match="no window"):
        relay.sliding_window(relay.var("x", shape=data.shape), 1, [6, 3], [1, 1])


@pytest.mark.parametrize("onesided", [True, False])
def test_fourier_transform_of_frames(onesided: bool) -> None:
    from tvm import relay

    data, weights = RNG.random((2, 20), "float32"), RNG.random(5, "float32")
    x, w = relay.var("x", shape=data.shape), relay.var("w", shape=(5,))
    got = run(relay.stft(x, 8, 3, 5, w, True, onesided), data, weights, params=[x, w])
    frames = np.lib.stride_tricks.sliding_window_view(data, 8, 1)[:, ::3] * np.pad(weights, (1, 2))
    want = (np.fft.rfft if onesided else np.fft.fft)(frames) / np.sqrt(8)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want.transpose(0, 2, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "abs", "hardswish"])
def test_functions_of_quantized_tensors(name: str) -> None:
    from tvm import relay
    from tvm.relay.qnn.op.legalizations import hardswish_func

    data = np.arange(1, 120, dtype="int8")
    x = relay.var("x", shape=data.shape, dtype="int8")
    own = getattr(relay.qnn.op, name)
    scale, zero = relay.const(0.05), relay.const(0)
    got = run(own(x=x, scale=scale, zero_point=zero, output_scale=relay.const(0.1), output_zero_point=zero), data)
    real = (data * np.float32(0.05)).astype("float32")
    plain = getattr(relay, name, None)
    value = hardswish_func(real) if plain is None else run(plain(relay.var("r", shape=real.shape)), real)
    want = np.clip(np.round(value / np.float32(0.1)), -128, 127).astype("int8")
    assert got.dtype == np.int8
    assert np.abs(got.astype(int) - want).max() <= (1 if plain is None else 0)


def test_more_of_quantized_tensors() -> None:
    from tvm import relay

    data = np.array([[0, 40, 100, 255]], "uint8")
    x = relay.var("x", shape=data.shape, dtype="uint8")
    half, zero = relay.const(0.5), relay.const(60)
    got = run(relay.qnn.op.leaky_relu(x, 0.5, half, zero, half, zero), data)
    np.testing.assert_array_equal(got, [[30, 50, 100, 255]])
    got = run(relay.qnn.op.softmax(x, relay.const(0.01), zero, relay.const(1 / 256), relay.const(0)), data)
    real = np.exp((data.astype(int) - 60) * 0.01)
    np.testing.assert_allclose(got, np.round(real / real.sum() * 256), atol=1)
    image = RNG.integers(0, 255, (1, 4, 4, 2)).astype("uint8")
    y = relay.var("y", shape=image.shape, dtype="uint8")
    got = run(relay.qnn.op.avg_pool2d(y, half, zero, half, zero, (2, 2), (2, 2), (0, 0), (1, 1)), image)
    want = image.reshape(1, 2, 2, 2, 2, 2).mean((2, 4))
    assert np.abs(got - want).max() <= 0.5


def test_resizing_takes_a_region_behind_the_size() -> None:
    from tvm import relay

    data = RNG.random((1, 4, 4, 2), "float32")
    x = relay.var("x", shape=data.shape)
    got = run(relay.image.resize2d(x, (8, 8), None, "NHWC", "nearest_neighbor", "asymmetric"), data)
    np.testing.assert_array_equal(got, data.repeat(2, 1).repeat(2, 2))
    older = relay.image.resize2d(x, (8, 8), "NHWC", "nearest_neighbor", "asymmetric")
    np.testing.assert_array_equal(run(older, data), got)
    with pytest.raises(UnsupportedError, match="crop_and_resize"):
        relay.image.resize2d(x, (8, 8), (0, 0, 1, 1), "NHWC", "linear", "tf_crop_and_resize")


def test_ranges_of_values() -> None:
    from tvm import relay

    stop, step = relay.var("stop", shape=(), dtype="int32"), relay.var("step", shape=(), dtype="int32")
    got = run(relay.arange(relay.const(2), stop, step, "int32"), np.int32(11), np.int32(3), params=[stop, step])
    np.testing.assert_array_equal(got, np.arange(2, 11, 3))


def test_variance_of_sizes_known_when_it_runs() -> None:
    from tvm import relay

    data = RNG.random((6, 4), "float32")
    x = relay.var("x", shape=(relay.Any(), 4))
    np.testing.assert_allclose(run(relay.variance(x, 0), data, kind="vm"), data.var(0), rtol=1e-5)
    got = run(relay.variance(x, 0, unbiased=True), data, kind="vm")
    np.testing.assert_allclose(got, data.var(0, ddof=1), rtol=1e-5)


def test_what_modules_are_made_of() -> None:
    import tvm
    from tvm import relay

    x, w = relay.var("x", shape=(1, 4)), relay.var("w", shape=(3, 4))
    product = relay.nn.dense(x, w)
    mod = tvm.IRModule.from_expr(relay.split(relay.nn.relu(product), 3, axis=1)[0])
    fused = relay.analysis.extract_fused_functions(mod).values()
    names = [name for func in fused for name in relay.analysis.list_op_freqs(tvm.IRModule.from_expr(func))]
    assert sorted(names) == ["nn.dense", "nn.relu", "split"]
    part = relay.analysis.extract_intermdeiate_expr(mod, 0)
    tvm.ir.assert_structural_equal(part["main"], relay.Function([x, w], product))
    with pytest.raises(InputError, match="4 expressions"):
        relay.analysis.extract_intermdeiate_expr(mod, 4)
    apart = relay.transform.FuseOps(3)(relay.transform.InferType()(mod))
    assert relay.analysis.list_op_freqs(apart) == {"nn.dense": 1, "nn.relu": 1, "split": 1}


def test_operators_between_rounded_values() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(2, 4), dtype="int8")
    real = relay.qnn.op.dequantize(x, relay.const(0.5), relay.const(0))
    twice = relay.nn.relu(real) + relay.const(1.0)
    inside = relay.qnn.op.quantize(twice, relay.const(0.5), relay.const(0))
    outside = relay.qnn.op.quantize(relay.exp(relay.var("y", shape=(2, 4))), relay.const(0.5), relay.const(0))
    mod = tvm.IRModule.from_expr(relay.Tuple([inside, outside]))
    assert relay.analysis.list_fake_quantized_op_freqs(mod) == {"nn.relu": 1, "add": 1}


def test_values_that_functions_take_and_give() -> None:
    import tvm
    from tvm import relay

    mod = tvm.IRModule()
    a, b = relay.var("a", shape=(3,)), relay.var("b", shape=(3,))
    own = relay.GlobalVar("own")
    mod[own] = relay.Function([a, b], relay.Tuple([a + b, a - b])).with_attr("Compiler", "some")
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    mod["main"] = relay.Function([x, y], relay.TupleGetItem(relay.Call(own, [x, relay.exp(y)]), 0))
    one, other = RNG.random(3, "float32"), RNG.random(3, "float32")
    data = relay.analysis.get_calibration_data(mod, {"x": one, "y": other})
    found = data[own]
    np.testing.assert_allclose(found["inputs"][1].numpy(), np.exp(other), rtol=1e-6)
    np.testing.assert_allclose(found["outputs"][1].numpy(), one - np.exp(other), rtol=1e-6)
    with pytest.raises(InputError, match="no value for y"):
        relay.analysis.get_calibration_data(mod, {"x": one})


def test_expressions_that_stay_apart() -> None:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.exp(x) + relay.exp(x))
    count = relay.analysis.list_op_freqs
    assert count(relay.transform.EliminateCommonSubexpr()(mod))["exp"] == 1
    kept = relay.transform.EliminateCommonSubexpr(lambda e: getattr(e.op, "name", "") == "exp")
    assert count(kept(mod))["exp"] == 2


def test_equality_of_attributes_in_single_precision() -> None:
    import tvm
    from tvm import relay

    data, vector = relay.var("x", shape=(1, 4)), relay.var("v", shape=(4,))

    def normal(epsilon: float) -> Any:
        return relay.nn.batch_norm(data, vector, vector, vector, vector, epsilon=epsilon)[0]

    assert tvm.ir.structural_equal(normal(1e-5), normal(float(np.float32(1e-5))))
    assert not tvm.ir.structural_equal(normal(1e-5), normal(1.1e-5))


def test_inputs_of_a_model() -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(3,), dtype="int32")
    func = relay.Function([x, y], x + relay.cast(y, "float32"))
    module = graph_executor.GraphModule(relay.build(tvm.IRModule.from_expr(func), "llvm")["default"](tvm.cpu()))
    shapes, dtypes = module.get_input_info()
    assert shapes == {"x": (2, 3), "y": (3,)}
    assert dtypes == {"x": "float32", "y": "int32"}
    assert isinstance(shapes["x"], tvm.runtime.container.ShapeTuple)


@pytest.mark.parametrize("kind", ["vm", "graph"])
def test_open_sizes_that_broadcast(kind: str) -> None:
    from tvm import relay

    x, y = relay.var("x", shape=(relay.Any(), relay.Any())), relay.var("y", shape=(relay.Any(), 3))
    func = relay.create_executor(kind).evaluate(relay.Function([x, y], relay.exp(x) + y))
    one, other = RNG.random((4, 3), "float32"), RNG.random((4, 3), "float32")
    for a, b in ((one, other), (one[:1], other), (one, other[:1]), (one[:, :1], other), (one, other)):
        np.testing.assert_allclose(func(a, b).numpy(), np.exp(a) + b, rtol=1e-6)
    with pytest.raises(InputError, match="must be equal"):
        func(one[:2], other)


def test_boxes_of_moved_anchors() -> None:
    import tvm
    from tvm import te, topi

    anchors = np.array([[[0.1, 0.1, 0.4, 0.4], [0.12, 0.1, 0.42, 0.4], [0.6, 0.6, 0.9, 0.9]]], "float32")
    probabilities = np.array([[[0.1, 0.2, 0.3], [0.9, 0.8, 0.7]]], "float32")
    shifts = np.zeros((1, 12), "float32")
    given = [probabilities, shifts, anchors]
    positions = [te.placeholder(a.shape, "float32", f"p{i}") for i, a in enumerate(given)]
    boxes = topi.vision.ssd.multibox_detection(*positions, nms_threshold=0.5)
    function = tvm.build(topi.generic.schedule_multibox_detection(boxes), [*positions, boxes], "llvm")
    out = tvm.nd.empty((1, 3, 6))
    function(*map(tvm.nd.array, given), out)
    kept = out.numpy()[0]
    kept = kept[kept[:, 0] >= 0]
    np.testing.assert_allclose(kept, [[0, 0.9, *anchors[0, 0]], [0, 0.7, *anchors[0, 2]]], rtol=1e-5)
    with pytest.raises(UnsupportedError, match=r"relay\.vision"):
        topi.vision.all_class_non_max_suppression(*positions, -1, 0.5, 0.1)


def test_the_batch_of_a_module_is_changed() -> None:
    import tvm
    from tvm import relay

    x, w = relay.var("x", shape=(1, 4)), relay.var("w", shape=(3, 4))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.relu(relay.nn.dense(x, w))))
    more = relay.transform.ChangeBatch({mod["main"].params[0]: 0}, batch_size=5)(mod)
    assert more["main"].checked_type.ret_type == relay.TensorType((5, 3))
    assert mod["main"].checked_type.ret_type == relay.TensorType((1, 3))
    with pytest.raises(InputError, match="no parameter"):
        relay.transform.ChangeBatch({x: 0} if x not in mod["main"].params else {relay.var("z"): 0})(mod)
