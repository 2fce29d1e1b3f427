"""The importers by their classic names: `relay.frontend.from_darknet` and its kin."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.caffe.builder import caffemodel, layer, net
from tests.frontend.caffe2 import test_nets as caffe2_nets
from tests.frontend.coreml.builder import operation, package, specification
from tests.frontend.darknet.builder import NET, packed
from tests.frontend.mxnet import test_files as mxnet_files
from tests.frontend.paddle import test_programs as paddle_programs
from tilewright.errors import UnsupportedError
from tilewright.relay.interpreter.interpreter import interpret


@pytest.fixture
def frontend() -> Any:
    return importlib.import_module("tvm.relay").frontend


def run(imported: tuple[Any, dict[str, Any]], **inputs: np.ndarray) -> np.ndarray:
    mod, params = imported
    assert params == {}
    return np.asarray(interpret(mod.mod if hasattr(mod, "mod") else mod, inputs)[0])


X = np.random.default_rng(0).standard_normal((1, 3, 4, 6)).astype("f")


def test_a_darknet_network_is_imported(frontend: Any) -> None:
    imported = frontend.from_darknet(((NET.format(4, 6, 3) + "[maxpool]\nsize=2\nstride=2\n").encode(), packed()))
    np.testing.assert_array_equal(run(imported, data=X), X.reshape(1, 3, 2, 2, 3, 2).max((3, 5)))
    with pytest.raises(UnsupportedError, match="a loaded network is not read"):
        frontend.from_darknet(object())


def test_a_caffe_network_is_imported(frontend: Any) -> None:
    text = net(layer("Scale", "y"), data=X.shape)
    imported = frontend.from_caffe(caffemodel({"y": [[1.0, 2.0, 3.0]]}), text.encode(), {"data": X.shape}, {})
    np.testing.assert_allclose(run(imported, data=X), X * np.array([1, 2, 3])[:, None, None], rtol=1e-6)


def test_a_caffe2_network_is_imported(frontend: Any) -> None:
    predict, init = caffe2_nets.nets({}, caffe2_nets.op("Relu", "x", "y"))
    np.testing.assert_array_equal(run(frontend.from_caffe2(init, predict, {"x": X.shape}), x=X), np.maximum(X, 0))


def test_a_coreml_package_is_imported(frontend: Any, tmp_path: Path) -> None:
    path = package(tmp_path, specification({"x": X.shape}, ["y"], operation("abs", "y", x="%x")))
    np.testing.assert_array_equal(run(frontend.from_coreml(path, {"x": X.shape}), x=X), np.abs(X))


def test_mxnet_with_arrays_in_memory(frontend: Any) -> None:
    graph = mxnet_files.symbol(
        mxnet_files.node("null", "data"), mxnet_files.node("null", "w"), mxnet_files.node("broadcast_mul", "y", 0, 1)
    )
    weight = np.arange(6, dtype="f")
    imported = frontend.from_mxnet(graph, {"data": X.shape}, arg_params={"w": weight})
    np.testing.assert_allclose(run(imported, data=X), X * weight, rtol=1e-6)


def test_a_paddle_program_is_imported(frontend: Any) -> None:
    imported = frontend.from_paddle((paddle_programs.PIR, paddle_programs.PARAMETERS), {"x": (2, 6)})
    assert run(imported, x=np.ones((2, 6), "f")).shape == (2, 3)
