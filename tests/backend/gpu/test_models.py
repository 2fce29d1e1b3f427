"""Whole models on devices of thread blocks: numbers of the emulation and of OpenCL beside the processor's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import TargetError
from tilewright.relay.ir.expr import Expr
from tilewright.relay.op import qnn
from tilewright.tir.expr import SizeVar

RNG = np.random.default_rng(0)
EMULATED = "cuda -emulate=1"


def _targets() -> list[Any]:
    compiler = any(shutil.which(name) for name in ("c++", "g++", "clang++"))
    emulated = pytest.param(EMULATED, marks=pytest.mark.skipif(not compiler, reason="emulation needs a C++ compiler"))
    try:
        import pyopencl

        found = bool(pyopencl.get_platforms())
    except Exception:
        found = False
    opencl = pytest.mark.skipif(not found, reason="no OpenCL: pip install 'tilewright[opencl]'")
    return [emulated, pytest.param("opencl", marks=[opencl, pytest.mark.long])]


def weights(*shape: int, dtype: str = "float32") -> Expr:
    """A constant of normal numbers."""
    return relay.const((RNG.standard_normal(shape) / max(1, np.sqrt(np.prod(shape[1:])))).astype(dtype))


def same(mod: Any, *inputs: np.ndarray, target: str = EMULATED, tolerance: float = 2e-5) -> tw.runtime.Model:
    """The model for `target`, after its results were compared with those of the processor."""
    ours, wanted = tw.compile(mod, target=target, cache=False), tw.compile(mod, cache=False)
    for one, other in zip(_list(ours(*inputs)), _list(wanted(*inputs)), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        scale = max(1.0, float(np.max(np.abs(other.astype("float64")), initial=0.0)))
        error = np.max(np.abs(one.astype("float64") - other.astype("float64")), initial=0.0)
        assert error <= tolerance * scale, f"off by {error} of {scale}"
    return ours


def _list(results: Any) -> list[np.ndarray]:
    return results if isinstance(results, list) else [results]


def module(body: Callable[..., Expr], *inputs: np.ndarray) -> relay.IRModule:
    """The module of a function of the inputs."""
    params = [relay.var(f"x{i}", shape=x.shape, dtype=str(x.dtype)) for i, x in enumerate(inputs)]
    return relay.IRModule.from_expr(relay.Function(params, body(*params)))


def check(body: Callable[..., Expr], *inputs: np.ndarray, target: str = EMULATED, tolerance: float = 2e-5) -> Any:
    """`same` of `module`."""
    return same(module(body, *inputs), *inputs, target=target, tolerance=tolerance)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", _targets())
def test_a_residual_block_of_convolutions(target: str) -> None:
    def block(x: Expr) -> Expr:
        y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weights(24, 8, 3, 3), padding=(1, 1)), weights(24)))
        z = relay.nn.conv2d(y, weights(24, 24, 3, 3), strides=(2, 2), padding=(1, 1))
        pooled = relay.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))
        return relay.nn.relu(relay.add(z, pooled))

    model = check(block, normal(2, 8, 12, 12), target=target)
    templates = {call.choice.get("template") for call in model.manifest.kernels}
    assert "product" in templates and len(model.manifest.kernels) <= 4


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", _targets())
def test_depthwise_grouped_and_dilated_convolutions(target: str) -> None:
    def net(x: Expr) -> Expr:
        y = relay.nn.conv2d(x, weights(12, 1, 3, 3), padding=(1, 1), groups=12)
        z = relay.nn.conv2d(y, weights(18, 4, 3, 3), padding=(2, 2), dilation=(2, 2), groups=3)
        return relay.nn.conv2d_transpose(z, weights(18, 6, 3, 3), strides=(2, 2))

    check(net, normal(1, 12, 9, 7), target=target)


@pytest.mark.parametrize("target", _targets())
@pytest.mark.sample(1)
def test_attention_softmax_and_normalization(target: str) -> None:
    def net(x: Expr) -> Expr:
        x = relay.nn.layer_norm(x, weights(32), weights(32))
        rows = relay.reshape(x, (20, 32))
        q, k, v = (relay.reshape(relay.nn.dense(rows, weights(32, 32)), (1, 20, 32)) for _ in range(3))
        shares = relay.nn.softmax(relay.nn.batch_matmul(q, k))
        return relay.nn.batch_matmul(shares, relay.transpose(v, axes=(0, 2, 1)))

    check(net, normal(1, 20, 32), target=target)


@pytest.mark.parametrize("target", _targets())
def test_what_follows_rows_joins_their_kernel(target: str) -> None:
    x, y = normal(33, 40), normal(33, 40)

    def network(x: Expr, y: Expr) -> Expr:
        normalized = relay.add(relay.nn.layer_norm(x, weights(40), weights(40)), y)
        return relay.multiply(relay.nn.softmax(relay.nn.relu(normalized)), weights(40))

    model = same(module(network, x, y), x, y, target=target)
    names = [kernel.name for kernel in model.manifest.kernels]  # type: ignore[attr-defined]
    assert names == ["fused_nn_layer_norm_add_nn_relu", "fused_nn_softmax_multiply"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("dtype", "zero"), [("int8", -3), ("uint8", 7)])
def test_convolutions_of_bytes_are_exact_on_tensor_cores(dtype: str, zero: int) -> None:
    """With padding that stands for zero, a bias and the result as bytes again, in one kernel."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    image = RNG.integers(low, high + 1, (1, 16, 6, 6)).astype(dtype)
    kernel = relay.const(RNG.integers(-127, 128, (24, 16, 3, 3)).astype("int8"))
    scales = relay.const(np.float32(0.1)), relay.const((RNG.random(24) / 100).astype("float32"))

    def net(x: Expr) -> Expr:
        sums = qnn.conv2d(x, kernel, zero, 0, *scales, padding=(1, 1))
        sums = relay.nn.bias_add(sums, relay.const(RNG.integers(-99, 99, 24).astype("int32")))
        step = relay.const((RNG.random(24) / 1000).astype("float32"))
        return qnn.requantize(sums, step, relay.const(np.int32(0)), 0.5, 1, axis=1, out_dtype="int8")

    mod = module(net, image)
    model = tw.compile(mod, target=EMULATED, cache=False)
    np.testing.assert_array_equal(model(image), tw.compile(mod, cache=False)(image))
    assert "tensor_core" in {call.choice.get("template") for call in model.manifest.kernels}


