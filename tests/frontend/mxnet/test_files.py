"""Symbols and parameters that MXNet did not write: what is wrong with them, and damaged ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.running import mutations, refused
from tilewright.errors import ModelError, ShapeError, UnsupportedError
from tilewright.frontend.mxnet import from_mxnet
from tilewright.frontends import frontend_of

rng = np.random.default_rng(8)
SHAPES = {"data": (2, 3, 6, 6)}
WEIGHTS = {
    "arg:c_weight": rng.standard_normal((4, 3, 3, 3)).astype("f"),
    "arg:c_bias": rng.standard_normal(4).astype("f"),
    "arg:f_weight": rng.standard_normal((5, 16)).astype("f"),
}


def node(operator: str, name: str, *inputs: int, **attrs: str) -> dict[str, Any]:
    return {"op": operator, "name": name, "attrs": attrs, "inputs": [[place, 0, 0] for place in inputs]}


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


def test_mutated_files() -> None:
    assert refused(lambda contents: from_mxnet(contents, PARAMS, SHAPES), mutations(NET, 350)) > 150
    assert refused(lambda contents: from_mxnet(NET, contents, SHAPES), mutations(PARAMS, 200)) > 60
