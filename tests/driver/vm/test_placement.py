"""Programs on a device and the host: which operators run where, and how few values are copied between them."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.runtime.gpu.emulating_driver import EmulatingDevice, EmulatingDriver
from tilewright import relay
from tilewright.relay.ir.expr import Expr
from tilewright.relay.transform.memory.plan_devices import plan_devices
from tilewright.runtime.gpu import program
from tilewright.runtime.vm.executable import VirtualMachine

EMULATED = "cuda -emulate=1"
RNG = np.random.default_rng(3)

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")), reason="emulation needs a C++ compiler"
)


def _module(body: Expr, *params: Expr) -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function(list(params), body))


def _compiled(mod: relay.IRModule) -> VirtualMachine:
    model = tw.compile(mod, target=EMULATED, cache=False)
    assert isinstance(model, VirtualMachine)
    return model


def _devices(model: VirtualMachine) -> list[tuple[str, int]]:
    """The device of each part, and how many segments it has."""
    return [(part.device, len(part.segments)) for part in model.manifest.parts]


def test_a_marked_operator_runs_on_the_host() -> None:
    x = relay.var("x", shape=(4, 8))
    inner = relay.on_device(relay.exp(x), "cpu")
    model = _compiled(_module(relay.on_device(relay.tanh(relay.on_device(relay.sqrt(inner), "cuda")), "cuda"), x))
    given = RNG.random((4, 8), dtype=np.float32)
    np.testing.assert_allclose(model(given), np.tanh(np.sqrt(np.exp(given))), rtol=1e-5)
    assert _devices(model) == [("gpu", 1), ("cpu", 1)]
    assert (model.transfers.to_device, model.transfers.to_host) == (1, 1)
    assert model.transfers.to_host_bytes == given.nbytes


def test_copies_that_plan_devices_inserted() -> None:
    x, y = relay.var("x", shape=(4, 8)), relay.var("y", shape=(4, 8))
    mod = plan_devices(_module(relay.add(relay.on_device(relay.exp(x), "cuda(0)"), y), x, y))
    model = _compiled(mod)
    given = [RNG.random((4, 8), dtype=np.float32) for _ in range(2)]
    np.testing.assert_allclose(model(*given), np.exp(given[0]) + given[1], rtol=1e-5)
    assert _devices(model) == [("gpu", 1), ("cpu", 1)]
    assert (model.transfers.to_device, model.transfers.to_host) == (1, 1)


def test_copies_to_the_host_are_queued_before_the_next_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    device = EmulatingDevice(EmulatingDriver())
    monkeypatch.setattr(program, "open_device", lambda *_: device)
    x = relay.var("x", shape=(4, 8))
    first, second = relay.on_device(relay.exp(x), "cuda"), relay.on_device(relay.sqrt(x), "cuda")
    again = relay.on_device(relay.negative(relay.on_device(relay.tanh(second), "cpu")), "cuda")
    model = _compiled(_module(relay.Tuple([first, again]), x))
    given = RNG.random((4, 8), dtype=np.float32)

    def queued() -> list[str]:
        device.fake.calls.clear()
        results = model(given)
        np.testing.assert_allclose(results[0], np.exp(given), rtol=1e-5)
        np.testing.assert_allclose(results[1], -np.tanh(np.sqrt(given)), rtol=1e-5)
        short = {"cuGraphLaunch": "run", "cuMemcpyDtoHAsync_v2": "copy"}
        return [short[name] for name in device.fake.names() if name in short]

    assert queued() == ["run", "copy", "run", "copy", "copy"]
    assert queued() == queued() == ["run", "copy", "copy", "run", "copy"]  # the first result while the second computes
    assert (model.transfers.to_device, model.transfers.to_host) == (2, 3)


def test_without_marks_a_straight_graph_stays_on_the_device() -> None:
    x = relay.var("x", shape=(4, 8))
    model = tw.compile(_module(relay.exp(relay.on_device(x, "cuda")), x), target=EMULATED, cache=False)
    assert model.executor == "graph"


def _detector() -> tuple[Any, dict[str, np.ndarray]]:
    """Boxes and scores by convolutions, the best of them, their coordinates in pixels."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    weights = {
        "w0": RNG.standard_normal((8, 3, 3, 3)) / 5, "w1": RNG.standard_normal((8, 8, 3, 3)) / 8,
        "wb": RNG.standard_normal((4, 8, 1, 1)) / 3, "ws": RNG.standard_normal((2, 8, 1, 1)) / 3,
    }  # fmt: skip
    inits = [onnx.numpy_helper.from_array(w.astype("float32"), name) for name, w in weights.items()]
    inits += [
        onnx.numpy_helper.from_array(np.array(value), name)
        for name, value in {
            "to_boxes": np.array([1, 4, 64]), "to_scores": np.array([1, 2, 64]), "many": np.array([6]),
            "overlap": np.array([0.5], "float32"), "least": np.array([0.4], "float32"), "two": np.array([2]),
            "size": np.array(32.0, "float32"), "none": np.array([0]),
        }.items()
    ]  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1"], ["c1"], pads=[1, 1, 1, 1]), node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "wb"], ["b0"]), node("Sigmoid", ["b0"], ["b1"]),
        node("Reshape", ["b1", "to_boxes"], ["b2"]), node("Transpose", ["b2"], ["boxes"], perm=[0, 2, 1]),
        node("Conv", ["r1", "ws"], ["s0"]), node("Sigmoid", ["s0"], ["s1"]),
        node("Reshape", ["s1", "to_scores"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "many", "overlap", "least"], ["chosen"]),
        node("Gather", ["chosen", "two"], ["which0"], axis=1), node("Squeeze", ["which0"], ["which"]),
        node("Squeeze", ["boxes", "none"], ["flat"]), node("Gather", ["flat", "which"], ["best"]),
        node("Mul", ["best", "size"], ["pixels"]),
    ]  # fmt: skip
    results = [helper.make_tensor_value_info(*one, None) for one in (("pixels", kind.FLOAT), ("chosen", kind.INT64))]
    image = helper.make_tensor_value_info("x", kind.FLOAT, [1, 3, 16, 16])
    graph = helper.make_graph(nodes, "detector", [image], results, inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return model, {"x": RNG.random((1, 3, 16, 16), dtype=np.float32)}


def _targets() -> list[Any]:
    try:
        import pyopencl

        found = bool(pyopencl.get_platforms())
    except Exception:
        found = False
    reason = "no OpenCL: pip install 'tilewright[opencl]'"
    return [EMULATED, pytest.param("opencl", marks=[pytest.mark.skipif(not found, reason=reason), pytest.mark.long])]


@pytest.mark.parametrize("target", _targets())
def test_a_detector_selects_its_boxes_on_the_host(target: str) -> None:
    ort = pytest.importorskip("onnxruntime")
    proto, inputs = _detector()
    model = tw.compile(proto, target=target, cache=False)
    assert isinstance(model, VirtualMachine)
    pixels, chosen = model.run(inputs)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, inputs)
    np.testing.assert_array_equal(chosen, wanted[1])
    assert len(chosen) > 2
    np.testing.assert_allclose(pixels, wanted[0], rtol=1e-4, atol=1e-4)
    assert _devices(model) == [("gpu", 1), ("cpu", 1)]
    # the image there, boxes and scores back: what follows is computed on the host
    assert (model.transfers.to_device, model.transfers.to_host) == (1, 2)
    assert model.transfers.to_host_bytes == 64 * 6 * 4


def test_an_artifact_of_two_parts(tmp_path: Any) -> None:
    x = relay.var("x", shape=(4, 8))
    body = relay.tanh(relay.on_device(relay.exp(relay.on_device(relay.sqrt(x), "cuda")), "cpu"))
    model = _compiled(_module(body, x))
    model.save(tmp_path / "m.tw")
    given = RNG.random((4, 8), dtype=np.float32)
    loaded = tw.load(tmp_path / "m.tw")
    np.testing.assert_array_equal(loaded(given), model(given))
    rows = loaded.profile({"x": given})
    assert len(rows) == sum(len(plan.kernels) for plan in loaded.manifest.segments)