@pytest.mark.parametrize("zeros", [(5, -7), (0, 9), (-128, 0), (0, 0)])
@pytest.mark.sample(1)
def test_products_of_two_computed_bytes_are_exact_on_tensor_cores(zeros: tuple[int, int]) -> None:
    """Bytes in memory, moved and centred by the kernel that multiplies them; sizes are no whole tiles."""
    x, y = (RNG.integers(-128, 128, s).astype("int8") for s in ((3, 41, 70), (3, 70, 24)))

    def net(a: Expr, b: Expr) -> Expr:
        limit = relay.const(np.int8(100))
        a, b = relay.minimum(a, limit), relay.transpose(relay.minimum(b, limit), axes=(0, 2, 1))
        sums = qnn.batch_matmul(a, b, *zeros, 0.1, 0.2)
        return qnn.requantize(sums, 0.001, 0, 0.5, 1, out_dtype="int8")

    mod = module(net, x, y)
    model = tw.compile(mod, target=EMULATED, cache=False)
    np.testing.assert_array_equal(model(x, y), tw.compile(mod, cache=False)(x, y))
    calls = model.manifest.kernels
    assert [call.choice.get("template") for call in calls].count("tensor_core") == 1 and len(calls) == 3


def test_long_rows_are_added_up_by_warps() -> None:
    """Shuffles within warps, then one part of each: as exact as sums of single threads."""
    model = check(lambda x: relay.nn.layer_norm(x, weights(768), weights(768)), normal(3, 768))
    assert len(model.manifest.kernels) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", _targets())
def test_loops_written_by_hand_become_threads(target: str) -> None:
    rows, where = normal(5, 70), RNG.integers(0, 5, (3, 70)).astype("int32")

    def net(x: Expr, i: Expr, updates: Expr) -> Expr:
        ordered = relay.sort(x, axis=1)
        return relay.Tuple([ordered, relay.cumsum(x, axis=1), relay.scatter_elements(x, i, updates, axis=0)])

    check(net, rows, where, normal(3, 70), target=target)


@pytest.mark.parametrize("target", _targets())
def test_as_many_rows_sorted_as_a_block_has_threads(target: str) -> None:
    check(lambda x: relay.argsort(x, axis=-1, is_ascend=False), normal(4, 12, 3), target=target)


