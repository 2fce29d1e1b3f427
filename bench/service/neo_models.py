"""A model of each framework of Neo's, with inputs and what the framework itself, onnxruntime or NumPy makes of them."""

from __future__ import annotations

import json
import struct
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.service.models import REAL, darknet

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model's file, its inputs by name, its outputs in any order, and what it is and was compared with."""

    file: Path
    inputs: dict[str, np.ndarray]
    outputs: Arrays
    about: str


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _onnxruntime(file: Path, inputs: dict[str, np.ndarray]) -> Arrays:
    import onnxruntime

    return list(onnxruntime.InferenceSession(str(file)).run(None, inputs))


def _basic_pitch(name: str, folder: Path) -> Case:
    """Spotify's network of notes in sound, which is published in four formats."""
    import onnxruntime

    onnx_file = REAL / "onnx" / "basic_pitch" / "nmp.onnx"
    (only,) = onnxruntime.InferenceSession(str(onnx_file)).get_inputs()
    shape = tuple(size if isinstance(size, int) else 1 for size in only.shape)
    x = 0.1 * _random(*shape)
    outputs = _onnxruntime(onnx_file, {only.name: x})
    source = REAL / name
    file = folder / f"{source.parts[-2]}-{source.name}"
    if source.is_dir():
        file = file.with_suffix(".tar.gz")
        with tarfile.open(file, "w:gz") as archive:
            archive.add(source, source.name)
    else:
        file.write_bytes(source.read_bytes())
    return Case(file, {"": x}, outputs, "basic-pitch; onnxruntime")


def _keras(folder: Path, torch: str) -> Case:
    import h5py

    first, second = (_random(8, 16), _random(16, seed=1)), (_random(16, 4, seed=2), _random(4, seed=3))
    layers: list[Any] = [
        {"class_name": "InputLayer", "config": {"name": "in", "dtype": "float32", "batch_input_shape": [None, 8]}}
    ]
    for name, units, activation in (("a", 16, "relu"), ("b", 4, "softmax")):
        config = {"name": name, "units": units, "activation": activation, "use_bias": True}
        layers.append({"class_name": "Dense", "config": config})
    file = folder / "dense.h5"
    with h5py.File(file, "w") as h5:
        h5.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": layers}})
        h5.attrs["keras_version"], h5.attrs["backend"] = "2.11.0", "tensorflow"
        weights = h5.create_group("model_weights")
        weights.attrs["layer_names"] = [b"a", b"b"]
        for name, arrays in (("a", first), ("b", second)):
            group = weights.create_group(name)
            names = [f"{name}/{part}:0" for part in ("kernel", "bias")]
            group.attrs["weight_names"] = [one.encode() for one in names]
            for one, data in zip(names, arrays):
                group.create_dataset(one, data=data)
    x = 0.1 * _random(2, 8, seed=4)
    wanted = _softmax(np.maximum(x @ first[0] + first[1], 0) @ second[0] + second[1])
    return Case(file, {"": x}, [wanted], "two layers; NumPy")


def _mxnet(folder: Path, torch: str) -> Case:
    def node(operator: str, name: str, *inputs: int, **attrs: str) -> dict[str, Any]:
        return {"op": operator, "name": name, "attrs": attrs, "inputs": [[position, 0, 0] for position in inputs]}

    weight, bias = _random(5, 8), _random(5, seed=1)
    nodes = [
        node("null", "data"), node("null", "w"), node("null", "b"),
        node("FullyConnected", "f", 0, 1, 2, num_hidden="5"), node("Activation", "a", 3, act_type="tanh"),
    ]  # fmt: skip
    params = struct.pack("<QQQ", 0x112, 0, 2)
    for data in (weight, bias):
        params += struct.pack("<Iii", 0xF993FAC9, 0, data.ndim) + struct.pack(f"<{data.ndim}q", *data.shape)
        params += struct.pack("<iii", 1, 0, 0) + data.tobytes()
    params += struct.pack("<Q", 2) + b"".join(struct.pack("<Q", len(name)) + name for name in (b"arg:w", b"arg:b"))
    (folder / "net-0000.params").write_bytes(params)
    (folder / "net-symbol.json").write_text(json.dumps({"nodes": nodes, "arg_nodes": [], "heads": [[4, 0, 0]]}))
    file = folder / "mxnet.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for name in ("net-symbol.json", "net-0000.params"):
            archive.add(folder / name, name)
    x = _random(2, 8, seed=2)
    return Case(file, {"data": x}, [np.tanh(x @ weight.T + bias)], "a layer; NumPy")


