"""Caffe2 nets against NumPy, what is wrong with them, and damaged ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.caffe2.builder import F_B, F_W, NETWORK, NETWORKS, SHAPE, STATS, WEIGHTS, B, W, nets, op
from tests.frontend.protobuf import encode
from tests.frontend.running import mutations, refused, run
from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.caffe2 import from_caffe2
from tilewright.frontend.caffe2.load import SCHEMA
from tilewright.frontend.formats.table import frontend_of

rng = np.random.default_rng(5)


def results(
    weights: dict[str, np.ndarray], *operators: dict[str, Any], x: np.ndarray, outputs: str = "y"
) -> list[np.ndarray]:
    mod, _ = from_caffe2(*nets(weights, *operators, outputs=outputs), {"x": x.shape})
    return run(mod, {"x": x})


def test_a_network_from_its_two_files(tmp_path: Path) -> None:
    predict, init = nets(WEIGHTS, *NETWORK)
    (tmp_path / "predict_net.pb").write_bytes(predict)
    (tmp_path / "init_net.pb").write_bytes(init)
    path = tmp_path / "predict_net.pb"
    assert frontend_of(path).name == frontend_of((predict, init)).name == "caffe2"
    assert [one.name for one in frontend_of(path).companions(path)] == ["init_net.pb"]
    x = rng.standard_normal((2, 3, 6, 6)).astype("f")
    found = np.asarray(tw.compile(path, input_shapes={"x": x.shape})(x))
    made = np.zeros((2, 4, 2, 2))
    for row, column in np.ndindex(2, 2):
        window = x[:, None, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        made[:, :, row, column] = (W * window).sum((2, 3, 4)) + B
    gamma, beta, mean, var = (value[:, None, None] for value in STATS.values())
    made = np.maximum((made - mean) / np.sqrt(var + 1e-3) * gamma + beta, 0)
    powers = np.exp(made.reshape(2, 16) @ F_W.T + F_B)
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-3, atol=1e-5)


def test_operators_agree_with_numpy() -> None:
    x = rng.standard_normal((2, 4, 6, 8)).astype("f")
    positive = np.abs(x) + 0.5
    half = x.reshape(2, 4, 3, 2, 4, 2)
    per_channel = rng.standard_normal(4).astype("f")
    spread = per_channel[:, None, None]
    for operator, wanted in (
        (op("MaxPool", "x", "y", kernel=2, stride=2), half.max((3, 5))),
        (op("AveragePool", "x", "y", kernels=(2, 2), strides=(2, 2)), half.mean((3, 5))),
        (op("AveragePool", "x", "y", global_pooling=1), x.mean((2, 3), keepdims=True)),
        (op("Sigmoid", "x", "y"), 1 / (1 + np.exp(-x))),
        (op("LeakyRelu", "x", "y", alpha=0.2), np.where(x > 0, x, 0.2 * x)),
        (op("PRelu", "x k", "y"), np.where(x > 0, x, spread * x)),
        (op("Elu", "x", "y", alpha=0.5), np.where(x > 0, x, 0.5 * np.expm1(x))),
        (op("Clip", "x", "y", min=-0.5, max=1.0), np.clip(x, -0.5, 1)),
        (op("Mul", "x k", "y", broadcast=1, axis=1), x * spread),
        (op("Sum", "x x x", "y"), 3 * x),
        (op("Transpose", "x", "y", axes=(0, 2, 3, 1)), x.transpose(0, 2, 3, 1)),
        (op("Flatten", "x", "y"), x.reshape(2, -1)),
        (op("ChannelShuffle", "x", "y", group=2), x[:, [0, 2, 1, 3]]),
        (op("ResizeNearest", "x", "y", height_scale=2.0, width_scale=3.0), x.repeat(2, 2).repeat(3, 3)),
        (op("PadImage", "x", "y", pad_t=1, pad_l=2, pad_b=0, pad_r=3, mode="reflect"),
         np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 3)), mode="reflect")),
        (op("ReduceMean", "x", "y", axes=(2, 3), keepdims=0), x.mean((2, 3))),
        (op("LRN", "x", "y", size=1, alpha=0.5, beta=0.75, bias=2.0), x / (2 + 0.5 * x * x) ** 0.75),
    ):  # fmt: skip
        (found,) = results({"k": per_channel}, operator, x=x)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5, err_msg=operator["type"])
    found = results(
        {}, op("Split", "x", "a b", split=(1, 3)), op("Concat", "b a", "y extents"), x=x, outputs="y extents"
    )
    np.testing.assert_array_equal(found[0], np.concatenate([x[:, 1:], x[:, :1]], 1))
    assert found[1].tolist() == [3, 1]
    (found,) = results({}, op("Sqrt", "x", "r"), op("Reshape", "r", "y old", shape=(0, -1)), x=positive)
    np.testing.assert_allclose(found, np.sqrt(positive).reshape(2, -1), rtol=1e-5)


@pytest.mark.parametrize(
    ("operators", "error", "says"),
    [
        (
            [op("Wavelet", "x", "w"), op("Fourier", "w", "y")],
            UnsupportedError,
            "2 things.*\n.*Wavelet 'w': no converter",
        ),
        (
            [op("Concat", "x nothing", "n"), op("Relu", "later", "y"), op("Relu", "n", "later")],
            ModelError,
            "reads 'later'",
        ),
        ([op("Split", "x", "y z", split=(1, 9))], ModelError, "parts of"),
        ([op("Conv", "x w b", "y", kernel=3, order="NHWC")], UnsupportedError, "layout NHWC"),
    ],
)
def test_what_is_wrong_is_told(operators: list[Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        from_caffe2(
            *nets(WEIGHTS, *operators, inputs="x nothing"),
            {"x": (1, 3, 6, 6)} | ({"nothing": (1, 1, 6, 6)} if says == "reads 'later'" else {}),
        )


@pytest.mark.parametrize("name", NETWORKS)
def test_mutated_nets_are_refused_or_read(name: str) -> None:
    weights, operators = NETWORKS[name]
    predict, init = nets(weights, *operators)
    shapes = {"x": SHAPE}
    assert refused(lambda contents: from_caffe2(contents, init, shapes), mutations(predict, 350)) > 150
    assert refused(lambda contents: from_caffe2(predict, contents, shapes), mutations(init, 200)) > 100


def test_sizes_that_no_file_holds_are_refused() -> None:
    predict, _ = nets({}, op("Add", "x w", "y"))
    init = encode(SCHEMA, "NetDef", {"op": [op("ConstantFill", "", "w", shape=[1 << 40], value=1.0)]})
    with pytest.raises(ModelError, match="has the shape"):
        from_caffe2(predict, init, {"x": (1,)})
