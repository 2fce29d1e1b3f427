"""Truncated, mutated and hostile Keras files give one error; needs h5py, not Keras."""

from __future__ import annotations

import copy
import io
import json
import sys
import zipfile
from typing import Any

import numpy as np
import pytest

from tilewright.errors import EnvironmentError_, ModelError, UnsupportedError, UserError
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.keras import from_keras

h5py = pytest.importorskip("h5py", reason="h5py, which reads the weights of Keras models, is not installed")


def config() -> dict[str, Any]:
    """A functional model: x, dense, relu."""

    def tensor(layer: str) -> dict[str, Any]:
        return {"class_name": "__keras_tensor__", "config": {"shape": [None, 4], "keras_history": [layer, 0, 0]}}

    def layer(kind: str, name: str, given: str, **settings: Any) -> dict[str, Any]:
        nodes = [{"args": [tensor(given)], "kwargs": {}}] if given else []
        return {
            "module": "keras.layers", "class_name": kind, "name": name, "inbound_nodes": nodes,
            "config": {"name": name, **settings}, "registered_name": None,
        }  # fmt: skip

    layers = [
        layer("InputLayer", "x", "", batch_shape=[None, 4], dtype="float32"),
        layer("Dense", "dense", "x", units=3, activation="tanh", use_bias=True),
        layer("ReLU", "relu", "dense", max_value=0.5),
    ]
    graph = {"name": "m", "layers": layers, "input_layers": [["x", 0, 0]], "output_layers": [["relu", 0, 0]]}
    return {"module": "keras", "class_name": "Functional", "config": graph}


def weights(**more: Any) -> bytes:
    """An HDF5 file of the layer's weights; `more` are data sets in their place."""
    buffer = io.BytesIO()
    arrays = {"0": np.ones((4, 3), "float32"), "1": np.zeros(3, "float32"), **more}
    with h5py.File(buffer, "w") as file:
        group = file.create_group("layers/dense/vars")
        for name, data in arrays.items():
            if data is not None:
                group[name] = data
    return buffer.getvalue()


