"""Sizes that a model leaves open: each may be 0, operands agree on them, and who cannot take them says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference import ReferenceEvaluator

from tilewright.driver.model.build import build_model
from tilewright.errors import InputError, UserError
from tilewright.frontend.onnx import from_onnx
from tilewright.runtime.model import Model
from tilewright.target import Target

EMPTY = {
    "elementwise": ("(float[n,4] x) => (float[a,b] y) { z = Exp(x)  y = Mul(z, x) }", {"x": (0, 4)}),
    "sum over nothing": ("(float[n,m] x) => (float[a,b] y) { y = ReduceSum <keepdims=1> (x) }", {"x": (3, 0)}),
    "no columns": ("(float[n,k] x, float[k,m] w) => (float[a,b] y) { y = MatMul(x, w) }", {"x": (3, 7), "w": (7, 0)}),
    "no terms": ("(float[n,k] x, float[k,m] w) => (float[a,b] y) { y = MatMul(x, w) }", {"x": (3, 0), "w": (0, 5)}),
    "a part": (
        "(float[n,4] x, float[m,4] w) => (float[a,b] y) { y = Concat <axis=0> (x, w) }",
        {"x": (0, 4), "w": (3, 4)},
    ),
    "windows": (
        "(float[n,2,h,w] x) => (float[a,b,c,d] y) { y = MaxPool <kernel_shape=[2,2]> (x) }",
        {"x": (0, 2, 8, 8)},
    ),
    "flat": ("(float[n,m,2] x) => (float[a,b] y) { z = Flatten <axis=1> (x)  y = Relu(z) }", {"x": (3, 0, 2)}),
    "rows": ("(float[n,m] x) => (float[a,b] y) { y = Softmax <axis=1> (x) }", {"x": (3, 0)}),
}


def model_of(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 19]> g {text}')


def built(model: ModelProto, executor: str = "auto", threads: int = 1) -> Model:
    module, _ = from_onnx(model)
    return build_model(module, Target("cpu"), threads, executor, jobs=1)


@pytest.mark.parametrize("executor", ["graph", "vm"])
@pytest.mark.parametrize("name", EMPTY)
def test_an_open_size_may_be_0(name: str, executor: str) -> None:
    text, shapes = EMPTY[name]
    model, rng = model_of(text), np.random.default_rng(0)
    compiled = built(model, executor, 2)
    full = {key: tuple(size or 5 for size in shape) for key, shape in shapes.items()}
    for drawn in (full, shapes, full):  # memory is used again, and nothing of it shows
        feeds: dict[str, Any] = {key: rng.standard_normal(shape).astype(np.float32) for key, shape in drawn.items()}
        (found,) = compiled.run(feeds)
        (wanted,) = ReferenceEvaluator(model).run(None, feeds)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_channels_that_a_convolution_leaves_open_are_those_of_the_other_operand() -> None:
    text = "(float[1,n,6] x, float[2,3,k] w) => (float[a,b,c] y) { y = Conv(x, w) }"
    model = model_of(text.replace("k]", "2]"))
    feeds = {"x": np.ones((1, 3, 6), np.float32), "w": np.ones((2, 3, 2), np.float32)}
    (found,) = built(model).run(feeds)
    np.testing.assert_array_equal(found, np.full((1, 2, 5), 6))
    with pytest.raises(InputError, match="must be equal"):
        built(model).run(feeds | {"x": np.ones((1, 4, 6), np.float32)})


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_samples_of_any_number_of_images_of_any_size_of_grid(padding: str) -> None:
    call = f'GridSample <mode="linear", padding_mode="{padding}"> (x, g)'
    text = f"(float[n,3,6,5] x, float[n,h,w,2] g) => (float[a,b,c,d] y) {{ y = {call} }}"
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> s {text}')
    compiled, rng = built(model, threads=2), np.random.default_rng(0)
    for count, *samples in ((1, 4, 7), (3, 2, 5), (2, 1, 1)):
        feeds = {
            "x": rng.standard_normal((count, 3, 6, 5)).astype(np.float32),
            "g": rng.uniform(-1.3, 1.3, (count, *samples, 2)).astype(np.float32),
        }
        (wanted,) = ReferenceEvaluator(model).run(None, feeds)
        np.testing.assert_allclose(compiled.run(feeds)[0], wanted, rtol=1e-4, atol=1e-5)


def test_parts_say_how_long_an_open_axis_is() -> None:
    body = "{ s = Constant <value_ints=[1,2]> ()  y, w = Split <axis=0> (x, s) }"
    model = model_of(f"(float[n] x) => (float[a] y, float[b] w) {body}")
    x = np.arange(3, dtype=np.float32)
    found = built(model).run({"x": x})
    np.testing.assert_array_equal(np.concatenate(found), x)
    with pytest.raises(InputError, match="must be equal"):
        built(model).run({"x": np.zeros(4, np.float32)})


def test_a_constant_index_along_an_open_axis() -> None:
    model = model_of("(float[n,2] x) => (float[a] y) { i = Constant <value_int=-1> ()  y = Gather <axis=0> (x, i) }")
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(built(model).run({"x": x})[0], x[-1])


@pytest.mark.parametrize(
    "text",
    [
        "(float[2,n] x, float[2,2] s) => (uint8[a,b] y) { y = QuantizeLinear <axis=1, block_size=2> (x, s) }",
    ],
)  # fmt: skip
def test_who_needs_a_fixed_size_says_how_to_give_it(text: str) -> None:
    with pytest.raises(
        UserError, match=r"vary from run to run; fix them with --input-shapes .* \(in Python: input_shapes="
    ):
        from_onnx(model_of(text))


#: Models, and sizes of their inputs that have no meaning though each operand by itself could have them.
REFUSED = {
    "samples of no pixels": (
        "(float[n,3,h,w] x, float[n,2,2,2] g) => (float[a,b,c,d] y) { y = GridSample (x, g) }",
        {"x": (1, 3, 0, 2), "g": (1, 2, 2, 2)},
    ),
    "moved taps of no pixels": (
        "(float[n,1,h,w] x, float[1,1,1,1] k, float[n,2,3,4] o) => (float[a,b,c,d] y)"
        " { y = DeformConv <kernel_shape=[1,1], pads=[3,2,0,2]> (x, k, o) }",
        {"x": (1, 1, 0, 0), "k": (1, 1, 1, 1), "o": (1, 2, 3, 4)},
    ),
    "a window larger than its image": (
        "(float[n,2,h,w] x) => (float[a,b,c,d] y)"
        " { y = AveragePool <kernel_shape=[3,1], pads=[0,0,2,0], strides=[2,1]> (x) }",
        {"x": (2, 2, 0, 4)},
    ),
    "a window larger than its image, before a result without elements": (
        "(float[n,2,h,w] x) => (float[a,b,c,d] y) <int64[4] r = {3,1,1,0}>"
        " { z = AveragePool <kernel_shape=[3,1], pads=[0,0,2,0], strides=[2,1]> (x)  y = Tile (z, r) }",
        {"x": (2, 2, 0, 4)},
    ),
    "two such, joined": (
        "(float[n,2,h,w] x, float16[n,2,h,w] u) => (float16[a,b,c,d] y) <int64[4] r = {3,1,1,0}> {"
        " z = AveragePool <kernel_shape=[3,1]> (x)  t = Cast <to=10> (z)  s = AveragePool <kernel_shape=[3,1]> (u)"
        " o = Tile (t, r)  p = Tile (s, r)  y = Concat <axis=3> (o, p) }",
        {"x": (2, 2, 0, 4), "u": (2, 2, 0, 4)},
    ),
    "a bias of more values than channels": (
        "(float[1,2,k] x, float[2,1,1] w, float[n] b) => (float[a,c,d] y) { y = ConvTranspose (x, w, b) }",
        {"x": (1, 2, 3), "w": (2, 1, 1), "b": (2,)},
    ),
    "a bias of no values": (
        "(float[1,2,k] x, float[2,1,1] w, float[n] b) => (float[a,c,d] y) { y = ConvTranspose (x, w, b) }",
        {"x": (1, 2, 3), "w": (2, 1, 1), "b": (0,)},
    ),
    "a sum of more rows than the product": (
        "(float[1,k] x, float[k,m] w, float[n,m] b) => (float[a,c] y) { y = Gemm (x, w, b) }",
        {"x": (1, 3), "w": (3, 2), "b": (2, 2)},
    ),
    "a scale of more values than columns": (
        "(float[n,1] x, float[k] s) => (float[a,b] y) { y = LayerNormalization (x, s) }",
        {"x": (2, 1), "s": (3,)},
    ),
    "a grid of three coordinates for two axes": (
        "(float[n,3,4,4] x, float[n,2,2,k] g) => (float[a,b,c,d] y) { y = GridSample (x, g) }",
        {"x": (1, 3, 4, 4), "g": (1, 2, 2, 3)},
    ),
    "scales beside no columns": (
        "(float[n,m] x, float[3] s) => (uint8[a,b] y) { y = QuantizeLinear <axis=0> (x, s) }",
        {"x": (5, 0), "s": (3,)},
    ),
    "weights of no channels": (
        "(float[1,8,h,3] x, float[k,k,1,m] w) => (float[a,b,c,d] y) { y = ConvTranspose (x, w) }",
        {"x": (1, 8, 9, 3), "w": (0, 0, 1, 1)},
    ),
    "padding that takes all of a transposed convolution": (
        "(float[1,1,h,v] x, float[1,k,3,1] w) => (float[a,b,c,d] y) { y = ConvTranspose <pads=[2,1,0,2]> (x, w) }",
        {"x": (1, 1, 5, 1), "w": (1, 2, 3, 1)},
    ),
    "one mean for no channels": (
        "(float[n,c,h] x, float[1] s) => (float[a,b,d] y) { y = BatchNormalization (x, s, s, s, s) }",
        {"x": (1, 0, 2), "s": (1,)},
    ),
    "one mean for two channels": (
        "(float[n,c,h] x, float[1] s) => (float[a,b,d] y) { y = BatchNormalization (x, s, s, s, s) }",
        {"x": (1, 2, 2), "s": (1,)},
    ),
    "a diagonal of other columns than rows": (
        '(float[n,3] x) => (float[a] y) { y = Einsum <equation="ii->i"> (x) }',
        {"x": (0, 3)},
    ),
    "fewer sizes than parts": (
        "(float[n,2] x) => (float[a,b] y, float[c,d] z) <int64[1] k = {3}>"
        " { t = Shape <end=1> (x)  r = Div (t, k)  y, z = Split <axis=0> (x, r) }",
        {"x": (3, 2)},
    ),
    "states of two samples for none": (
        "(float[t,n,3] x, float[1,12,3] w, float[1,12,4] r, float[1,2,4] h) => (float[a,b,c,d] y)"
        " { y = GRU <hidden_size=4> (x, w, r, , , h) }",
        {"x": (2, 0, 3), "w": (1, 12, 3), "r": (1, 12, 4), "h": (1, 2, 4)},
    ),
    "states of two samples for none, weights of any size": (
        "(float[t,n,3] x, float[1,k,3] w, float[1,k,4] r, float[1,2,4] h) => (float[a,b,c,d] y)"
        " { y = GRU <hidden_size=4> (x, w, r, , , h) }",
        {"x": (2, 0, 3), "w": (1, 12, 3), "r": (1, 12, 4), "h": (1, 2, 4)},
    ),
    "lengths of no sequences for two, weights of any size": (
        "(float[3,2,3] x, float[1,k,3] w, float[1,k,4] r, int32[n] l) => (float[a,b,c,d] y)"
        " { y = GRU <hidden_size=4> (x, w, r, , l) }",
        {"x": (3, 2, 3), "w": (1, 12, 3), "r": (1, 12, 4), "l": (0,)},
    ),
    "peepholes of two directions for one, weights of any size": (
        "(float[3,2,3] x, float[1,k,3] w, float[1,k,4] r, float[n,12] p) => (float[a,b,c,d] y)"
        " { y = LSTM <hidden_size=4> (x, w, r, , , , , p) }",
        {"x": (3, 2, 3), "w": (1, 16, 3), "r": (1, 16, 4), "p": (2, 12)},
    ),
    "biases of two directions for one, weights of any size": (
        "(float[3,2,3] x, float[1,k,3] w, float[1,k,4] r, float[n,8] b) => (float[a,b,c,d] y)"
        " { y = RNN <hidden_size=4> (x, w, r, b) }",
        {"x": (3, 2, 3), "w": (1, 4, 3), "r": (1, 4, 4), "b": (2, 8)},
    ),
    "updates of single elements at coordinates of whole slices": (
        "(float[n,5] x, float[k] u, int64[2,k] i) => (float[a,b] y) { y = ScatterND (x, i, u) }",
        {"x": (0, 5), "u": (0,), "i": (2, 0)},
    ),
    "weights of fewer filters than groups": (
        "(float[1,4,h,2] x, float[k,1,2,1] w) => (float[a,b,c,d] y) { y = Conv <group=4> (x, w) }",
        {"x": (1, 4, 2, 2), "w": (1, 1, 2, 1)},
    ),
    "a bias of more values than filters": (
        "(float[1,4,h,2] x, float[k,4,2,1] w, float[2] b) => (float[a,b,c,d] y) { y = Conv (x, w, b) }",
        {"x": (1, 4, 2, 2), "w": (1, 4, 2, 1), "b": (2,)},
    ),
    "scales of a size that a reshape fixes": (
        "(float[n,m] x, float[m] s) => (uint8[a,b] y) <int64[2] k = {0, 3}>"
        " { z = Reshape (x, k)  y = QuantizeLinear <axis=1> (z, s) }",
        {"x": (0, 2), "s": (2,)},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_without_meaning_are_refused_open_and_fixed(name: str) -> None:
    text, shapes = REFUSED[name]
    model = model_of(text)
    kinds = {given.name: given.type.tensor_type.elem_type for given in model.graph.input}
    feeds = {key: np.ones(shape, tensor_dtype_to_np_dtype(kinds[key])) for key, shape in shapes.items()}
    with pytest.raises(InputError):
        built(model).run(feeds)
    with pytest.raises(UserError):
        module, _ = from_onnx(model, shapes)
        build_model(module, Target("cpu"), 1, "auto", jobs=1).run(feeds)


def test_a_scan_of_no_steps_returns_what_it_began_with() -> None:
    body = "body (float[3] s, float[3] e) => (float[3] t, float[3] o) { t = Add(s, e)  o = Identity(t) }"
    text = "(float[3] s, float[n,3] x) => (float[3] last, float[a,3] all)"
    model = model_of(f"{text} {{ last, all = Scan <num_scan_inputs=1, body={body}> (s, x) }}")
    for steps in (0, 2):
        feeds = {"s": np.float32([1, 2, 3]), "x": np.ones((steps, 3), np.float32)}
        module, _ = from_onnx(model, {key: value.shape for key, value in feeds.items()})
        for compiled in (built(model), build_model(module, Target("cpu"), 1, "auto", jobs=1)):
            last, every = compiled.run(feeds)
            np.testing.assert_array_equal(last, feeds["s"] + steps)
            assert every.shape == (steps, 3)


def test_a_product_without_rows_whose_terms_a_run_checks() -> None:
    model = model_of(
        "(int8[4,n,0,k] x) => (int32[a,b,c,d] y) <uint8[2,8] w = {3,0,7,9,0,8,1,9,3,1,7,2,8,5,5,5}>"
        " { y = MatMulInteger (x, w) }"
    )
    compiled = built(model)
    assert compiled.run({"x": np.zeros((4, 3, 0, 2), np.int8)})[0].shape == (4, 3, 0, 8)
    with pytest.raises(InputError):
        compiled.run({"x": np.zeros((4, 3, 0, 3), np.int8)})


@pytest.mark.parametrize("sizes", ["<int64[2] s = {0, -1}>", ""])
@pytest.mark.parametrize("shape", [(0, 2), (0, 0), (2, 0), (3, 2)])
def test_what_is_copied_leaves_the_same_for_a_derived_size(sizes: str, shape: tuple[int, int]) -> None:
    """Also where it is 0: the sizes that are not copied decide, as they do at any other number of rows."""
    model = model_of(
        f"(float[n,m] x{'' if sizes else ', int64[2] s'}) => (float[a,b] y) {sizes} {{ y = Reshape (x, s) }}"
    )
    feeds = {"x": np.ones(shape, np.float32)} | ({} if sizes else {"s": np.array([0, -1])})
    module, _ = from_onnx(model, {"x": shape})
    for compiled in (built(model), build_model(module, Target("cpu"), 1, "auto", jobs=1)):
        assert compiled.run(feeds)[0].shape == shape


_TALL = "kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1, pads = [1, 0, 1, 1]"


@pytest.mark.parametrize(
    "call",
    [
        'Conv<auto_pad = "SAME_UPPER", strides = [1, 1]>(x, w)',
        'Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, w)',
        'Conv<auto_pad = "SAME_LOWER", strides = [2, 3]>(x, w)',
        'ConvTranspose<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, w)',
        'MaxPool<auto_pad = "SAME_UPPER", kernel_shape = [3, 2], strides = [2, 3]>(x)',
        'AveragePool<auto_pad = "SAME_LOWER", kernel_shape = [3, 3], strides = [2, 2]>(x)',
        'LpPool<auto_pad = "SAME_UPPER", kernel_shape = [3, 3], strides = [2, 2]>(x)',
        f"MaxPool<{_TALL}>(x)",
        f"AveragePool<{_TALL}>(x)",
        f"AveragePool<{_TALL}, count_include_pad = 1>(x)",
    ],
)
@pytest.mark.sample(4)
def test_windows_whose_padding_open_sizes_decide(call: str) -> None:
    """Each size beside the same model of that size, which the operators' own tests hold to a reference."""
    text = f"(float[1, 2, h, v] x, float[2, 2, 3, 3] w) => (float[1, 2, p, q] y) {{ y = {call} }}"
    model, rng = model_of(text), np.random.default_rng(0)
    weights = rng.standard_normal((2, 2, 3, 3)).astype(np.float32)
    whole = built(model)
    for height, width in ((7, 8), (8, 8), (4, 5)):
        x = rng.standard_normal((1, 2, height, width)).astype(np.float32)
        module, _ = from_onnx(model, {"x": x.shape})
        fixed = build_model(module, Target("cpu"), 1, "auto", jobs=1)
        feeds = {"x": x, "w": weights}
        np.testing.assert_allclose(whole.run(feeds)[0], fixed.run(feeds)[0], rtol=1e-5, atol=1e-5)


