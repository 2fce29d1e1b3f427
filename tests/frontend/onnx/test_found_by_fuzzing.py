"""Models that random graphs showed to be wrong or refused: what is not finite, sizes that only a run tells, edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import tilewright as tw
from tilewright.errors import InputError

Model = Callable[..., onnx.ModelProto]


def run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[np.ndarray]:
    return tw.compile(model, target="cpu").run(dict(feeds))


def text_model(text: str, opset: int = 17) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


# --------------------------------------------------------------------------------------------------------- images
def resize_model(make_model: Model, x: np.ndarray, sizes: Sequence[int], fixed: bool, **attributes: Any) -> Any:
    target = np.array(sizes, np.int64)
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **attributes)
    feeds = {"x": x} if fixed else {"x": x, "s": target}
    model = make_model([node], feeds, ["y"], 18, {"s": target} if fixed else {})
    return run(model, feeds)[0]


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(("shape", "sizes"), [((2, 5, 6), (2, 8, 9)), ((1, 2, 5, 6), (1, 3, 8, 9))])
def test_resize_reads_neighbours_only(
    make_model: Model, shape: tuple[int, ...], sizes: tuple[int, ...], fixed: bool
) -> None:
    x = floats(*shape)
    x[..., 0, 0] = np.nan
    found = resize_model(make_model, x, sizes, fixed, mode="linear")
    assert np.isnan(found[..., 0, 0]).all() and np.isfinite(found[..., 3:, 3:]).all()


@pytest.mark.parametrize("fixed", [True, False])
def test_resize_of_bytes_cuts_off(make_model: Model, fixed: bool) -> None:
    x = np.array([[[10, 21]]], np.uint8)
    found = resize_model(make_model, x, (1, 1, 3), fixed, mode="linear", coordinate_transformation_mode="align_corners")
    np.testing.assert_array_equal(found, np.array([[[10, 15, 21]]], np.uint8))


@pytest.mark.parametrize("fixed", [True, False])
def test_resize_of_doubles_is_as_exact_as_they_are(make_model: Model, fixed: bool) -> None:
    x = floats(1, 2, 1, 3).astype(np.float64)
    found = resize_model(make_model, x, (1, 2, 3, 3), fixed, mode="cubic", exclude_outside=1)
    np.testing.assert_allclose(found, np.repeat(x, 3, axis=2), rtol=1e-14)


def test_samples_beside_the_image_are_zero(make_model: Model) -> None:
    feeds = {"x": np.full((1, 1, 2, 2), np.inf, np.float32), "r": np.array([[4, 4, 8, 8]], np.float32)}
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], output_height=2, output_width=2, sampling_ratio=2)
    found = run(make_model([node], feeds, ["y"], 16, {"b": np.zeros(1, np.int64)}), feeds)[0]
    np.testing.assert_array_equal(found, np.zeros((1, 1, 2, 2), np.float32))


# ------------------------------------------------------------------------------------------------------ arithmetic
def test_gemm_multiplies_the_sum_by_alpha(make_model: Model) -> None:
    huge = np.array([[2e38, 2e38]], np.float32)
    feeds = {"a": np.array([[0.5, -0.25]], np.float32)}
    node = helper.make_node("Gemm", ["a", "b"], ["y"], alpha=2.0, transB=1)
    found = run(make_model([node], feeds, ["y"], 17, {"b": huge}), feeds)[0]
    np.testing.assert_allclose(found, [[1e38]], rtol=1e-6)


def test_a_threshold_is_not_rounded_to_half_floats(make_model: Model) -> None:
    feeds = {"x": np.array([1.197265625, 1.1962890625], np.float16)}
    node = helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=1.1970894)
    np.testing.assert_array_equal(run(make_model([node], feeds, ["y"], 17), feeds)[0], feeds["x"] * [1, 0])


def test_float8_is_padded(make_model: Model) -> None:
    kind = ml_dtypes.float8_e4m3fn
    feeds = {"x": np.array([1.0, -2.0], np.float32)}
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.FLOAT8E4M3FN),
        helper.make_node("Pad", ["narrow", "pads", "value"], ["wide"]),
        helper.make_node("Cast", ["wide"], ["y"], to=TensorProto.FLOAT),
    ]
    constants = {"pads": np.array([1, 2], np.int64), "value": np.array(1.5, kind)}
    model = make_model(nodes, feeds, ["y"], 24, constants)
    np.testing.assert_array_equal(run(model, feeds)[0], [1.5, 1.0, -2.0, 1.5, 1.5])


def test_truth_is_padded(make_model: Model) -> None:
    feeds = {"x": np.array([True, False])}
    nodes = [helper.make_node("Pad", ["x", "pads", "value"], ["y"])]
    model = make_model(nodes, feeds, ["y"], 24, {"pads": np.array([1, 2], np.int64), "value": np.array(True)})
    np.testing.assert_array_equal(run(model, feeds)[0], [True, True, False, True, True])


def test_integers_of_two_bits_change_their_sign(make_model: Model) -> None:
    x = np.array([-2, -1, 0, 1]).astype(ml_dtypes.int2)
    nodes = [
        helper.make_node("Cast", ["x"], ["u"], to=TensorProto.UINT2),
        helper.make_node("Cast", ["u"], ["y"], to=TensorProto.INT32),
    ]
    np.testing.assert_array_equal(run(make_model(nodes, {}, ["y"], 25, {"x": x}), {})[0], [2, 3, 0, 1])


def test_functions_of_functions_compile_in_time_that_grows_with_their_number(make_model: Model) -> None:
    feeds = {"x": np.linspace(0.1, 0.9, 48, dtype=np.float32).reshape(6, 8)}
    nodes = [helper.make_node("Transpose", ["x"], ["v0"])]
    nodes += [helper.make_node("Sin" if i % 2 else "Cos", [f"v{i}"], [f"v{i + 1}"]) for i in range(12)]
    expected = feeds["x"].T
    for i in range(12):
        expected = np.sin(expected) if i % 2 else np.cos(expected)
    found = run(make_model(nodes, feeds, ["v12"], 17), feeds)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# ------------------------------------------------------------------------------------------------------ symbolic
# dimensions
@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax_over_an_open_size(opset: int) -> None:
    model = text_model("g (float[2, n] x) => (float[2, n] y) { y = Hardmax<axis = 1>(x) }", opset)
    x = np.array([[1, 3, 3], [np.nan, 5, 7]], np.float32)
    np.testing.assert_array_equal(run(model, {"x": x})[0], [[0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Trilu(x)", np.triu),
        ("ReverseSequence<batch_axis = 0, time_axis = 1>(x, two)", lambda x: np.c_[x[:, 1::-1], x[:, 2:]]),
        ("Resize<mode = \"linear\">(x, , , sizes)", lambda x: x.repeat(2, 0) * 0 + 1),
    ],
    ids=["Trilu", "ReverseSequence", "Resize"],
)  # fmt: skip
def test_operators_of_fixed_sizes_run_on_the_host_where_they_are_open(
    call: str, expected: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = np.ones((3, 4), np.float32) if "Resize" in call else floats(3, 4)
    constants = "int64[3] two = {2, 2, 2}, int64[2] sizes = {6, 4}"
    model = text_model(f"g (float[m, n] x) => (float[p, q] y) <{constants}> {{ y = {call} }}", 18)
    np.testing.assert_allclose(run(model, {"x": x})[0], expected(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        ("(int64 n) => (float[?] y) { w = HannWindow(n)  y = Abs(w) }", {"n": np.array(5)}),
        ("(float[3, 4] x, int64[2] s) => (float[?, ?] y) { w = CenterCropPad(x, s)  y = Abs(w) }",
         {"x": floats(3, 4), "s": np.array([2, 5])}),
        ("(float[4] x, int64[2] s) => (float[?] y) { a, b = Split(x, s)  y = Elu(b) }",
         {"x": np.abs(floats(4)), "s": np.array([1, 3])}),
        ("(float[3, 2] x, int64[1] a, int64[3] s) => (float[?, ?, ?] y) { w = ReduceSum(x, a)  y = Expand(w, s) }",
         {"x": floats(3, 2), "a": np.array([0]), "s": np.array([2, 1, 1])}),
    ],
    ids=["window", "crop", "split", "expand"],
)  # fmt: skip
def test_ranks_that_onnx_does_not_infer(text: str, feeds: dict[str, np.ndarray]) -> None:
    model = text_model(f"g {text}", 18)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0]
    np.testing.assert_allclose(run(model, feeds)[0], expected, rtol=1e-5, atol=1e-6)


def test_an_exclusive_sum_over_nothing() -> None:
    model = text_model("g (float[2, n] x, int64 a) => (float[2, n] y) { y = CumSum<exclusive = 1>(x, a) }")
    assert run(model, {"x": np.zeros((2, 0), np.float32), "a": np.array(1)})[0].shape == (2, 0)


def test_a_loop_of_open_sizes_without_iterations() -> None:
    model = text_model(
        "g (int64 trips, float[n] x) => (float[?, ?] y) <bool go = {1}> {"
        " last, y = Loop(trips, go, x) <body = b (int64 i, bool c, float[n] s) => (bool c2, float[n] t, float[n] u)"
        " { c2 = Identity(c)  t = Neg(s)  u = Identity(s) }> }"
    )
    assert run(model, {"trips": np.array(0), "x": floats(3)})[0].shape[0] == 0
    assert run(model, {"trips": np.array(2), "x": floats(3)})[0].shape == (2, 3)


def test_recurrent_states_of_a_fixed_and_data_of_an_open_batch(make_model: Model) -> None:
    x, w, r = floats(3, 2, 2), floats(1, 4, 2), floats(1, 4, 4)
    state = floats(1, 2, 4)
    node = helper.make_node("RNN", ["x", "w", "r", "", "", "h"], ["y"], hidden_size=4)
    constants = {"w": w, "r": r, "h": state}
    model = make_model([node], {"x": x}, ["y"], 17, constants)
    expected = run(model, {"x": x})[0]
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "batch"
    np.testing.assert_allclose(run(model, {"x": x})[0], expected, rtol=1e-6)
    with pytest.raises(InputError, match=r"2 and batch = 3 must be equal: RNN_0"):
        run(model, {"x": floats(3, 3, 2)})


def test_what_constants_make_is_as_exact_as_what_is_computed() -> None:
    scores = np.array([[2.5, 88.0], [1, 2]], np.float16)
    truth, weights = np.zeros(2, np.int64), np.ones(2, np.float16)
    text = '{ y, p = SoftmaxCrossEntropyLoss<reduction = "sum">(x, t, w) }'
    model = text_model(f"g () => (float16 y, float16[2, 2] p) {text}", 17)
    for name, value in {"x": scores, "t": truth, "w": weights}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    wide = scores.astype(np.float64)
    logs = wide - np.log(np.exp(wide).sum(1, keepdims=True))
    loss, found = run(model, {})
    np.testing.assert_allclose(found, logs, rtol=2e-3)
    np.testing.assert_allclose(loss, -logs[:, 0].sum(), rtol=2e-3)


@pytest.mark.parametrize(
    ("shapes", "dims"),
    [(((1, 4, 3, 0), (0,)), "m, n, 3, 0"), (((2, 3, 0), (2, 0, 4)), "m, 3, 0"), (((0, 3, 4), (4, 5)), "m, 3, 4")],
)
def test_products_of_nothing_with_open_sizes(shapes: tuple[tuple[int, ...], tuple[int, ...]], dims: str) -> None:
    left, right = (np.ones(shape, np.uint64) for shape in shapes)
    expected = np.matmul(left, right)
    rank = ", ".join("?" for _ in expected.shape)
    text = f"(uint64[{dims}] x, uint64[{', '.join(map(str, right.shape))}] w) => (uint64[{rank}] y)"
    found = run(text_model(f"g {text} {{ y = MatMul(x, w) }}", 19), {"x": left, "w": right})[0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("call", ["LpPool<p = 3, kernel_shape = [2, 2]>", "GlobalLpPool<p = 3>"])
def test_norms_over_windows_of_half_floats_round_once(call: str) -> None:
    x = np.full((1, 1, 2, 2), 50, np.float16)  # the cube of which is beyond float16
    model = text_model(f"g (float16[1, 1, 2, 2] x) => (float16[1, 1, 1, 1] y) {{ y = {call}(x) }}", 18)
    np.testing.assert_allclose(run(model, {"x": x})[0].ravel(), 50 * 4 ** (1 / 3), rtol=2e-3)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,jk->k", "ij,jk->ijk", "ij,jk->"])
def test_einsum_of_open_sizes(equation: str) -> None:
    x, w = floats(2, 5), floats(5, 3)
    rank = ", ".join("?" for _ in equation.split("->")[1])
    text = f'(float[2, m] x, float[m, n] w) => (float[{rank}] y) {{ y = Einsum<equation = "{equation}">(x, w) }}'
    found = run(text_model(f"g {text}", 18), {"x": x, "w": w})[0]
    np.testing.assert_allclose(found, np.einsum(equation, x, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int64", "uint32"])
@pytest.mark.parametrize("shape", [(2, 3), (2, 0)])
def test_a_mean_of_integers_is_one_whoever_computes_it(dtype: str, shape: tuple[int, int]) -> None:
    x, axes = (np.arange(6) * 37 - (dtype == "int64") * 100)[: np.prod(shape)].reshape(shape).astype(dtype), "int64[1]"
    inside = text_model(f"g ({dtype}[2, n] x) => ({dtype}[?, ?] y) <{axes} a = {{1}}> {{ y = ReduceMean(x, a) }}", 18)
    outside = text_model(f"g ({dtype}[2, n] x, {axes} a) => ({dtype}[?, ?] y) {{ y = ReduceMean(x, a) }}", 18)
    expected = np.trunc(x.sum(1, keepdims=True) / max(shape[1], 1)).astype(dtype)
    np.testing.assert_array_equal(run(inside, {"x": x})[0], expected)
    np.testing.assert_array_equal(run(outside, {"x": x, "a": np.array([1])})[0], expected)


#: Calls on `v`, which has the elements of x in a rank that only the run can tell, and what NumPy makes of it.
_ON_ANY_RANK: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "Sum": ("Sum(v, w, w)", lambda v: v + 2 * np.float32(0.5)),
    "Max": ("Max(v, w)", lambda v: np.maximum(v, 0.5)),
    "Clip": ("Clip(v, w)", lambda v: np.maximum(v, 0.5)),
    "Mod": ("Mod<fmod = 1>(v, w)", lambda v: np.fmod(v, 0.5)),
    "Sin": ("Sin(v)", np.sin),
    "Softplus": ("Softplus(v)", lambda v: np.logaddexp(v, 0)),
    "MatMul": ("MatMul(v, m)", lambda v: v @ np.ones((2, 3), np.float32)),
}


@pytest.mark.parametrize("name", sorted(_ON_ANY_RANK))
def test_operators_on_a_rank_that_only_the_run_can_tell(name: str) -> None:
    call, expected = _ON_ANY_RANK[name]
    constants = "float w = {0.5}, float[2, 3] m = {1, 1, 1, 1, 1, 1}"
    model = text_model(
        f"g (float[6] x, int64[n] s) => (float[?, ?] y) <{constants}> {{ v = Reshape(x, s)  y = {call} }}", 18
    )
    x = np.array([-2.5, -1, 0.25, 1, 2, 3], np.float32)
    found = run(model, {"x": x, "s": np.array([3, 2])})[0]
    np.testing.assert_allclose(found, expected(x.reshape(3, 2)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('Einsum<equation = "ij,j->i">(v, w)', lambda v: v @ [1, 2]),
        ("ArgMin<axis = 1, keepdims = 0>(v)", lambda v: v.argmin(1)),
        ("ArgMax<axis = 1, keepdims = 0, select_last_index = 1>(v)", lambda v: 1 - v[:, ::-1].argmax(1)),
    ],
    ids=["Einsum", "ArgMin", "ArgMax"],
)
def test_operators_on_sizes_that_only_the_run_can_tell(call: str, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    kind = "float" if "Einsum" in call else "int64"
    constants = "float[2] w = {1, 2}"
    text = f"(float[6] x, int64[2] s) => ({kind}[?] y) <{constants}> {{ v = Reshape(x, s)  y = {call} }}"
    x = np.array([1, 1, 2, 3, 5, 4], np.float32)
    found = run(text_model(f"g {text}", 18), {"x": x, "s": np.array([3, 2])})[0]
    np.testing.assert_allclose(found, expected(x.reshape(3, 2)), rtol=1e-6)


@pytest.mark.parametrize("mode", ["half_pixel_symmetric", "align_corners", "pytorch_half_pixel"])
def test_resize_of_an_open_size_is_that_of_the_size(mode: str) -> None:
    call = f'Resize<coordinate_transformation_mode = "{mode}", mode = "linear">(x, , scales)'
    text = f"=> (float[a, b, c, d] y) <float[4] scales = {{1, 1, 1.6, 0.5}}> {{ y = {call} }}"
    x = floats(1, 1, 5, 7)
    whole, fixed = (text_model(f"g (float[1, 1, 5, {size}] x) {text}", 19) for size in ("n", "7"))
    np.testing.assert_allclose(run(whole, {"x": x})[0], run(fixed, {"x": x})[0], rtol=1e-6, atol=1e-6)


def test_an_optional_of_a_constant_stays_optional() -> None:
    text = "(int64 n) => (bool y) <float[1] c = {1}> { o = Optional(c)  y = OptionalHasElement(o) }"
    assert run(text_model(f"g {text}", 17), {"n": np.array(1)})[0].item() is True


def test_celu_keeps_what_is_positive() -> None:
    x = np.array([2.6572622e38, 1.1, 0, -0.5, -3e38], np.float32)
    model = text_model("g (float[5] x) => (float[5] y) { y = Celu<alpha = 0.43>(x) }", 17)
    expected = np.where(x > 0, x, 0.43 * np.expm1(np.minimum(x, 0).astype(np.float64) / 0.43))
    np.testing.assert_allclose(run(model, {"x": x})[0], expected, rtol=1e-6)


@pytest.mark.parametrize("call", ["Sub(c, c)", "BitwiseXor(c, c)", "Mul(c, zero)"])
def test_what_cancels_a_product_takes_its_schedule_away(call: str) -> None:
    """The layout of the convolution chose a configuration for a kernel that computes nothing of it."""
    constants = "<uint8[3,2,1,2] w = {3,0,5,9,1,2,3,4,5,6,7,8}, int32 zero = {0}>"
    text = f"g (uint8[2,2,1,9] x) => (int32[?,?,?,?] y) {constants} {{ c = ConvInteger(x, w)  y = {call} }}"
    (found,) = run(text_model(text, 18), {"x": np.arange(36, dtype=np.uint8).reshape(2, 2, 1, 9)})
    np.testing.assert_array_equal(found, np.zeros((2, 3, 1, 8), np.int32))