@pytest.mark.parametrize("target", _targets())
def test_tensors_without_elements(target: str) -> None:
    def net(x: Expr, y: Expr) -> Expr:
        return relay.Tuple([relay.nn.relu(relay.sum(x, axis=0)), relay.concatenate([relay.exp(x), y], axis=0)])

    check(net, normal(0, 3), normal(2, 3), target=target)


@pytest.mark.parametrize("target", _targets())
def test_types_of_less_than_a_byte_and_float8_are_bytes(target: str) -> None:
    x, names = normal(3, 50), ("float8_e4m3fnuz", "float8_e5m2", "float4_e2m1fn", "int4")

    def net(v: Expr) -> Expr:
        codes = [relay.cast(v, name) for name in names]
        return relay.Tuple([*codes, *(relay.cast(code, "float32") for code in codes)])

    mod = module(net, x)
    ours, wanted = tw.compile(mod, target=target, cache=False)(x), tw.compile(mod, cache=False)(x)
    for one, other in zip(ours, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one.view("uint8"), other.view("uint8"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64"])
def test_integers_of_any_width_in_wgsl(dtype: str) -> None:
    """Packed into words, or two words each; they wrap as wide as they are."""
    wgpu = pytest.importorskip("wgpu", reason="no WebGPU: pip install 'tilewright[webgpu]'")
    if wgpu.gpu.request_adapter_sync() is None:
        pytest.skip("no WebGPU adapter; install lavapipe (apt install mesa-vulkan-drivers)")
    x, y = (RNG.integers(1, 120, (3, 7)).astype(dtype) for _ in range(2))

    def net(a: Expr, b: Expr) -> Expr:
        shifted = relay.left_shift(a, relay.const(np.array(3, dtype)))
        results = [relay.multiply(a, b), relay.floor_divide(a, b), relay.bitwise_not(a), shifted, relay.greater(a, b)]
        return relay.Tuple([*results, *(relay.cast(value, "float32") for value in results)])

    check(net, x, y, target="webgpu", tolerance=0.0)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_bits_above_a_narrow_integer_are_cut(dtype: str) -> None:
    def net(a: Expr) -> Expr:
        shifted = relay.left_shift(a, relay.const(np.array(5, dtype)))
        return relay.Tuple([relay.cast(relay.bitwise_not(a), "float32"), relay.cast(shifted, "float32")])

    check(net, np.arange(1, 120, dtype=dtype), tolerance=0.0)


@pytest.mark.parametrize("shape", [(3, 1000), (3000, 3), (1, 7), (40, 33, 5)])
@pytest.mark.sample(2)
def test_reductions_of_few_and_many_terms(shape: tuple[int, ...]) -> None:
    def net(x: Expr) -> Expr:
        return relay.Tuple([relay.sum(x, axis=-1), relay.max(x, axis=0), relay.mean(x), relay.argmax(x, axis=-1)])

    check(net, normal(*shape))


@pytest.mark.parametrize("sizes", [(1, 64, 64), (3, 33, 17), (50, 300, 128), (70, 9, 500), (5, 1000, 4), (16, 8, 2000)])
@pytest.mark.sample(3)
def test_products_of_many_shapes(sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes
    check(lambda x: relay.nn.relu(relay.nn.dense(x, weights(columns, depth))), normal(rows, depth))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.sample(1)
def test_16_bit_floats_by_tensor_cores(dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)

    def net(x: Expr) -> Expr:
        image = relay.const((RNG.standard_normal((32, 16, 3, 3)) / 12).astype(kind))
        return relay.nn.relu(relay.nn.conv2d(x, image, padding=(1, 1)))

    tolerance = 2e-3 if dtype == "float16" else 2e-2
    model = check(net, RNG.standard_normal((1, 16, 10, 10)).astype(kind), tolerance=tolerance)
    assert "tensor_core" in {call.choice.get("template") for call in model.manifest.kernels}


def test_pictures_of_three_channels_get_a_fourth() -> None:
    filters = (RNG.standard_normal((16, 3, 7, 7)) / 12).astype("float16")

    def net(x: Expr) -> Expr:
        return relay.nn.relu(relay.nn.conv2d(x, relay.const(filters), strides=(2, 2), padding=(3, 3)))

    model = check(net, normal(1, 3, 20, 20, dtype="float16"), tolerance=2e-3)
    assert model.manifest.kernels[0].name == "fused_nn_pad_transpose"


def test_symbolic_sizes_are_recorded_for_each_size_run() -> None:
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Softmax", ["y"], ["z"], axis=-1),
    ]
    matrix = RNG.standard_normal((24, 40)).astype("float32")
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 24])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 40])],
        [helper.make_tensor("w", TensorProto.FLOAT, matrix.shape, matrix.tobytes(), raw=True)],
    )  # fmt: skip
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    ours = tw.compile(onnx_model, target=EMULATED, cache=False)
    for n in (1, 5, 37, 5):
        x = normal(n, 24)
        y = x @ matrix
        share = np.exp(y - y.max(-1, keepdims=True))
        np.testing.assert_allclose(ours(x), share / share.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_an_input_of_texts_that_only_has_a_shape() -> None:
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Size", ["names"], ["count"]), helper.make_node("Neg", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("names", TensorProto.STRING, [3, 2]),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("count", TensorProto.INT64, []),
         helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )  # fmt: skip
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    x = normal(4)
    count, y = tw.compile(onnx_model, target=EMULATED, cache=False)(np.full((3, 2), "a", object), x)
    assert count == 6 and np.array_equal(y, -x)


