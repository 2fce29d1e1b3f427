"""A device of one folder and one line compiles, runs, saves and loads networks, without a line of its own in src."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.backend import toy
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.compat.networks import resnet
from tilewright.errors import ArtifactError, UnsupportedError
from tilewright.relay.ir.analysis import bind
from tilewright.relay.ir.infer_type import infer_type
from tilewright.runtime.model import Model
from tilewright.runtime.program import program_class
from tilewright.target import Target

FOLDER = Path(toy.__file__).parent
RNG = np.random.default_rng(0)


def same(model: object, *inputs: np.ndarray) -> Model:
    """The model on the toy, after its results were compared with the processor's."""
    ours, wanted = tw.compile(model, target="toy", cache=False), tw.compile(model, cache=False)
    for one, other in zip(_list(ours(*inputs)), _list(wanted(*inputs)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return ours


def _list(results: object) -> list[np.ndarray]:
    return results if isinstance(results, list) else [results]


def test_the_device_is_one_folder_of_three_hundred_lines() -> None:
    assert sum(len(path.read_text().splitlines()) for path in FOLDER.glob("*.py")) <= 300
    assert type(backend_of(Target("toy"))) is toy.ToyBackend and program_class("toy") is toy.ToyProgram


@pytest.mark.long
def test_resnet18_runs_in_the_memory_of_the_device() -> None:
    net = infer_type(relay.IRModule.from_expr(resnet.get_net(1, 10, 18, (3, 64, 64))))["main"]
    weights = {
        param.name: relay.const((0.5 + RNG.random(param.checked_type.shape, dtype=np.float32)) / 30)
        for param in net.params
        if param.name != "data"
    }
    image = RNG.standard_normal((1, 3, 64, 64), dtype=np.float32)
    model = same(relay.IRModule.from_expr(bind(net, weights)), image)
    memory, model_weights = model._program.memory, model._weights.nbytes
    assert (memory.copied_in, memory.copied_out) == (model_weights + image.nbytes, 10 * 4)
    assert [row.kernel for row in model.profile({"data": image})] == [call.name for call in model.manifest.kernels]
    offsets = [arg.offset for call in model.manifest.kernels for arg in call.args if arg.space == "arena"]
    assert len(set(offsets)) > 1 and all(offset % 256 == 0 for offset in offsets)


def test_an_lstm_runs() -> None:
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    from tests.onnx_models import make_model

    weights = {
        "w": RNG.standard_normal((1, 32, 6), dtype=np.float32),
        "r": RNG.standard_normal((1, 32, 8), dtype=np.float32),
    }
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y", "", "c"], hidden_size=8)
    single = TensorProto.FLOAT
    outputs = {"y": (single, (5, 1, 2, 8)), "c": (single, (1, 2, 8))}
    same(
        make_model([node], {"x": (single, (5, 2, 6))}, outputs, weights),
        RNG.standard_normal((5, 2, 6), dtype=np.float32),
    )


def test_a_program_with_control_flow_runs_on_the_virtual_machine() -> None:
    parser = pytest.importorskip("onnx.parser")
    model = parser.parse_model(_BRANCHES)
    inputs = {"x": np.float32([1, 2, 3, 4]), "n": np.array(7), "t": np.float32(9)}
    ours, wanted = (tw.compile(model, target=target, cache=False) for target in ("toy", "cpu"))
    assert ours.executor == "vm" and ours.manifest.segments
    for one, other in zip(ours.run(inputs), wanted.run(inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert [row.kernel for row in ours.profile(inputs)]


def test_outputs_that_no_kernel_writes_are_copied_on_the_device() -> None:
    x = relay.var("x", shape=(3, 5))
    y = relay.exp(x)
    array = RNG.random((3, 5), dtype=np.float32)
    model = same(relay.IRModule.from_expr(relay.Function([x], relay.Tuple([y, x, y]))), array)
    assert [call.is_copy for call in model.manifest.kernels] == [False, True, True]
    filled = [np.empty((3, 5), np.float32) for _ in range(3)]
    assert all(one is other for one, other in zip(model.run({"x": array}, filled), filled, strict=True))
    np.testing.assert_array_equal(filled[1], array)
    assert len(model.time({"x": array}, repeat=3)) == 3


def test_a_saved_model_is_loaded_where_the_device_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = relay.var("x", shape=(4,))
    model = tw.compile(relay.IRModule.from_expr(relay.Function([x], relay.tanh(x))), target="toy", cache=False)
    model.save(tmp_path / "model.tw")
    loaded = tw.load(tmp_path / "model.tw")
    np.testing.assert_allclose(loaded(np.ones(4, np.float32)), np.tanh(np.ones(4)), rtol=1e-6)
    assert loaded.manifest.device == "toy" and loaded.target == "toy"
    monkeypatch.setattr("tilewright.runtime.program._REGISTERED", {})
    with pytest.raises(ArtifactError, match="for a device 'toy', which this process has no runtime for"):
        tw.load(tmp_path / "model.tw")


def test_symbolic_sizes_are_refused_in_words() -> None:
    x = relay.var("x", shape=(tw.te.size_var("N"), 4))
    with pytest.raises(UnsupportedError, match="a toy has no symbolic sizes"):
        tw.compile(relay.IRModule.from_expr(relay.Function([x], relay.tanh(x))), target="toy", cache=False)


#: Halves a vector whose sum is above t, else adds to it; n turns at most, as long as the sum is small.
_BRANCHES = """<ir_version: 9, opset_import: ["" : 18]>
g (float[4] x, int64 n, float t) => (float[4] y, float[turns,4] each) {
  c = Constant<value: tensor = bool {1}>()
  y, each = Loop<body = body (int64 i, bool k, float[4] a) => (bool k2, float[4] b, float[4] d) {
    o = Constant<value: tensor = float {1.25}>()
    s = ReduceSum<keepdims=0>(a)
    q = Greater(s, t)
    b = If<then_branch = th () => (float[4] p) { m = Constant<value: tensor = float {0.5}>() p = Mul(a, m) },
           else_branch = el () => (float[4] r) { r = Add(a, o) }>(q)
    d = Mul(b, o)
    most = Constant<value: tensor = float {1000000.0}>()
    k2 = Less(s, most)
  }>(n, c, x)
}"""


@pytest.mark.parametrize("device", ["vm", "host_ops", "none"])
def test_a_folder_of_the_runtime_without_programs_of_models_is_no_device(device: str) -> None:
    with pytest.raises(ArtifactError, match=f"for a device '{device}', which this process has no runtime for"):
        program_class(device)