NORMALIZATIONS = {
    "layer": ("(float[n,c,m] x, float[k] s, float[l] b)", "LayerNormalization <epsilon=1e-3> (x, s, b)", (2,)),
    "layers": ("(float[n,c,m] x, float[k,l] s)", "LayerNormalization <epsilon=1e-3, axis=1> (x, s)", (1, 2)),
    "group": ("(float[n,c,m] x, float[k] s, float[l] b)", "GroupNormalization <num_groups=2> (x, s, b)", None),
    "mean and variance": ("(float[n,c,m] x)", "MeanVarianceNormalization <axes=[0,2]> (x)", (0, 2)),
    "mean and variance of fixed sizes": ("(float[2,4,2] x)", "MeanVarianceNormalization <axes=[0,2]> (x)", (0, 2)),
    "instance": ("(float[n,c,m] x, float[k] s, float[l] b)", "InstanceNormalization (x, s, b)", (2,)),
}


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_a_small_variance_beside_a_large_mean_is_exact(name: str) -> None:
    inputs, call, axes = NORMALIZATIONS[name]
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g {inputs} => (float[a,d,e] y) {{ y = {call} }}'
    )
    x = (100 + np.random.default_rng(0).standard_normal((2, 4, 2))).astype(np.float32)
    sizes = {"layer": 2, "layers": (4, 2), "group": 4, "instance": 4}.get(name, 0)
    feeds = {"x": x, "s": np.ones(sizes, np.float32), "b": np.zeros(sizes, np.float32)}
    (found,) = built(model).run({given.name: feeds[given.name] for given in model.graph.input})
    grouped = x.astype(np.float64) if axes else x.astype(np.float64).reshape(2, 2, 4)
    axes = axes or (2,)
    epsilon = 1e-3 if "layer" in name else 0.0 if "mean" in name else 1e-5
    centred = grouped - grouped.mean(axes, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)
    np.testing.assert_allclose(found, wanted.reshape(x.shape), rtol=1e-4, atol=1e-4)
