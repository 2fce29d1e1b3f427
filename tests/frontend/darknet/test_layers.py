"""Each layer of Darknet: against OpenCV's dnn where it has the layer, and against NumPy."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.darknet.builder import NET, ON_VECTORS, conv_weights, opencv, packed
from tests.frontend.running import run
from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.darknet import from_darknet, initial_states

rng = np.random.default_rng(3)
CONV = "[convolutional]\nfilters={0}\nsize={1}\nstride={2}\npad=1\nactivation={3}\n"
HEAD = "anchors=10,14, 23,27, 37,58\nnum=3\nclasses=4\n"


def image(height: int = 8, width: int = 12, channels: int = 4) -> np.ndarray:
    return rng.standard_normal((1, channels, height, width)).astype("f")


def converted(cfg: str, data: bytes, x: np.ndarray, **others: np.ndarray) -> list[np.ndarray]:
    mod, specs = from_darknet(cfg.encode(), data)
    return run(mod, {specs[0].name: x, **others})


CASES: dict[str, tuple[str, list[Any]]] = {
    "convolution": (CONV.format(6, 3, 2, "leaky"), conv_weights(rng, 6, 4, 3)),
    "normalized": (CONV.format(6, 1, 1, "relu") + "batch_normalize=1\n", conv_weights(rng, 6, 4, 1, True)),
    "groups": (CONV.format(6, 3, 1, "linear") + "groups=2\n", conv_weights(rng, 6, 2, 3)),
    "swish": (CONV.format(6, 3, 1, "swish"), conv_weights(rng, 6, 4, 3)),
    "mish": (CONV.format(5, 5, 1, "mish"), conv_weights(rng, 5, 4, 5)),
    "logistic": (CONV.format(5, 1, 1, "logistic"), conv_weights(rng, 5, 4, 1)),
    "tanh": (CONV.format(5, 1, 1, "tanh"), conv_weights(rng, 5, 4, 1)),
    "maxpool": ("[maxpool]\nsize=2\nstride=2\n", []),
    "maxpool of stride 1": ("[maxpool]\nsize=2\nstride=1\n", []),
    "maxpool of 3": ("[maxpool]\nsize=3\nstride=2\n", []),
    "maxpool of 5": ("[maxpool]\nsize=5\nstride=1\n", []),
    "avgpool": ("[avgpool]\n", []),
    "route": (CONV.format(6, 1, 1, "linear") + "[maxpool]\nsize=3\nstride=1\n[route]\nlayers=-1, 0\n",
              conv_weights(rng, 6, 4, 1)),
    "route of a group": (CONV.format(6, 1, 1, "linear") + "[route]\nlayers=-1\ngroups=2\ngroup_id=1\n",
                         conv_weights(rng, 6, 4, 1)),
    "shortcut": (CONV.format(6, 1, 1, "linear") + CONV.format(6, 3, 1, "leaky")
                 + "[shortcut]\nfrom=-2\nactivation=linear\n",
                 [*conv_weights(rng, 6, 4, 1), *conv_weights(rng, 6, 6, 3)]),
    "upsample": ("[maxpool]\nsize=2\nstride=2\n[upsample]\nstride=2\n", []),
    "reorg": ("[reorg]\nstride=2\n", []),
    "scale_channels": (CONV.format(6, 1, 1, "linear") + "[avgpool]\n" + CONV.format(6, 1, 1, "logistic")
                       + "[scale_channels]\nfrom=-3\n", [*conv_weights(rng, 6, 4, 1), *conv_weights(rng, 6, 6, 1)]),
    "sam": (CONV.format(6, 1, 1, "linear") + CONV.format(6, 1, 1, "logistic") + "[sam]\nfrom=-2\n",
            [*conv_weights(rng, 6, 4, 1), *conv_weights(rng, 6, 6, 1)]),
    "yolo": (CONV.format(27, 1, 1, "linear") + "[yolo]\nmask=0,1,2\n" + HEAD, conv_weights(rng, 27, 4, 1)),
    "yolo of two masks": (CONV.format(18, 1, 1, "linear") + "[yolo]\nmask=1,2\nscale_x_y=1.05\n" + HEAD
                          + "[route]\nlayers=-2\n[yolo]\nmask=0,1\n" + HEAD, conv_weights(rng, 18, 4, 1)),
    "yolo of new coordinates": (CONV.format(27, 1, 1, "logistic") + "[yolo]\nmask=0,1,2\nnew_coords=1\nscale_x_y=2.0\n"
                                + HEAD, conv_weights(rng, 27, 4, 1)),
    "region": (CONV.format(27, 1, 1, "linear") + "[region]\ncoords=4\nsoftmax=1\n" + HEAD, conv_weights(rng, 27, 4, 1)),
    "softmax": ("[avgpool]\n[softmax]\ngroups=1\n", []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_layer_is_that_of_opencv(name: str, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV (opencv-python-headless<5) is not installed")
    if not hasattr(cv2.dnn, "readNetFromDarknet"):
        pytest.skip(f"OpenCV {cv2.__version__} reads no Darknet networks; 4.x does")
    layers, parts = CASES[name]
    cfg, x = NET.format(8, 12, 4) + layers, image()
    wanted = opencv(cv2, tmp_path, cfg, packed(*parts), x)
    found = converted(cfg, packed(*parts), x)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted):
        assert ours.shape == theirs.shape
        if name == "region":  # of boxes that overlap, OpenCV leaves one with scores
            ours[:, 5:] = np.where(theirs[:, 5:] > 0, ours[:, 5:], 0)
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_a_convolution_is_a_sum_over_windows() -> None:
    biases, scales, means, variances, filters = conv_weights(rng, 3, 4, 3, True)
    x = image(5, 6)
    cfg = NET.format(5, 6, 4) + CONV.format(3, 3, 2, "leaky") + "batch_normalize=1\n"
    (found,) = converted(cfg, packed(biases, scales, means, variances, filters), x)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.zeros((1, 3, 3, 3))
    for row, column in np.ndindex(3, 3):
        window = padded[0, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        wanted[0, :, row, column] = (filters * window).sum((1, 2, 3))
    wanted = (wanted - means[:, None, None]) / np.sqrt(variances[:, None, None] + 1e-6)
    wanted = wanted * scales[:, None, None] + biases[:, None, None]
    np.testing.assert_allclose(found, np.where(wanted > 0, wanted, 0.1 * wanted), rtol=1e-4, atol=1e-5)


def test_dilation_which_opencv_leaves_out() -> None:
    biases, filters = conv_weights(rng, 3, 4, 3)
    x = image(5, 6)
    cfg = NET.format(5, 6, 4) + CONV.format(3, 3, 1, "linear") + "dilation=2\n"
    (found,) = converted(cfg, packed(biases, filters), x)
    padded, wanted = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2))), np.zeros((1, 3, 5, 6))
    for row, column in np.ndindex(5, 6):
        window = padded[0, :, row : row + 5 : 2, column : column + 5 : 2]
        wanted[0, :, row, column] = (filters * window).sum((1, 2, 3)) + biases
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


FUNCTIONS = {
    "loggy": lambda x: 2 * sigmoid(x) - 1,
    "relu6": lambda x: np.clip(x, 0, 6),
    "elu": lambda x: np.where(x >= 0, x, np.expm1(x)),
    "selu": lambda x: np.where(x >= 0, 1.0507 * x, 1.0507 * 1.6732 * np.expm1(x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x**3)),
    "relie": lambda x: np.where(x > 0, x, 0.01 * x),
    "ramp": lambda x: np.maximum(x, 0) + 0.1 * x,
    "plse": lambda x: np.where(x < -4, 0.01 * (x + 4), np.where(x > 4, 0.01 * (x - 4) + 1, 0.125 * x + 0.5)),
    "stair": lambda x: np.where(np.floor(x) % 2 == 0, np.floor(x / 2), x - np.floor(x) + np.floor(x / 2)),
    "hardtan": lambda x: np.clip(x, -1, 1),
    "lhtan": lambda x: np.where(x < 0, 0.001 * x, np.where(x > 1, 0.001 * (x - 1) + 1, x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hard_mish": lambda x: np.where(x > 0, x, np.where(x > -2, x * x / 2 + x, 0)),
    "normalize_channels": lambda x: np.maximum(x, 0) / (np.maximum(x, 0).sum(1, keepdims=True) + 1e-4),
    "normalize_channels_softmax": lambda x: np.exp(x) / (np.exp(x).sum(1, keepdims=True) + 1e-4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_activation_agrees_with_numpy(name: str) -> None:
    x = image() * 4
    (found,) = converted(NET.format(8, 12, 4) + f"[activation]\nactivation={name}\n", packed(), x)
    np.testing.assert_allclose(found, FUNCTIONS[name](x.astype("d")), rtol=1e-4, atol=1e-5)


def test_connected_layers_with_normalization_whose_weights_come_in_another_order() -> None:
    biases, matrix = rng.standard_normal(5), rng.standard_normal((5, 24))
    scales, means, variances = rng.standard_normal(5), rng.standard_normal(5), rng.uniform(0.5, 2, 5)
    x = rng.standard_normal((1, 24)).astype("f")
    cfg = ON_VECTORS.format(24) + "[connected]\noutput=5\nactivation=relu\nbatch_normalize=1\n"
    (found,) = converted(cfg, packed(biases, matrix, scales, means, variances), x)
    wanted = (x @ matrix.T - means) / np.sqrt(variances + 1e-6) * scales + biases
    np.testing.assert_allclose(found, np.maximum(wanted, 0), rtol=1e-4, atol=1e-5)


def test_local_layers_have_filters_of_their_own_at_every_position() -> None:
    x = image(7, 9, 2)
    biases, filters = rng.standard_normal((3, 4, 5)), rng.standard_normal((4 * 5, 3, 2, 3, 3))
    cfg = NET.format(7, 9, 2) + "[local]\nfilters=3\nsize=3\nstride=2\npad=1\nactivation=linear\n"
    (found,) = converted(cfg, packed(biases, filters), x)
    padded, wanted = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), biases.copy()
    for row, column in np.ndindex(4, 5):
        window = padded[0, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        wanted[:, row, column] += (filters[row * 5 + column] * window).sum((1, 2, 3))
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-4)


def test_deconvolution_adds_filters_and_cuts_the_borders() -> None:
    x = image(3, 4, 2)
    biases, filters = rng.standard_normal(3), rng.standard_normal((2, 3, 4, 4))
    cfg = NET.format(3, 4, 2) + "[deconvolutional]\nfilters=3\nsize=4\nstride=2\npadding=1\nactivation=linear\n"
    (found,) = converted(cfg, packed(biases, filters), x)
    wanted = np.zeros((3, 8, 10))
    for row, column in np.ndindex(3, 4):
        added = np.tensordot(x[0, :, row, column], filters, 1)
        wanted[:, 2 * row : 2 * row + 4, 2 * column : 2 * column + 4] += added
    np.testing.assert_allclose(found[0], wanted[:, 1:-1, 1:-1] + biases[:, None, None], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", ["none", "relu", "softmax"])
def test_weighted_shortcuts_agree_with_numpy(how: str) -> None:
    x = image()
    factors = rng.standard_normal((2, 4))
    cfg = NET.format(8, 12, 4) + "[dropout]\n[activation]\nactivation=relu\n[shortcut]\nfrom=-2\nactivation=linear\n"
    cfg += f"weights_type=per_channel\nweights_normalization={how}\n"
    (found,) = converted(cfg, packed(factors), x)
    if how == "relu":
        factors = np.maximum(factors, 0) / (np.maximum(factors, 0).sum(0) + 1e-4)
    elif how == "softmax":
        powers = np.exp(factors - factors.max(0))
        factors = powers / (powers.sum(0) + 1e-4)
    wanted = np.maximum(x, 0) * factors[0][:, None, None] + x * factors[1][:, None, None]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_layers_that_move_pixels() -> None:
    x = image(7, 9, 4)
    (found,) = converted(NET.format(7, 9, 4) + "[crop]\ncrop_height=4\ncrop_width=5\n", packed(), x)
    np.testing.assert_allclose(found, x[:, :, 1:5, 2:7] * 2 - 1, rtol=1e-6)
    (found,) = converted(NET.format(7, 9, 4) + "[maxpool]\nmaxpool_depth=1\nout_channels=2\n", packed(), x)
    np.testing.assert_array_equal(found, np.stack([x[:, [0, 2]].max(1), x[:, [1, 3]].max(1)], 1))
    wide = image(7, 9, 16)
    (found,) = converted(NET.format(7, 9, 16) + "[reorg]\nstride=2\nreverse=1\n", packed(), wide)
    wanted = np.zeros((1, 4, 14, 18), "f")
    for channel, row, column in np.ndindex(16, 7, 9):
        offset = channel // 4
        wanted[0, channel % 4, 2 * row + offset // 2, 2 * column + offset % 2] = wide[0, channel, row, column]
    np.testing.assert_array_equal(found, wanted)
    (found,) = converted(NET.format(7, 9, 4) + "[upsample]\nstride=2\n[upsample]\nstride=-2\n", packed(), x)
    np.testing.assert_allclose(found, 4 * x, rtol=1e-6)
    (found,) = converted(NET.format(7, 9, 4) + "[softmax]\nspatial=1\n", packed(), x)
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-4)
    (found,) = converted(NET.format(7, 9, 4) + "[local_avgpool]\nsize=3\nstride=2\n", packed(), x)
    assert found[0, 0, 0, 0] == pytest.approx(x[0, 0, :2, :2].mean(), rel=1e-5)


def gate(parts: list[Any], x: np.ndarray) -> np.ndarray:
    return x @ parts[1].T + parts[0]


def matrix(units: int, inputs: int) -> list[Any]:
    return [rng.standard_normal(units) * 0.3, rng.standard_normal((units, inputs)) * 0.3]


def test_recurrent_layers_hand_their_states_from_run_to_run() -> None:
    x = rng.standard_normal((1, 6)).astype("f")
    state, cell = rng.standard_normal((1, 4)).astype("f"), rng.standard_normal((1, 4)).astype("f")
    layers = [matrix(4, 6), matrix(4, 4), matrix(3, 4)]
    cfg = ON_VECTORS.format(6) + "[rnn]\noutput=3\nhidden=4\nactivation=relu\n"
    found = converted(cfg, packed(*chain.from_iterable(layers)), x, **{"rnn_0.state": state})
    after = np.maximum(gate(layers[0], x), 0) + np.maximum(gate(layers[1], state), 0)
    np.testing.assert_allclose(found[1], after, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[0], np.maximum(gate(layers[2], after), 0), rtol=1e-4, atol=1e-5)

    layers = [matrix(4, 6) for _ in range(3)] + [matrix(4, 4) for _ in range(3)]
    cfg = ON_VECTORS.format(6) + "[gru]\noutput=4\ntanh=1\n"
    found = converted(cfg, packed(*chain.from_iterable(layers)), x, **{"gru_0.state": state})
    z = sigmoid(gate(layers[0], x) + gate(layers[3], state))
    r = sigmoid(gate(layers[1], x) + gate(layers[4], state))
    h = np.tanh(gate(layers[2], x) + gate(layers[5], r * state))
    for value in found:
        np.testing.assert_allclose(value, z * state + (1 - z) * h, rtol=1e-4, atol=1e-5)

    layers = [matrix(4, 4) for _ in range(4)] + [matrix(4, 6) for _ in range(4)]
    cfg = ON_VECTORS.format(6) + "[lstm]\noutput=4\n"
    found = converted(cfg, packed(*chain.from_iterable(layers)), x, **{"lstm_0.state": state, "lstm_0.cell": cell})
    f, i, g, o = (gate(layers[k], state) + gate(layers[k + 4], x) for k in range(4))
    after = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    np.testing.assert_allclose(found[2], after, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[0], sigmoid(o) * np.tanh(after), rtol=1e-4, atol=1e-5)


def test_convolutional_recurrence_and_the_states_that_a_run_begins_with() -> None:
    cfg = NET.format(4, 5, 2) + "[crnn]\noutput=3\nhidden=2\npad=1\nactivation=linear\n"
    parts = [*conv_weights(rng, 2, 2, 3), *conv_weights(rng, 2, 2, 3), *conv_weights(rng, 3, 2, 3)]
    states = initial_states(cfg.encode(), packed(*parts))
    assert {name: value.shape for name, value in states.items()} == {"crnn_0.state": (1, 2, 4, 5)}
    found = converted(cfg, packed(*parts), image(4, 5, 2), **states)
    assert [value.shape for value in found] == [(1, 3, 4, 5), (1, 2, 4, 5)]


def test_heads_without_decoding_are_what_the_layer_leaves() -> None:
    x = image(4, 4, 27)
    cfg = NET.format(4, 4, 27) + "[yolo]\nmask=0,1,2\n" + HEAD
    mod, _ = from_darknet(cfg.encode(), packed(), decode=False)
    (found,) = run(mod, {"data": x})
    split = x.reshape(3, 9, 4, 4)
    wanted = np.concatenate([sigmoid(split[:, :2]), split[:, 2:4], sigmoid(split[:, 4:])], 1)
    np.testing.assert_allclose(found, wanted.reshape(x.shape), rtol=1e-4, atol=1e-6)


def test_version_one_heads_and_the_sizes_that_the_user_gives() -> None:
    x = rng.standard_normal((1, 2 * 2 * (3 + 2 * 5))).astype("f")
    cfg = ON_VECTORS.format(52) + "[detection]\nside=2\nclasses=3\nnum=2\ncoords=4\nsoftmax=1\n"
    (found,) = converted(cfg, packed(), x)
    powers = np.exp(x[:, :12].reshape(1, 4, 3))
    np.testing.assert_allclose(found[:, :12], (powers / powers.sum(-1, keepdims=True)).reshape(1, 12), rtol=1e-4)
    np.testing.assert_array_equal(found[:, 12:], x[:, 12:])
    cfg = NET.format(8, 8, 4) + CONV.format(2, 3, 1, "relu")
    data = packed(*conv_weights(rng, 2, 4, 3))
    exe = tw.compile((cfg.encode(), data), input_shapes={"data": ("n", 4, 6, 10)})
    assert np.asarray(exe(np.ones((3, 4, 6, 10), "f"))).shape == (3, 2, 6, 10)


@pytest.mark.parametrize(
    ("layers", "error", "says"),
    [
        ("[wavelet]\nfilters=2\n[fourier]\n", UnsupportedError, "2 things.*(?s:.*)layer 0 .wavelet.: no converter"),
        ("[convolutional]\nfilters=2\nxnor=1\n", UnsupportedError, "the option xnor"),
        ("[activation]\nactivation=wave\n", UnsupportedError, "no activation 'wave'"),
        ("[convolutional]\nfilters=9999999\nsize=999\n", ModelError, "weights, and 3 are left of 3"),
        ("[maxpool]\nsize=2\nstride=0\n", ModelError, "stride=0 is out of range"),
        ("[maxpool]\nsize=many\n", ModelError, "size=many is no number"),
        ("[route]\nlayers=5\n", ModelError, "layers=5 names no layer before it"),
        ("[maxpool]\nsize=40\npadding=0\nstride=1\n", ModelError, "larger than the image"),
        ("[yolo]\nmask=0\nanchors=1,2\nnum=3\n", ModelError, "num=3 anchors"),
        ("[yolo]\nmask=0\nanchors=1,2\nnum=1\n", ModelError, "25 are needed"),
        ("[dropout]\n", ModelError, "takes 0: the file is of another network"),
        ("nonsense\n", ModelError, "line 5: 'nonsense' is neither"),
        ("", ModelError, "has no layers"),
        ("[softmax]\ntree=/etc/passwd\n", UnsupportedError, "tree of classes"),
    ],
)
def test_what_is_wrong_is_told(layers: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        from_darknet((NET.format(8, 8, 4) + layers).encode(), packed(np.zeros(3)))


def test_a_cfg_needs_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "net.cfg"
    path.write_text(NET.format(8, 8, 4) + "[maxpool]\nsize=2\n")
    with pytest.raises(ModelError, match="has no weights: put NAME"):
        from_darknet(path)
    (tmp_path / "net.weights").write_bytes(b"\0" * 8)
    with pytest.raises(ModelError, match="truncated: it has no header"):
        from_darknet(path)
    (tmp_path / "net.weights").write_bytes(b"\xff" * 40)
    with pytest.raises(ModelError, match="is no weights file of Darknet"):
        from_darknet(path)
    (tmp_path / "net.weights").write_bytes(packed())
    assert np.asarray(tw.compile(path)(image(8, 8))).shape == (1, 4, 8, 8)
