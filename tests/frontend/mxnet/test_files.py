"""Symbols and parameters that MXNet did not write: what is wrong with them, and damaged ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.running import mutations, refused, run
from tilewright.errors import ModelError, ShapeError, UnsupportedError
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.mxnet import from_mxnet

rng = np.random.default_rng(8)
SHAPES = {"data": (2, 3, 6, 6)}
WEIGHTS = {
    "arg:c_weight": rng.standard_normal((4, 3, 3, 3)).astype("f"),
    "arg:c_bias": rng.standard_normal(4).astype("f"),
    "arg:f_weight": rng.standard_normal((5, 16)).astype("f"),
}


def node(operator: str, name: str, *inputs: int, **attrs: str) -> dict[str, Any]:
    return {"op": operator, "name": name, "attrs": attrs, "inputs": [[position, 0, 0] for position in inputs]}


def symbol(*nodes: dict[str, Any], head: int | None = None) -> bytes:
    heads = [[len(nodes) - 1 if head is None else head, 0, 0]]
    return json.dumps({"nodes": list(nodes), "arg_nodes": [], "heads": heads}).encode()


def parameters(arrays: dict[str, np.ndarray]) -> bytes:
    out = struct.pack("<QQQ", 0x112, 0, len(arrays))
    for data in arrays.values():
        out += struct.pack("<Iii", 0xF993FAC9, 0, data.ndim) + struct.pack(f"<{data.ndim}q", *data.shape)
        out += struct.pack("<iii", 1, 0, 0) + data.tobytes()
    out += struct.pack("<Q", len(arrays))
    return out + b"".join(struct.pack("<Q", len(name)) + name.encode() for name in arrays)


NET = symbol(
    node("null", "data"), node("null", "c_weight"), node("null", "c_bias"),
    node("Convolution", "c", 0, 1, 2, kernel="(3, 3)", stride="(2, 2)", pad="(0, 0)", num_filter="4"),
    node("Activation", "a", 3, act_type="relu"), node("null", "f_weight"),
    node("FullyConnected", "f", 4, 5, num_hidden="5", no_bias="True"), node("null", "softmax_label"),
    node("SoftmaxOutput", "softmax", 6, 7),
)  # fmt: skip
PARAMS = parameters(WEIGHTS)


def test_a_symbol_with_its_parameters_of_the_latest_epoch(tmp_path: Path) -> None:
    path = tmp_path / "net-symbol.json"
    path.write_bytes(NET)
    (tmp_path / "net-0000.params").write_bytes(parameters({name: data * 0 for name, data in WEIGHTS.items()}))
    (tmp_path / "net-0012.params").write_bytes(PARAMS)
    (tmp_path / "other-0013.params").write_bytes(b"")
    assert frontend_of(path).name == frontend_of((NET, PARAMS)).name == "mxnet"
    x = rng.standard_normal(SHAPES["data"]).astype("f")
    found = np.asarray(tw.compile(path, input_shapes=SHAPES)(x))
    weight, bias, matrix = WEIGHTS.values()
    wanted = np.zeros((2, 4, 2, 2))
    for row, column in np.ndindex(2, 2):
        window = x[:, None, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        wanted[:, :, row, column] = np.maximum((weight * window).sum((2, 3, 4)) + bias, 0)
    powers = np.exp(wanted.reshape(2, 16) @ matrix.T)
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("graph", "error", "says"),
    [
        (symbol(node("null", "data"), node("Wavelet", "w", 0), node("Fourier", "g", 1)), UnsupportedError,
         "2 things.*\n.*Wavelet 'w': no converter"),
        (symbol(node("null", "data"), node("Activation", "a", 0)), ModelError, "its attribute act_type is missing"),
        (symbol(node("null", "data"), node("relu", "a", 1)), ModelError, "node 1 reads"),
        (symbol(node("null", "data"), head=7), ModelError, "its heads are"),
        (symbol(node("null", "data"), node("split", "s", 0, num_outputs="5")), ModelError, "do not make 5 parts"),
        (NET[:-30], ModelError, "truncated or damaged MXNet symbol"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(graph: bytes, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        from_mxnet(graph, PARAMS, SHAPES)


def test_inputs_have_no_shapes_unless_they_are_given() -> None:
    with pytest.raises(ShapeError, match="number of dimensions"):
        from_mxnet(NET, PARAMS)


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        (b"\0" * 64, "does not begin with their mark"),
        (PARAMS[:100], "truncated or damaged"),
        (struct.pack("<QQQ", 0x112, 0, 1 << 60), "arrays"),
        (PARAMS[:28] + struct.pack("<ii", 0, 1 << 30) + PARAMS[36:], "axes"),
        (PARAMS[:36] + struct.pack("<q", 1 << 50) + PARAMS[44:], "bytes are needed"),
    ],
)
def test_damaged_parameters_are_told(contents: bytes, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        from_mxnet(NET, contents, SHAPES)


def test_mutated_files_are_refused_or_read() -> None:
    assert refused(lambda contents: from_mxnet(contents, PARAMS, SHAPES), mutations(NET, 350)) > 150
    assert refused(lambda contents: from_mxnet(NET, contents, SHAPES), mutations(PARAMS, 200)) > 60


def gluon_lstm(**of_rnn: str) -> bytes:
    """As Gluon exports an LSTM of two units over [3, 2, 4]: its weights one by one, states whose batch is left open."""
    parts = [node("null", name) for name in ("w_i", "w_h", "b_i", "b_h")]
    flat = [node("Reshape", f"flat{position}", position + 1, shape="(-1,)") for position in range(4)]
    zeros = [node("_zeros", name, shape="(1, 0, 2)") for name in ("h", "c")]
    joined = node("_rnn_param_concat", "joined", 5, 6, 7, 8, dim="0", num_args="4")
    settings = {"mode": "lstm", "state_size": "2", "num_layers": "1", "state_outputs": "True", **of_rnn}
    return symbol(node("null", "data"), *parts, *flat, joined, *zeros, node("RNN", "rnn", 0, 9, 10, 11, **settings))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_recurrent_layers_as_gluon_exports_them() -> None:
    shapes = {"w_i": (8, 4), "w_h": (8, 2), "b_i": (8,), "b_h": (8,)}
    arrays = {name: rng.standard_normal(shape).astype("f") for name, shape in shapes.items()}
    x = rng.standard_normal((3, 2, 4)).astype("f")
    contents = parameters({f"arg:{name}": data for name, data in arrays.items()})
    mod, _ = from_mxnet(gluon_lstm(), contents, {"data": x.shape})
    (found,) = run(mod, {"data": x})
    hidden, cell = np.zeros((2, 2)), np.zeros((2, 2))
    for row, ours in zip(x, found, strict=True):
        gates = row @ arrays["w_i"].T + hidden @ arrays["w_h"].T + arrays["b_i"] + arrays["b_h"]
        take, keep, new, out = np.split(gates, 4, 1)
        cell = sigmoid(keep) * cell + sigmoid(take) * np.tanh(new)
        hidden = sigmoid(out) * np.tanh(cell)
        np.testing.assert_allclose(ours, hidden, rtol=1e-5, atol=1e-6)
    with pytest.raises(ModelError, match="fewer than"):
        from_mxnet(gluon_lstm(num_layers="2"), contents, {"data": x.shape})
    with pytest.raises(UnsupportedError, match="mode=ugrnn"):
        from_mxnet(gluon_lstm(mode="ugrnn"), contents, {"data": x.shape})


def test_interleaved_attention_agrees_with_numpy() -> None:
    net = symbol(
        node("null", "data"), node("_contrib_interleaved_matmul_selfatt_qk", "s", 0, heads="2"),
        node("softmax", "p", 1), node("_contrib_interleaved_matmul_selfatt_valatt", "v", 0, 2, heads="2"),
    )  # fmt: skip
    x = rng.standard_normal((5, 3, 2 * 3 * 4)).astype("f")
    mod, _ = from_mxnet(net, {}, {"data": x.shape})
    (found,) = run(mod, {"data": x})
    query, key, value = np.moveaxis(x.reshape(5, 3, 2, 3, 4), 3, 0)
    powers = np.exp(np.einsum("lbhd,mbhd->bhlm", query, key) / 2)
    wanted = np.einsum("bhlm,mbhd->lbhd", powers / powers.sum(-1, keepdims=True), value)
    np.testing.assert_allclose(found, wanted.reshape(5, 3, 8), rtol=1e-5, atol=1e-6)
    with pytest.raises(ModelError, match="are no 3 parts of 5 heads"):
        from_mxnet(symbol(node("null", "data"), node("_contrib_interleaved_matmul_selfatt_qk", "s", 0, heads="5")),
                   {}, {"data": x.shape})  # fmt: skip


def test_boxes_are_suppressed() -> None:
    rows = np.array([[[0, 0.5, 0, 0, 2, 2], [0, 0.9, 0, 0, 2, 2.2], [1, 0.4, 0, 0, 2, 2], [0, 0.3, 5, 5, 6, 6]]], "f")
    net = symbol(node("null", "data"), node("_contrib_box_nms", "n", 0, id_index="0", valid_thresh="0.35"))
    mod, _ = from_mxnet(net, {}, {"data": rows.shape})
    (found,) = run(mod, {"data": rows})
    np.testing.assert_array_equal(found[0], [*rows[0, [1, 2]], [-1] * 6, [-1] * 6])
    centred = rows.copy()
    centred[..., 2:4], centred[..., 4:6] = (rows[..., 2:4] + rows[..., 4:6]) / 2, rows[..., 4:6] - rows[..., 2:4]
    settings = {"in_format": "center", "out_format": "center", "id_index": "0"}
    mod, _ = from_mxnet(symbol(node("null", "data"), node("_contrib_box_nms", "n", 0, **settings)), {},
                        {"data": rows.shape})  # fmt: skip
    (found,) = run(mod, {"data": centred})
    np.testing.assert_allclose(found[0], [*centred[0, [1, 2, 3]], [-1] * 6], atol=1e-6)


STEPS = rng.standard_normal((4, 3, 2)).astype("f")
LENGTHS = np.array([2, 4, 1], "f")


def sequences(operator: str, lengths: bool, **attrs: str) -> np.ndarray:
    inputs = [node("null", "data"), node("null", "lengths")][: 1 + lengths]
    net = symbol(*inputs, node(operator, "y", *range(len(inputs)), use_sequence_length=str(lengths), **attrs))
    shapes = {"data": STEPS.shape, "lengths": LENGTHS.shape}
    feed = {"data": STEPS, "lengths": LENGTHS}
    kept = [one["name"] for one in inputs]
    mod, _ = from_mxnet(net, parameters({}), {name: shapes[name] for name in kept})
    return run(mod, {name: feed[name] for name in kept})[0]


def test_sequences_are_turned_around_as_far_as_they_are_long() -> None:
    np.testing.assert_array_equal(sequences("SequenceReverse", False), STEPS[::-1])
    wanted = STEPS.copy()
    for row, length in enumerate(LENGTHS.astype(int)):
        wanted[:length, row] = STEPS[:length, row][::-1]
    np.testing.assert_array_equal(sequences("SequenceReverse", True), wanted)


def test_the_last_step_of_each_sequence() -> None:
    np.testing.assert_array_equal(sequences("SequenceLast", False), STEPS[-1])
    wanted = np.stack([STEPS[int(length) - 1, row] for row, length in enumerate(LENGTHS)])
    np.testing.assert_array_equal(sequences("SequenceLast", True), wanted)
    np.testing.assert_array_equal(sequences("SequenceLast", False, axis="1"), STEPS[:, -1])