def test_sizes_computed_of_symbolic_ones() -> None:
    """A tile has twice the rows, which no parameter of a kernel is: in the arena, and as an output."""
    x = relay.var("x", shape=(SizeVar("n"), 8))
    tiled = relay.tile(relay.nn.softmax(x), (2, 1))
    body = relay.Tuple([tiled, relay.nn.dense(relay.nn.softmax(relay.concatenate([tiled, tiled], 0)), weights(4, 8))])
    for rows in (1, 5):
        same(relay.IRModule.from_expr(relay.Function([x], body)), normal(rows, 8))


def test_convolution_of_rows_of_symbolic_batch_and_length() -> None:
    x = relay.var("x", shape=(SizeVar("n"), 16, 1, SizeVar("w")))
    body = relay.nn.conv2d(x, weights(4, 16, 1, 2), kernel_size=(1, 2), channels=4)
    for batch, length in ((3, 40), (1, 2)):
        same(relay.IRModule.from_expr(relay.Function([x], body)), normal(batch, 16, 1, length))


def test_recurrent_layers_launch_their_steps() -> None:
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    parts = {"w": normal(1, 32, 6), "r": normal(1, 32, 8), "b": normal(1, 64)}
    graph = helper.make_graph(
        [helper.make_node("LSTM", ["x", *parts], ["y"], hidden_size=8)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 2, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 1, 2, 8])],
        [helper.make_tensor(name, TensorProto.FLOAT, value.shape, value) for name, value in parts.items()],
    )  # fmt: skip
    same(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), normal(5, 2, 6))


def test_an_artifact_runs_as_the_model_that_was_saved(tmp_path: Path) -> None:
    x = normal(4, 30)
    model = check(lambda v: relay.nn.dense(v, weights(20, 30)), x)
    model.save(tmp_path / "m.tw")
    np.testing.assert_array_equal(tw.load(tmp_path / "m.tw")(x), model(x))
    assert [row.kernel for row in model.profile({"x0": x})] == [call.name for call in model.manifest.kernels]


def test_without_the_device_a_model_can_be_saved_and_not_run(tmp_path: Path) -> None:
    from tilewright.backend import backend_of
    from tilewright.target import Target

    if backend_of(Target("cuda")).is_here:
        pytest.skip("this machine has an NVIDIA GPU")
    x = normal(4, 30)
    model = tw.compile(module(lambda v: relay.nn.relu(v), x), target="cuda -arch=sm_80", cache=False)
    model.save(tmp_path / "m.tw")
    assert (tmp_path / "m.tw").stat().st_size > 0
    with pytest.raises(TargetError, match="cannot run"):
        model(x)


def test_kernels_of_webgpu_have_at_most_ten_arrays() -> None:
    parts = [relay.var(f"x{i}", shape=(2, i + 1)) for i in range(17)]
    mod = relay.IRModule.from_expr(relay.Function(parts, relay.concatenate(relay.Tuple(parts), axis=1)))
    counts = [[len(call.args) for call in tw.compile(mod, target=target, cache=False).manifest.kernels]
              for target in ("webgpu", "opencl")]  # fmt: skip
    assert max(counts[0]) <= 10 < max(counts[1])
