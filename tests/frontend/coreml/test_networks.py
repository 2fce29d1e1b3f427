"""Neural networks of Core ML against NumPy: Core ML itself runs on Apple's systems only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.frontend.coreml.network_cases import SIMPLE, numbers, w
from tests.frontend.protobuf import encode
from tests.frontend.running import mutations, refused, run
from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.coreml import from_coreml
from tilewright.frontend.coreml.schema import SCHEMA


def array(name: str, shape: Sequence[int], dtype: str = "FLOAT32") -> dict[str, Any]:
    return {"name": name, "type": {"multiArrayType": {"shape": list(shape), "dataType": dtype}}}


def network(
    inputs: Mapping[str, Sequence[int]],
    layers: Sequence[dict[str, Any]],
    outputs: Sequence[str] = ("y",),
    exact: bool = True,
) -> bytes:
    """A model of one network over arrays as they are, or of five axes."""
    mapping = "EXACT_ARRAY_MAPPING" if exact else "RANK5_ARRAY_MAPPING"
    description = {"input": [array(*entry) for entry in inputs.items()], "output": [{"name": name} for name in outputs]}
    whole = {"layers": list(layers), "arrayInputShapeMapping": mapping}
    return encode(SCHEMA, "Model", {"specificationVersion": 4, "description": description, "neuralNetwork": whole})


def layer(
    kind: str, params: dict[str, Any] | None = None, inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ("y",)
) -> Any:
    return {"name": kind, "input": list(inputs), "output": list(outputs), kind: params or {}}


def result(model: bytes, **inputs: np.ndarray) -> list[np.ndarray]:
    return run(from_coreml(model)[0], inputs)


def one(kind: str, params: dict[str, Any] | None, *values: np.ndarray, exact: bool = True) -> np.ndarray:
    """The first result of a layer over inputs."""
    names = [f"x{number}" for number in range(len(values))]
    model = network(dict(zip(names, (v.shape for v in values))), [layer(kind, params, names)], exact=exact)
    return result(model, **dict(zip(names, values)))[0]


@pytest.mark.parametrize(
    ("kind", "params", "inputs", "wanted"), SIMPLE, ids=[f"{number}-{case[0]}" for number, case in enumerate(SIMPLE)]
)
def test_each_layer_agrees_with_numpy(kind: str, params: Any, inputs: list[np.ndarray], wanted: Any) -> None:
    found = one(kind, params, *[np.asarray(value, np.float32) for value in inputs])
    wanted = np.asarray(wanted, np.float32)
    assert found.dtype == np.float32
    np.testing.assert_allclose(
        found, wanted.reshape(found.shape) if wanted.size == found.size else wanted, rtol=1e-4, atol=1e-5
    )


def convolved(x: np.ndarray, k: np.ndarray, stride: int, groups: int) -> np.ndarray:
    """[N, C, H, W] with [O, C / groups, KH, KW], no padding."""
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    parts = [
        np.einsum("nchwij,ocij->nohw", part, kernel)
        for part, kernel in zip(np.split(windows, groups, 1), np.split(k, groups, 0))
    ]
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("padding", ["valid", "same", "edges"])
def test_convolutions_agree_with_numpy(groups: int, padding: str) -> None:
    x, k, bias = numbers(1, 4, 7, 6), numbers(6, 4 // groups, 3, 3), numbers(6)
    params = {"outputChannels": 6, "kernelChannels": 4 // groups, "nGroups": groups, "kernelSize": [3, 3],
              "stride": [2, 2], "hasBias": True, "weights": w(k), "bias": w(bias)}  # fmt: skip
    pads = {"valid": [(0, 0), (0, 0)], "same": [(1, 1), (0, 1)], "edges": [(1, 0), (2, 1)]}[padding]
    if padding == "same":
        params["same"] = {"asymmetryMode": "BOTTOM_RIGHT_HEAVY"}
    else:
        edges = [{"startEdgeSize": a, "endEdgeSize": b} for a, b in pads]
        params["valid"] = {"paddingAmounts": {"borderAmounts": edges}}
    wanted = convolved(np.pad(x, [(0, 0), (0, 0), *pads]), k, 2, groups) + bias[:, None, None]
    np.testing.assert_allclose(one("convolution", params, x), wanted, rtol=1e-4, atol=1e-4)


def test_a_transposed_convolution_agrees_with_numpy() -> None:
    x, k = numbers(1, 2, 3, 3), numbers(2, 3, 2, 2)
    params = {"outputChannels": 3, "kernelChannels": 2, "nGroups": 1, "kernelSize": [2, 2], "stride": [2, 2],
              "isDeconvolution": True, "valid": {}, "weights": w(k)}  # fmt: skip
    wanted = np.einsum("nchw,cokl->nohkwl", x, k).reshape(1, 3, 6, 6)
    np.testing.assert_allclose(one("convolution", params, x), wanted, rtol=1e-4, atol=1e-5)


def test_pooling_agrees_with_numpy() -> None:
    x = numbers(1, 2, 5, 6)
    plain = {"kernelSize": [2, 2], "stride": [2, 2], "valid": {}}
    parts = x[:, :, :4].reshape(1, 2, 2, 2, 3, 2)
    np.testing.assert_allclose(one("pooling", {"type": "MAX", **plain}, x), parts.max((3, 5)))
    np.testing.assert_allclose(one("pooling", {"type": "AVERAGE", **plain}, x), parts.mean((3, 5)), rtol=1e-5)
    np.testing.assert_allclose(one("pooling", {"type": "L2", **plain}, x), np.sqrt((parts**2).sum((3, 5))), rtol=1e-5)
    everywhere = one("pooling", {"type": "AVERAGE", "globalPooling": True}, x)
    np.testing.assert_allclose(everywhere, x.mean((2, 3), keepdims=True), rtol=1e-5)
    last = {"type": "MAX", "kernelSize": [2, 2], "stride": [2, 2], "includeLastPixel": {"paddingAmounts": [0, 0]}}
    wide = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 0)], constant_values=-np.inf)
    np.testing.assert_allclose(one("pooling", last, x), wide.reshape(1, 2, 3, 2, 3, 2).max((3, 5)))


def test_arrays_of_three_axes_are_brought_to_five_and_back() -> None:
    x = numbers(3, 4, 2)
    layers = [
        layer("permute", {"axis": [0, 2, 3, 1]}, outputs=["a"]),
        layer("reshape", {"targetShape": [6, 4, 1]}, ["a"], ["b"]),
        layer("flatten", {}, ["b"], ["c"]),
        layer("innerProduct", {"inputChannels": 24, "outputChannels": 2, "weights": w(np.ones((2, 24)))}, ["c"]),
    ]
    found = result(network({"x": x.shape}, layers, exact=False), x=x)[0]
    np.testing.assert_allclose(found, [x.sum()] * 2, rtol=1e-4)


def test_an_lstm_over_steps() -> None:
    steps, batch, width, units = 4, 2, 3, 5
    x = numbers(steps, batch, width, 1, 1)
    names = ("inputGate", "forgetGate", "blockInput", "outputGate")
    own, rec, bias, peep = (
        {n: numbers(*s) * np.float32(0.5) for n in names} for s in ((units, width), (units, units), (units,), (units,))
    )
    weight = {f"{n}WeightMatrix": w(own[n]) for n in names} | {f"{n}RecursionMatrix": w(rec[n]) for n in names}
    weight |= {f"{n}BiasVector": w(bias[n]) for n in names}
    weight |= {f"{n}PeepholeVector": w(peep[n]) for n in names if n != "blockInput"}
    params = {
        "inputVectorSize": width, "outputVectorSize": units,
        "activations": [{"sigmoid": {}}, {"tanh": {}}, {"tanh": {}}],
        "params": {"sequenceOutput": True, "hasBiasVectors": True, "hasPeepholeVectors": True, "forgetBias": True},
        "weightParams": weight,
    }  # fmt: skip
    model = network(
        {"x": x.shape}, [layer("uniDirectionalLSTM", params, outputs=["y", "h", "c"])], ["y", "h", "c"], exact=False
    )
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    h, c, wanted = np.zeros((batch, units)), np.zeros((batch, units)), []
    for step in x[:, :, :, 0, 0]:
        pre = {n: step @ own[n].T + h @ rec[n].T + bias[n] for n in names}
        i = sigmoid(pre["inputGate"] + peep["inputGate"] * c)
        f = sigmoid(pre["forgetGate"] + 1 + peep["forgetGate"] * c)
        c = f * c + i * np.tanh(pre["blockInput"])
        h = sigmoid(pre["outputGate"] + peep["outputGate"] * c) * np.tanh(c)
        wanted.append(h)
    found = result(model, x=x)
    np.testing.assert_allclose(found[0].reshape(steps, batch, units), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[2].reshape(batch, units), c, rtol=1e-4, atol=1e-5)


def test_weights_of_few_bits() -> None:
    x = numbers(1, 4)
    codes = np.array([[0, 1, 2, 3], [3, 2, 1, 0]])
    raw = bytes([0b00011011, 0b11100100])
    linear = {"quantization": {"numberOfBits": 2, "linearQuantization": {"scale": [0.5, 2.0], "bias": [1.0, -1.0]}}}
    table = {"quantization": {"numberOfBits": 2, "lookupTableQuantization": {"floatValue": [0.0, 1.0, 4.0, 9.0]}}}
    for form, matrix in ((linear, codes * [[0.5], [2.0]] + [[1.0], [-1.0]]), (table, codes**2)):
        params = {"inputChannels": 4, "outputChannels": 2, "weights": {"rawValue": raw, **form}}
        np.testing.assert_allclose(
            one("innerProduct", params, x), x @ matrix.T.astype(np.float32), rtol=1e-4, atol=1e-5
        )
    half = {"float16Value": np.arange(8, dtype=np.float16).tobytes()}
    params = {"inputChannels": 4, "outputChannels": 2, "weights": half}
    wanted = x @ np.arange(8, dtype=np.float32).reshape(2, 4).T
    np.testing.assert_allclose(one("innerProduct", params, x), wanted, rtol=1e-4, atol=1e-5)


def test_an_image_is_scaled_by_colour_and_a_classifier_gives_probabilities() -> None:
    image = {"name": "image", "type": {"imageType": {"width": 3, "height": 2, "colorSpace": "BGR"}}}
    scaler = {
        "featureName": "image",
        "scaler": {"channelScale": 0.5, "redBias": 1.0, "greenBias": 2.0, "blueBias": 3.0},
    }
    whole = {"layers": [layer("reduce", {"mode": "SUM", "axis": "HW"}, ["image"], ["p"])], "preprocessing": [scaler],
             "labelProbabilityLayerName": "p"}  # fmt: skip
    description = {"input": [image], "output": [{"name": "classLabel"}]}
    model = encode(
        SCHEMA, "Model", {"specificationVersion": 3, "description": description, "neuralNetworkClassifier": whole}
    )
    x = np.abs(numbers(3, 2, 3)) * 100
    wanted = (x * 0.5 + np.float32([3, 2, 1])[:, None, None]).sum((1, 2))
    np.testing.assert_allclose(result(model, image=x)[0], wanted, rtol=1e-5)


def test_all_layers_without_a_converter_are_named() -> None:
    layers = [layer("cropResize"), layer("custom", inputs=["y"], outputs=["z"])]
    with pytest.raises(UnsupportedError, match=r"(?s)operator cropResize.*no converter for the operator custom"):
        from_coreml(network({"x": [2]}, layers, ["z"]))


def test_what_does_not_fit_is_one_error() -> None:
    short = {"inputChannels": 4, "outputChannels": 2, "weights": w([1, 2])}
    with pytest.raises(ModelError, match="weights has 2 numbers for the shape"):
        from_coreml(network({"x": [4]}, [layer("innerProduct", short)]))
    with pytest.raises(ModelError, match="2 axes; the network takes one, three or five"):
        from_coreml(network({"x": [4, 4]}, [layer("ceil")], exact=False))


def test_damaged_files_are_refused() -> None:
    params = {
        "outputChannels": 6,
        "kernelChannels": 4,
        "nGroups": 1,
        "kernelSize": [3, 3],
        "weights": w(numbers(6, 4, 3, 3)),
    }
    whole = network(
        {"x": [1, 4, 7, 6]},
        [layer("convolution", params), layer("pooling", {"kernelSize": [2, 2]}, ["y"], ["z"])],
        ["z"],
    )
    assert refused(from_coreml, mutations(whole, 300)) > 100
