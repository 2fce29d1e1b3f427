"""Models in steps: states in a struct of the caller, against the whole sequence at once."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import tilewright as tw
from tilewright.compile import export_source
from tilewright.errors import InputError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
STEPS, WIDTH, HIDDEN = 7, 3, 5
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "models" / "real" / "tflite"


def recurrent(kind: str, steps: int) -> onnx.ModelProto:
    """An LSTM or GRU layer of `steps` steps with its states as inputs and outputs."""
    gates = 4 if kind == "LSTM" else 3
    rng = np.random.default_rng(0)
    shapes = {"w": (1, gates * HIDDEN, WIDTH), "r": (1, gates * HIDDEN, HIDDEN), "b": (1, 2 * gates * HIDDEN)}
    weights = [from_array(rng.normal(0, 0.5, shape).astype(np.float32), name) for name, shape in shapes.items()]
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    results = ["y", *(f"{name}_next" for name in states)]
    node = helper.make_node(kind, ["x", "w", "r", "b", "", *states], results, hidden_size=HIDDEN)

    def tensor(name: str, shape: tuple[int, ...]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    state = (1, 1, HIDDEN)
    graph = helper.make_graph(
        [node],
        "net",
        [tensor("x", (steps, 1, WIDTH)), *(tensor(name, state) for name in states)],
        [tensor("y", (steps, 1, 1, HIDDEN)), *(tensor(f"{name}_next", state) for name in states)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Stream:
    """The functions of a model in C, loaded into this process."""

    def __init__(self, source: Path, workspace: int) -> None:
        library = source.with_suffix(".so")
        warnings = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
        command = ["cc", "-std=c99", "-O1", "-fwrapv", "-fPIC", "-shared", *warnings, source, "-o", library, "-lm"]
        subprocess.run(list(map(str, command)), check=True)
        self.library, self.name = ctypes.CDLL(str(library)), source.stem
        self.workspace = np.zeros(workspace + 64, np.uint8)
        self.size = workspace

    def state(self) -> Any:
        """A struct, larger than it has to be."""
        state = ctypes.create_string_buffer(1 << 14)
        getattr(self.library, f"tilewright_{self.name}_init")(state)
        return state

    def reset(self, state: Any) -> None:
        getattr(self.library, f"tilewright_{self.name}_reset")(state)

    def step(self, state: Any, x: np.ndarray, y: np.ndarray, size: int | None = None) -> int:
        pointers = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, y)]
        workspace = ctypes.c_void_p(-(-self.workspace.ctypes.data // 64) * 64)
        bytes_ = ctypes.c_size_t(self.size if size is None else size)
        return int(getattr(self.library, f"tilewright_{self.name}_step")(state, *pointers, workspace, bytes_))


def exported(kind: str, folder: Path) -> Stream:
    states = {"h": "h_next", "c": "c_next"} if kind == "LSTM" else {"h": "h_next"}
    files = export_source(recurrent(kind, 1), folder / "net.c", target="c -mcpu=generic", states=states)
    return Stream(files[0], files.models[0].c_model.interface.workspace_size)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_steps_are_the_whole_sequence(kind: str, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((STEPS, 1, WIDTH), np.float32)
    zeros = {name: np.zeros((1, 1, HIDDEN), np.float32) for name in ("h", "c")[: 2 if kind == "LSTM" else 1]}
    want = np.asarray(tw.compile(recurrent(kind, STEPS)).run({"x": x, **zeros})[0]).reshape(STEPS, HIDDEN)
    net = exported(kind, tmp_path)
    one, other, y = net.state(), net.state(), np.empty(HIDDEN, np.float32)
    for number in range(STEPS):
        assert net.step(one, x[number], y) == 0
        np.testing.assert_allclose(y, want[number], rtol=1e-5, atol=1e-6)
        assert net.step(other, x[0], y) == 0  # another stream between does not matter
    assert not np.allclose(y, want[0])  # as it has a past of its own
    net.reset(one)
    assert net.step(one, x[0], y) == 0
    np.testing.assert_allclose(y, want[0], rtol=1e-5, atol=1e-6)


def test_an_error_leaves_the_states(tmp_path: Path) -> None:
    net = exported("GRU", tmp_path)
    x, y, again = np.ones((1, 1, WIDTH), np.float32), np.empty(HIDDEN, np.float32), np.empty(HIDDEN, np.float32)
    state = net.state()
    assert net.step(state, x, y) == 0
    before = state.raw
    assert net.step(state, x, again, size=0) == 3 and state.raw == before
    assert net.step(None, x, again) == 1


def test_names_and_types_of_states_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="h=z is no state: name an input and the output that it becomes"):
        export_source(recurrent("GRU", 1), tmp_path / "net.c", states={"h": "z"})
    with pytest.raises(InputError, match=r"h=y is no state: .* have different types"):
        export_source(recurrent("GRU", 1), tmp_path / "net.c", states={"h": "y"})


@pytest.mark.skipif(not SHARED.exists(), reason="needs the models of ../shared/models")
def test_a_streaming_keyword_model_declares_its_states(tmp_path: Path) -> None:
    """micro_wakeword's model keeps 1.4 kB between steps; steps in C are those of this machine."""
    path = SHARED / "micro_wakeword" / "hey_jarvis.tflite"
    files = export_source(path, tmp_path / "net.c", target="c -mcpu=generic", freestanding=True)
    net = Stream(files[0], files.models[0].c_model.interface.workspace_size)
    exe, states, state = tw.compile(path), tw.initial_states(path), net.state()
    own = exe.inputs[0]
    result = np.empty(exe.outputs[0].static_shape, exe.outputs[0].numpy)
    rng = np.random.default_rng(2)
    for _ in range(4):
        x = rng.integers(-128, 128, own.static_shape).astype(own.numpy)
        outputs = exe.run({own.name: x, **states})
        assert net.step(state, x, result) == 0
        np.testing.assert_array_equal(result, outputs[0])
        following = {spec.name: value for spec, value in zip(exe.outputs, outputs, strict=True)}
        states = {name: following[f"{name}:next"] for name in states}
