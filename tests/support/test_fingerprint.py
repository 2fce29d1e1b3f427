"""Digests of models, with the external data files they name, and of the compiler."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.onnx_models import make_model, perceptron, saved
from tilewright.support import fingerprint
from tilewright.support.cache import DiskCache
from tilewright.support.fingerprint import compiler_fingerprint, external_data, file_digest, model_digest


def test_a_model_with_its_weights_inside_is_its_own_digest(tmp_path: Path) -> None:
    path = saved(perceptron(), tmp_path / "m.onnx")
    assert external_data(path) == []
    assert model_digest(path) == file_digest(path)
    assert model_digest(saved(perceptron(seed=1), tmp_path / "n.onnx")) != model_digest(path)


def test_external_data_of_initializers_and_constants_is_found(tmp_path: Path) -> None:
    inner = numpy_helper.from_array(np.ones(4, np.float32), "value")
    nodes = [helper.make_node("Constant", [], ["c"], value=inner), helper.make_node("Add", ["w", "c"], ["y"])]
    weights = {"w": np.ones(4, np.float32)}
    model = make_model(nodes, {}, {"y": (TensorProto.FLOAT, (4,))}, weights)
    path = tmp_path / "m.onnx"
    onnx.save(
        model, path, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0, convert_attribute=True
    )
    found = external_data(path)
    assert sorted(found) == sorted(entry.name for entry in tmp_path.iterdir() if entry != path) and len(found) == 2


def test_the_digest_follows_the_external_data(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(perceptron(), path, save_as_external_data=True, location="données.bin", size_threshold=0)
    data = tmp_path / "données.bin"
    assert external_data(path) == ["données.bin"]
    seen = {model_digest(path)}
    data.write_bytes(data.read_bytes()[:-1] + b"\x7f")
    seen.add(model_digest(path))
    data.unlink()
    seen.add(model_digest(path))
    assert len(seen) == 3


def test_an_empty_file_has_a_digest(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    assert len(model_digest(tmp_path / "m.onnx")) == 64


def test_digests_of_large_files_are_remembered_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(perceptron(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    store = DiskCache(tmp_path / "cache")
    scans: list[Path] = []

    def counted(file: Path) -> str:
        scans.append(file)
        return file_digest(file)

    monkeypatch.setattr(fingerprint, "file_digest", counted)
    monkeypatch.setattr(fingerprint, "_LARGE", 1)
    long_ago = time.time() - 3600
    for file in (path, tmp_path / "weights.bin"):
        os.utime(file, (long_ago, long_ago))
    # Written a moment ago: the times cannot be trusted yet, so nothing is remembered.
    first = model_digest(path, store)
    assert model_digest(path, store) == first and len(scans) == 4
    monkeypatch.setattr(fingerprint, "_SETTLED_SECONDS", -1.0)
    assert [model_digest(path, store) for _ in range(3)] == [first] * 3 and len(scans) == 6
    assert first == model_digest(path)
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[3] ^= 0x80
    (tmp_path / "weights.bin").write_bytes(bytes(data))
    os.utime(tmp_path / "weights.bin", (long_ago, long_ago))
    assert model_digest(path, store) != first


def test_the_compiler_has_one_fingerprint() -> None:
    assert compiler_fingerprint() == compiler_fingerprint() and len(compiler_fingerprint()) == 40
