"""Each layer of Caffe: against OpenCV's dnn where it has the layer, and against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.caffe.builder import blob, caffemodel, layer, net, opencv
from tests.frontend.protobuf import encode
from tests.frontend.running import run
from tilewright.errors import ModelError, ShapeError, UnsupportedError
from tilewright.frontend.caffe import from_caffe
from tilewright.frontend.caffe.node import converts
from tilewright.frontend.caffe.schema import NET

rng = np.random.default_rng(5)
SHAPE = (2, 4, 7, 9)


def random(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype("f")


def window(kind: str, text: str, *blobs: Any) -> tuple[str, dict[str, Any]]:
    return layer(kind, "x", more=f"convolution_param {{ {text} }}"), {"x": blobs}


def plain(kind: str, more: str = "", *blobs: Any) -> tuple[str, dict[str, Any]]:
    return layer(kind, "x", more=more), {"x": blobs} if blobs else {}


#: One layer `x` of the input `data` and its blobs; OpenCV has the layer and computes the same.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "convolution": window("Convolution", "num_output: 6 kernel_size: 3 pad: 1 stride: 2",
        random(6, 4, 3, 3), random(6)),
    "convolution without bias": window("Convolution", "num_output: 6 kernel_h: 3 kernel_w: 1 bias_term: false",
                                       random(6, 4, 3, 1)),
    "groups": window("Convolution", "num_output: 6 kernel_size: 3 group: 2", random(6, 2, 3, 3), random(6)),
    "dilation": window("Convolution", "num_output: 6 kernel_size: 3 dilation: 2 pad: 2", random(6, 4, 3, 3), random(6)),
    "deconvolution": window("Deconvolution", "num_output: 3 kernel_size: 4 stride: 2 pad: 1",
        random(4, 3, 4, 4), random(3)),
    "deconvolution of groups": window("Deconvolution",
                                      "num_output: 4 group: 4 kernel_size: 3 stride: 2 bias_term: false",
                                      random(4, 1, 3, 3)),
    "product": plain("InnerProduct", "inner_product_param { num_output: 5 }", random(5, 252), random(5)),
    "max": plain("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }"),
    "max with padding": plain("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 }"),
    "mean": plain("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 }"),
    "mean with padding": plain("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }"),
    "mean of all": plain("Pooling", "pooling_param { pool: AVE global_pooling: true }"),
    "max of all": plain("Pooling", "pooling_param { pool: MAX global_pooling: true }"),
    "relu": plain("ReLU"),
    "leaky": plain("ReLU", "relu_param { negative_slope: 0.1 }"),
    "prelu": plain("PReLU", "", random(4)),
    "shared prelu": plain("PReLU", "prelu_param { channel_shared: true }", random(1)),
    "elu": plain("ELU"),
    "sigmoid": plain("Sigmoid"),
    "tanh": plain("TanH"),
    "abs": plain("AbsVal"),
    "bnll": plain("BNLL"),
    "power": plain("Power", "power_param { power: 2 scale: 0.5 shift: 1 }"),
    "exp": plain("Exp", "exp_param { base: 2 scale: 0.5 shift: 0.1 }"),
    "normalization": plain("BatchNorm", "batch_norm_param { eps: 0.001 }", random(4), abs(random(4)) + 0.5, [2.0]),
    "scale": plain("Scale", "scale_param { bias_term: true }", random(4), random(4)),
    "lrn": plain("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 }"),
    "lrn within": plain("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }"),
    "normalize": plain("Normalize", "norm_param { across_spatial: false }", random(4)),
    "normalize all": plain("Normalize", "norm_param { across_spatial: true channel_shared: true }", random(1)),
    "flatten": plain("Flatten"),
    "flatten some": plain("Flatten", "flatten_param { axis: 2 end_axis: 3 }"),
    "reshape": plain("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }"),
    "reshape inside": plain("Reshape", "reshape_param { axis: 1 num_axes: 2 shape { dim: 2 dim: -1 } }"),
    "permute": plain("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
    "softmax": plain("Softmax"),
    "softmax of an axis": plain("Softmax", "softmax_param { axis: 3 }"),
    "mvn": plain("MVN", "mvn_param { eps: 0.00001 }"),
    "dropout": plain("Dropout"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layer_is_that_of_opencv(name: str, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV (opencv-python-headless<5) is not installed")
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        pytest.skip(f"OpenCV {cv2.__version__} reads no Caffe networks; 4.x does")
    text, blobs = CASES[name]
    text, data, x = net(text, data=SHAPE), caffemodel(blobs), random(*SHAPE)
    (wanted,) = opencv(cv2, tmp_path, text, data, {"data": x}).values()
    mod, _ = from_caffe(text.encode(), data)
    (found,) = run(mod, {"data": x})
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=5e-5)


def result(text: str, blobs: Any = None, **inputs: np.ndarray) -> list[np.ndarray]:
    mod, specs = from_caffe(
        net(text, **{name: value.shape for name, value in inputs.items()}).encode(), caffemodel(blobs or {})
    )
    assert [spec.name for spec in specs] == list(inputs)
    return run(mod, inputs)


def test_the_mean_of_a_window_counts_the_padding_that_is_there() -> None:
    x = random(1, 1, 4, 4)
    (found,) = result(layer("Pooling", "x", more="pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }"), data=x)
    padded = np.pad(x[0, 0], 1)
    for row, column in np.ndindex(found.shape[2:]):
        part = padded[2 * row : min(2 * row + 3, 6), 2 * column : min(2 * column + 3, 6)]
        assert found[0, 0, row, column] == pytest.approx(part.sum() / part.size, rel=1e-4)
    assert found.shape == (1, 1, 3, 3)


def test_layers_of_several_inputs_and_results() -> None:
    a, b = random(*SHAPE), random(*SHAPE)
    for text, wanted in (
        ("operation: PROD", a * b),
        ("operation: MAX", np.maximum(a, b)),
        ("coeff: 2 coeff: -1", 2 * a - b),
    ):
        (found,) = result(layer("Eltwise", "x", ("a", "b"), more=f"eltwise_param {{ {text} }}"), a=a, b=b)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    (found,) = result(layer("Concat", "x", ("a", "b"), more="concat_param { axis: 2 }"), a=a, b=b)
    np.testing.assert_array_equal(found, np.concatenate([a, b], 2))
    found = result(layer("Slice", "x", ("a",), ("p", "q", "r"), "slice_param { slice_point: 1 slice_point: 3 }"), a=a)
    for part, wanted in zip(found, (a[:, :1], a[:, 1:3], a[:, 3:]), strict=True):
        np.testing.assert_array_equal(part, wanted)
    small = random(2, 4, 3, 5)
    (found,) = result(layer("Crop", "x", ("a", "c"), more="crop_param { axis: 2 offset: 2 offset: 1 }"), a=a, c=small)
    np.testing.assert_array_equal(found, a[:, :, 2:5, 1:6])
    factors = random(2, 4)
    (found,) = result(layer("Scale", "x", ("a", "f"), more="scale_param { axis: 0 }"), a=a, f=factors)
    np.testing.assert_allclose(found, a * factors[:, :, None, None], rtol=1e-6)
    (found,) = result(layer("Axpy", "x", ("f", "a", "b")), f=factors, a=a, b=b)
    np.testing.assert_allclose(found, a * factors[:, :, None, None] + b, rtol=1e-5, atol=1e-6)


def test_reductions_and_the_positions_of_the_greatest() -> None:
    x = random(3, 4, 5)
    for name, wanted in (("SUM", x.sum((1, 2))), ("ASUM", abs(x).sum((1, 2))), ("SUMSQ", (x * x).sum((1, 2))),
                         ("MEAN", x.mean((1, 2)))):  # fmt: skip
        (found,) = result(
            layer("Reduction", "x", more=f"reduction_param {{ operation: {name} axis: 1 coeff: 2 }}"), data=x
        )
        np.testing.assert_allclose(found, 2 * wanted, rtol=1e-4, atol=1e-5)
    order = np.argsort(-x.reshape(3, -1), 1, kind="stable")[:, :2]
    (found,) = result(layer("ArgMax", "x", more="argmax_param { top_k: 2 out_max_val: true }"), data=x)
    np.testing.assert_array_equal(found[:, 0], order)
    np.testing.assert_array_equal(found[:, 1], np.take_along_axis(x.reshape(3, -1), order, 1))
    (found,) = result(layer("ArgMax", "x", more="argmax_param { axis: 2 }"), data=x)
    np.testing.assert_array_equal(found[:, :, 0], x.argmax(2))


def test_layers_beside_opencvs_agree_with_numpy() -> None:
    x = random(*SHAPE)
    sigmoid = 1 / (1 + np.exp(-x))
    for text, blobs, wanted in (
        (layer("Swish", "x", more="swish_param { beta: 1 }"), {}, x * sigmoid),
        (layer("Clip", "x", more="clip_param { min: -1 max: 0.5 }"), {}, np.clip(x, -1, 0.5)),
        (layer("Threshold", "x", more="threshold_param { threshold: 0.3 }"), {}, (x > 0.3).astype("f")),
        (layer("Log", "x", more="log_param { base: 2 scale: 0.1 shift: 3 }"), {}, np.log2(0.1 * x + 3)),
        (layer("Tile", "x", more="tile_param { axis: 2 tiles: 3 }"), {}, np.tile(x, (1, 1, 3, 1))),
        (layer("Bias", "x"), {"x": [np.arange(4)]}, x + np.arange(4)[:, None, None]),
        (layer("BN", "x"), {"x": [np.arange(4), np.ones(4)]}, x * np.arange(4)[:, None, None] + 1),
        (layer("Pooling", "x", more="pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }"), {},
         x[:, :, :6, :8].reshape(2, 4, 3, 2, 4, 2).max((3, 5))),
        (layer("ReLU6", "x"), {}, np.clip(x, 0, 6)),
        (layer("ShuffleChannel", "x", more="shuffle_channel_param { group: 2 }"), {}, x[:, [0, 2, 1, 3]]),
        (layer("Upsample", "x", more="upsample_param { scale: 2 }"), {}, x.repeat(2, 2).repeat(2, 3)),
        (layer("MVN", "x", more="mvn_param { normalize_variance: false across_channels: true }"), {},
         x - x.mean((1, 2, 3), keepdims=True)),
        (layer("Pooling", "x", more="pooling_param { pool: STOCHASTIC kernel_size: 7 kernel_w: 9 kernel_h: 7 }"), {},
         (x * x).sum((2, 3), keepdims=True) / x.sum((2, 3), keepdims=True)),
    ):  # fmt: skip
        (found,) = result(text, blobs, data=x)
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-4)
    table = random(6, 3)
    more = "embed_param { num_output: 3 input_dim: 6 bias_term: false }"
    (found,) = result(layer("Embed", "x", more=more), {"x": [table]}, data=np.array([[1, 5], [0, 2]], "f"))
    np.testing.assert_array_equal(found, table[[[1, 5], [0, 2]]])
    (found,) = result(layer("Interp", "x", more="interp_param { height: 13 width: 17 }"), data=x)
    np.testing.assert_allclose(found[:, :, ::2, ::2], x, rtol=1e-4, atol=1e-5)
    (found,) = result(layer("Im2col", "x", more="convolution_param { kernel_size: 2 stride: 2 }"), data=x)
    np.testing.assert_array_equal(found[:, 4:8, 1, 2].reshape(2, 2, 2), x[:, 1, 2:4, 4:6])
    (found,) = result(layer("SPP", "x", more="spp_param { pyramid_height: 2 }"), data=random(1, 2, 8, 8))
    assert found.shape == (1, 2 * 5)


def test_a_sequence_begins_anew_where_it_is_told_to() -> None:
    x, cont = random(3, 2, 5), np.array([[0, 0], [1, 1], [1, 0]], "f")
    w, b, u = random(16, 5), random(16), random(16, 4)
    (found,) = result(
        layer("LSTM", "x", ("data", "cont"), more="recurrent_param { num_output: 4 }"),
        {"x": [w, b, u]},
        data=x,
        cont=cont,
    )
    h, c = np.zeros((2, 4)), np.zeros((2, 4))
    for step in range(3):
        kept = cont[step][:, None]
        i, f, o, g = np.split(x[step] @ w.T + b + (h * kept) @ u.T, 4, 1)
        c = kept * c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        np.testing.assert_allclose(found[step], h, rtol=1e-4, atol=1e-5)
    w, b, u, v, e = random(4, 5), random(4), random(4, 4), random(4, 4), random(4)
    (found,) = result(
        layer("RNN", "x", ("data", "cont"), more="recurrent_param { num_output: 4 }"), {"x": [w, b, u, v, e]}, data=x,
        cont=cont,
    )  # fmt: skip
    h = np.zeros((2, 4))
    for step in range(3):
        h = np.tanh(x[step] @ w.T + b + (h * cont[step][:, None]) @ u.T)
        np.testing.assert_allclose(found[step], np.tanh(h @ v.T + e), rtol=1e-4, atol=1e-5)


def test_anchors_and_the_boxes_that_are_kept() -> None:
    prior = layer("PriorBox", "p", ("map", "data"), more="prior_box_param { min_size: 20 max_size: 40 aspect_ratio: 2 "
                  "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 }")  # fmt: skip
    (found,) = result(prior, map=random(1, 4, 2, 3), data=random(1, 3, 60, 90))
    assert found.shape == (1, 2, 2 * 3 * 4 * 4)
    np.testing.assert_allclose(found[0, 0, :4], [5 / 90, 5 / 60, 25 / 90, 25 / 60], rtol=1e-5)
    wide = 20 * np.sqrt(2) / 2 / 90
    np.testing.assert_allclose(found[0, 0, [8, 10]], [15 / 90 - wide, 15 / 90 + wide], rtol=1e-5)
    np.testing.assert_allclose(found[0, 1, :4], [0.1, 0.1, 0.2, 0.2], rtol=1e-6)
    boxes = np.array([[0, 0, 0.4, 0.4], [0, 0, 0.4, 0.41], [0.5, 0.5, 1, 1]], "f")
    anchors = np.stack([boxes.ravel(), np.full(12, 0.1)]).astype("f")[None]
    scores = np.array([[0.1, 0.9, 0.2, 0.8, 0.3, 0.7]], "f")
    more = ("detection_output_param { num_classes: 2 code_type: CENTER_SIZE keep_top_k: 4 confidence_threshold: 0.5 "
            "nms_param { nms_threshold: 0.5 } }")  # fmt: skip
    (found,) = result(
        layer("DetectionOutput", "x", ("loc", "conf", "priors"), more=more), loc=np.zeros((1, 12), "f"), conf=scores,
        priors=anchors,
    )  # fmt: skip
    assert found.shape == (1, 1, 4, 7)
    np.testing.assert_allclose(found[0, 0, 0], [0, 1, 0.9, 0, 0, 0.4, 0.4], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0, 0, 1], [0, 1, 0.7, 0.5, 0.5, 1, 1], rtol=1e-5)
    assert not found[0, 0, 2:].any()


def test_layers_in_place_of_training_and_of_other_phases() -> None:
    text = net(
        layer("ReLU", "r", tops=("data",)),
        layer("Dropout", "d", tops=("data",), more="include { phase: TRAIN }"),
        layer("Power", "x", more="power_param { shift: 1 }"),
        layer("Accuracy", "accuracy", ("x", "label")),
        layer("Silence", "s", ("x2",)).replace('top: "s"', ""),
        data=(2, 3),
        x2=(1, 1),
    )
    x = random(2, 3)
    mod, specs = from_caffe(text.encode(), b"")
    assert [spec.name for spec in specs] == ["data", "x2"]
    (found,) = run(mod, {"data": x, "x2": np.zeros((1, 1), "f")})
    np.testing.assert_allclose(found, np.maximum(x, 0) + 1, rtol=1e-6)


def test_versions_0_and_1_are_read_as_todays() -> None:
    weights, biases, x = random(6, 4, 3, 3), random(6), random(*SHAPE)
    today = net(layer("Convolution", "c", more="convolution_param { num_output: 6 kernel_size: 3 pad: 1 }"),
                layer("ReLU", "c", ("c",)),
                layer("Pooling", "p", ("c",), more="pooling_param { kernel_size: 2 stride: 2 }"),
                data=SHAPE)  # fmt: skip
    header = 'name: "old" input: "data" ' + " ".join(f"input_dim: {extent}" for extent in SHAPE)
    version_1 = (
        header
        + """
        layers { name: "c" type: CONVOLUTION bottom: "data" top: "c"
            convolution_param { num_output: 6 kernel_size: 3 pad: 1 } }
        layers { name: "r" type: RELU bottom: "c" top: "c" }
        layers { name: "p" type: POOLING bottom: "c" top: "p" pooling_param { kernel_size: 2 stride: 2 } }"""
    )
    version_0 = (
        header
        + """
        layers { layer { name: "pad" type: "padding" pad: 1 } bottom: "data" top: "padded" }
        layers { layer { name: "c" type: "conv" num_output: 6 kernelsize: 3 } bottom: "padded" top: "c" }
        layers { layer { name: "r" type: "relu" } bottom: "c" top: "c" }
        layers { layer { name: "p" type: "pool" kernelsize: 2 stride: 2 } bottom: "c" top: "p" }"""
    )
    results = []
    for text in (today, version_1, version_0):
        mod, _ = from_caffe(text.encode(), caffemodel({"c": [weights, biases]}))
        results.append(run(mod, {"data": x})[0])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_a_caffemodel_alone_is_a_network_and_sizes_may_be_given() -> None:
    weights, biases = random(2, 3, 3, 3), random(2)
    message = {
        "name": "net",
        "input": ["data"],
        "input_shape": [{"dim": [1, 3, 8, 8]}],
        "layer": [{"name": "c", "type": "Convolution", "bottom": ["data"], "top": ["c"],
                   "blobs": [blob(weights), blob(biases)], "convolution_param": {"num_output": 2, "kernel_size": [3]}}],
    }  # fmt: skip
    exe = tw.compile(encode(NET, "NetParameter", message), input_shapes={"data": ("n", 3, 5, 6)})
    assert np.asarray(exe(random(4, 3, 5, 6))).shape == (4, 2, 3, 4)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (
            layer("Wavelet", "x") + "} layer {" + layer("Fourier", "y"),
            UnsupportedError,
            "2 things.*\n.*'x' .Wavelet.: no",
        ),
        (
            layer("Convolution", "x", more="convolution_param { num_output: 2 kernel_size: 3 }"),
            ModelError,
            "has no weights",
        ),
        (layer("Convolution", "x", more="convolution_param { num_output: 2 }"), ModelError, "states no kernel_size"),
        (layer("ReLU", "x", ("nothing",)), ModelError, "reads 'nothing', which no input"),
        (layer("Reshape", "x", more="reshape_param { shape { dim: -1 dim: -1 } }"), ModelError, "in place of the axes"),
        (layer("Slice", "x", tops=("p", "q"), more="slice_param { slice_point: 9 }"), ModelError, "slice points"),
        (layer("Pooling", "x", more="pooling_param { kernel_size: 99 }"), ModelError, "larger than data"),
        (
            layer("Pooling", "x", more="pooling_param { kernel_size: 2 pool: MIN }"),
            ModelError,
            "line .*MIN is no value",
        ),
        (layer("Softmax", "x", more="softmax_param { axis: 7 }"), ModelError, "axis 7 is out of range"),
        (layer("Scale", "w"), ModelError, "3 factors for axes"),
    ],
)
def test_what_is_wrong_is_told(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        from_caffe(net(text, data=SHAPE).encode(), caffemodel({"w": [np.zeros(3)]}))


def test_files_that_do_not_go_together() -> None:
    text = net(layer("ReLU", "x"), data=SHAPE).encode()
    with pytest.raises(ModelError, match="truncated or damaged Caffe model"):
        from_caffe(text, b"\xa2\x06\xff")
    bad = encode(
        NET, "NetParameter", {"layer": [{"name": "x", "blobs": [{"shape": {"dim": [1 << 40]}, "data": [1.0]}]}]}
    )
    with pytest.raises(ModelError, match="has 1 numbers for the shape"):
        from_caffe(text, bad)
    with pytest.raises(ModelError, match="has no inputs"):
        from_caffe(b'name: "x"', b"")
    with pytest.raises(ShapeError, match="number of dimensions"):
        from_caffe(
            b'layer { name: "d" type: "Data" top: "d" } layer { name: "x" type: "ReLU" bottom: "d" top: "x" }', b""
        )


def test_a_plug_in_reads_parameters_that_the_schema_does_not_know() -> None:
    @converts("TestOnlyShift")
    def convert(node: Any) -> Any:
        from tilewright.relay import const, op

        return op.add(node[0], const(node.layer.extra["shift_param"][0].extra["by"][0]))

    (found,) = result(layer("TestOnlyShift", "x", more="shift_param { by: 2.5 }"), data=np.zeros((1, 2), "f"))
    assert found.tolist() == [[2.5, 2.5]]