def _darknet(folder: Path, torch: str) -> Case:
    file = darknet(folder)
    numbers = np.frombuffer((folder / "net.weights").read_bytes()[20:], "<f4")
    bias, weight, x = numbers[:4], numbers[4:].reshape(4, 3, 3, 3), _random(1, 3, 8, 8, seed=5)
    padded, made = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), np.zeros((1, 4, 8, 8), np.float32)
    for row, column in np.ndindex(8, 8):
        made[0, :, row, column] = (weight * padded[:, :, row : row + 3, column : column + 3]).sum((1, 2, 3)) + bias
    pooled = np.where(made > 0, made, 0.1 * made).mean((2, 3))
    return Case(file, {"": x}, [_softmax(pooled)], "a convolution; NumPy")


_TORCH = """
import sys, numpy as np, torch
torch.manual_seed(0)
from torch.nn import BatchNorm2d, Conv2d, Flatten, Linear, Sequential, SiLU
model = Sequential(Conv2d(3, 8, 3, 2), BatchNorm2d(8), SiLU(), Flatten(), Linear(72, 5)).eval()
x = torch.randn(1, 3, 8, 8)
torch.jit.trace(model, x).save(sys.argv[1])
np.savez(sys.argv[2], x=x.numpy(), y=model(x).detach().numpy())
"""


def _pytorch(folder: Path, torch: str) -> Case:
    file, arrays = folder / "net.pt", folder / "net.npz"
    environment = {"PATH": "/usr/bin:/bin"}
    subprocess.run([torch, "-c", _TORCH, str(file), str(arrays)], check=True, env=environment, capture_output=True)
    found = np.load(arrays)
    return Case(file, {"": found["x"]}, [found["y"]], "TorchScript; PyTorch")


def _table() -> tuple[np.ndarray, np.ndarray]:
    x = _random(200, 6)
    return x, (x[:, 0] * x[:, 1] > 0.1).astype(np.int64)


def _sklearn(folder: Path, torch: str) -> Case:
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier

    x, y = _table()
    forest = RandomForestClassifier(8, max_depth=5, random_state=0).fit(x, y)
    file = folder / "forest.onnx"
    made = to_onnx(forest, x[:1], options={"zipmap": False}, target_opset=17)
    file.write_bytes(made.SerializeToString())
    return Case(file, {"": x[:3]}, [forest.predict_proba(x[:3]).astype(np.float32)], "a forest; scikit-learn")


def _xgboost(folder: Path, torch: str) -> Case:
    import xgboost
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    x, y = _table()
    trees = xgboost.XGBRegressor(n_estimators=10, max_depth=4).fit(x, y.astype(np.float32))
    file = folder / "trees.onnx"
    made = convert_xgboost(trees, initial_types=[("x", FloatTensorType([3, 6]))], target_opset=15)
    file.write_bytes(made.SerializeToString())
    return Case(file, {"": x[:3]}, [trees.predict(x[:3]).reshape(3, 1)], "trees; XGBoost")


#: A maker of each framework's model, from a folder and the Python that has PyTorch.
MAKERS: dict[str, Callable[[Path, str], Case]] = {
    "TENSORFLOW": lambda folder, torch: _basic_pitch("tf_savedmodel/basic_pitch/nmp", folder),
    "KERAS": _keras,
    "MXNET": _mxnet,
    "ONNX": lambda folder, torch: _basic_pitch("onnx/basic_pitch/nmp.onnx", folder),
    "PYTORCH": _pytorch,
    "TFLITE": lambda folder, torch: _basic_pitch("tflite/basic_pitch/nmp.tflite", folder),
    "DARKNET": _darknet,
    "XGBOOST": _xgboost,
    "SKLEARN": _sklearn,
}
