"""Every network of the wider set is a valid model, and computes what onnxruntime computes of it."""

from __future__ import annotations

import importlib
import zlib
from typing import Any

import numpy as np
import pytest

import tilewright as tw

#: One or two of each family that compile and run within seconds; `--long` takes all.
FAST = (
    "shufflenet_v2_x1_0", "tabular_transformer", "mobilenet_v2_193x257", "espcn_x3", "blazeface", "bigru_tagger",
    "conformer_s", "llama_decode", "dlrm",
)  # fmt: skip

pytest.importorskip("onnx")


@pytest.fixture
def networks(bench_folder: Any) -> dict[str, Any]:
    return importlib.import_module("zoo").NETWORKS


@pytest.fixture
def weightless(networks: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of zeros: drawing them takes most of the time of building a model."""
    graph = importlib.import_module("zoo.graph").Graph
    monkeypatch.setattr(graph, "weight", lambda self, *shape, **_: self.constant(np.zeros(shape, np.float32)))


def test_the_set_is_wide(networks: dict[str, Any]) -> None:
    assert len(networks) >= 35
    assert all(build.__doc__ for build in networks.values())


@pytest.mark.long
@pytest.mark.usefixtures("weightless")
def test_each_network_is_valid_and_of_the_shapes_that_it_says(networks: dict[str, Any]) -> None:
    import onnx

    for name, build in networks.items():
        model = build()
        onnx.checker.check_model(model)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        assert list(inferred.graph.output) == list(model.graph.output), name


def test_weights_are_the_same_every_time(networks: dict[str, Any]) -> None:
    assert networks["espcn_x3"]().SerializeToString() == networks["espcn_x3"]().SerializeToString()


@pytest.mark.parametrize("name", FAST)
@pytest.mark.sample(3)
def test_the_result_is_that_of_onnxruntime(name: str, networks: dict[str, Any]) -> None:
    compare(name, networks[name]())


@pytest.mark.long
def test_all_results_are_those_of_onnxruntime(networks: dict[str, Any]) -> None:
    for name, build in networks.items():
        compare(name, build())


def compare(name: str, model: Any) -> None:
    """Hold every output of `model`, on seeded inputs, to onnxruntime's: to 1e-4 of its largest value."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    executable = tw.compile(model, cache=False)
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    inputs = {
        spec.name: generator.integers(0, 100, spec.shape)
        if spec.type == "tensor(int64)"
        else generator.standard_normal(spec.shape, dtype=np.float32)
        for spec in session.get_inputs()
    }
    for output, expected in zip(executable.run(inputs), session.run(None, inputs), strict=True):
        assert np.isfinite(expected).all() and np.abs(expected).max() > 1e-3, f"{name}: the model is degenerate"
        np.testing.assert_allclose(output, expected, rtol=0, atol=1e-4 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize("name", ("decoder_with_past", "lstm_dynamic_int8", "loop_decode"))
def test_what_users_bring_computes_what_onnxruntime_computes(name: str, bench_folder: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, inputs = importlib.import_module("zoo").BROUGHT[name]()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    executable = tw.compile(model, cache=False)
    # Layers of dynamically quantized weights round their inputs to bytes in onnxruntime.
    bound = 0.05 if "dynamic" in name else 1e-4
    for output, expected in zip(executable.run(inputs), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(output, expected, rtol=0, atol=bound * np.abs(expected).max())