def archive(graph: Any = None, data: bytes | None = None, compress: int = zipfile.ZIP_STORED, **more: bytes) -> bytes:
    """A `.keras` archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compress) as file:
        file.writestr("metadata.json", "{}")
        file.writestr("config.json", graph if isinstance(graph, bytes) else json.dumps(graph or config()))
        file.writestr("model.weights.h5", weights() if data is None else data)
        for name, content in more.items():
            file.writestr(name, content)
    return buffer.getvalue()


def converts_or_refuses(data: bytes) -> bool:
    """True where the bytes are a model; anything but a `UserError` fails the test."""
    try:
        from_keras(data)
    except UserError as error:
        assert str(error)
        return False
    return True


def test_a_whole_archive_is_read() -> None:
    mod, specs = from_keras(archive(), {"x": (2, 4)})
    assert [spec.name for spec in specs] == ["x"] and mod["main"].attrs["output_names"] == ("relu",)
    assert frontend_of(archive()).name == "keras"


def test_truncated_archives_are_refused() -> None:
    whole = archive()
    for length in np.linspace(1, len(whole) - 1, 150).astype(int):
        assert not converts_or_refuses(whole[:length])


def test_mutated_archives_give_one_error_or_a_model() -> None:
    whole, rng, refused = archive(), np.random.default_rng(5), 0
    for _ in range(300):
        data = bytearray(whole)
        for position in rng.integers(0, len(data), rng.integers(1, 20)):
            data[position] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
        refused += not converts_or_refuses(bytes(data))
    assert refused > 50


def test_mutated_configurations_give_one_error_or_a_model() -> None:
    rng = np.random.default_rng(6)
    other: list[Any] = [None, -1, 1 << 40, "x", [], {}, [[]], 1.5, True, {"class_name": "__slice__"}]
    for _ in range(300):
        graph = json.loads(json.dumps(config()))
        for _ in range(int(rng.integers(1, 4))):
            _change(graph, rng, other)
        converts_or_refuses(archive(graph))


def _change(value: Any, rng: np.random.Generator, other: list[Any]) -> None:
    while isinstance(value, dict | list) and value:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = keys[int(rng.integers(len(keys)))]
        if not isinstance(value[key], dict | list) or rng.random() < 0.15:
            value[key] = copy.deepcopy(other[int(rng.integers(len(other)))])
            return
        value = value[key]


def test_mutated_weights_give_one_error_or_a_model() -> None:
    whole, rng = weights(), np.random.default_rng(7)
    for _ in range(300):
        data = bytearray(whole)
        for position in rng.integers(0, len(data), rng.integers(1, 12)):
            data[position] = int(rng.integers(256))
        converts_or_refuses(archive(data=bytes(data)))


def test_what_unpacks_to_far_more_is_refused_before() -> None:
    bomb = archive(compress=zipfile.ZIP_DEFLATED, **{"assets/a": bytes(200 << 20)})
    assert len(bomb) < 1 << 20
    with pytest.raises(ModelError, match="says that it unpacks to"):
        from_keras(bomb)


def test_paths_that_lead_out_are_never_written() -> None:
    assert converts_or_refuses(archive(**{"../../outside": b"x", "/tmp/outside": b"x"}))


def test_weights_elsewhere_are_refused(tmp_path: Any) -> None:
    for link in (h5py.ExternalLink("/etc/other.h5", "/a"), h5py.SoftLink("/layers")):
        with pytest.raises(ModelError, match="is a link, which is never followed"):
            from_keras(archive(data=weights(**{"0": link})))
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        group = file.create_group("layers/dense/vars")
        group.create_dataset("0", (4, 3), "float32", external=[(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)])
        group["1"] = np.zeros(3, "float32")
    with pytest.raises(ModelError, match="is in another file, which is never read"):
        from_keras(archive(data=buffer.getvalue()))


def test_huge_declared_weights_are_refused_before() -> None:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        group = file.create_group("layers/dense/vars")
        group.create_dataset("0", (1 << 20, 1 << 20), "float32", chunks=(64, 64))
        group["1"] = np.zeros(3, "float32")
    with pytest.raises(ModelError, match="says it has 1099511627776 numbers"):
        from_keras(archive(data=buffer.getvalue()))


def test_missing_weights_are_named() -> None:
    with pytest.raises(ModelError, match="has no variable for 'bias'"):
        from_keras(archive(data=weights(**{"1": None})))


def test_circles_and_missing_layers_are_refused() -> None:
    graph = config()
    layers = graph["config"]["layers"]
    layers[1]["inbound_nodes"][0]["args"][0]["config"]["keras_history"][0] = "relu"
    with pytest.raises(ModelError, match="2 calls of its layers need each other"):
        from_keras(archive(graph))
    layers[1]["inbound_nodes"][0]["args"][0]["config"]["keras_history"][0] = "nowhere"
    with pytest.raises(ModelError, match="reads node 0 of 'nowhere', which is not there"):
        from_keras(archive(graph))


def test_unknown_layers_are_named_all_at_once() -> None:
    graph = config()
    for layer, name in zip(graph["config"]["layers"][1:], ("Wavelet", "Fractal")):
        layer["class_name"] = name
    with pytest.raises(UnsupportedError, match="no converter for the layer Wavelet"):
        from_keras(archive(graph))


def test_deep_configurations_are_refused() -> None:
    deep = b'{"class_name": "Functional", "config": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    with pytest.raises(ModelError, match=r"config\.json is damaged|nested deeper"):
        from_keras(archive(deep))


def test_what_is_no_model_is_refused() -> None:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["a"] = np.zeros(3)
    with pytest.raises(ModelError, match="without a model"):
        from_keras(buffer.getvalue())
    for data in (b"", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"{}"):
        assert not converts_or_refuses(data)


def test_a_missing_h5py_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = archive()
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(EnvironmentError_, match=r"pip install tilewright\[keras\]"):
        from_keras(data)
