"""Arrays given for outputs that share memory with each other or with inputs, in every executor."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tilewright.errors import InputError
from tilewright.runtime.model import Model
from tilewright.runtime.tensor import Tensor

N = 3000


@pytest.fixture(scope="module", params=["graph", "aot", "vm"])
def exe(request: pytest.FixtureRequest) -> Model:
    """y = x reversed + 1, z = y * w, whose first result is written before the second has read all inputs."""
    nodes = [
        helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["r"]),
        helper.make_node("Add", ["r", "one"], ["y"]),
        helper.make_node("Mul", ["y", "w"], ["z"]),
    ]
    constants = {
        "starts": np.array([N - 1]),
        "ends": np.array([-N - 1]),
        "axes": np.array([0]),
        "steps": np.array([-1]),
        "one": np.array(1, np.float32),
    }
    kind = (TensorProto.FLOAT, (N,))
    model = make_model(nodes, {"x": kind, "w": kind}, {"y": kind, "z": kind}, constants)
    return tw.compile(model, executor=request.param, threads=2)


def expected(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = x[::-1] + np.float32(1)
    return y, y * w


def values(count: int = N) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(count, dtype=np.float32)


def test_an_output_may_be_an_input(exe: Model) -> None:
    x, w = values(), values() + 1
    y, z = expected(x, w)
    results = exe.run({"x": x, "w": w}, outputs=[x, w])
    assert results[0] is x and results[1] is w
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(w, z)


@pytest.mark.parametrize("shift", [1, 7, N - 1])
def test_an_output_may_overlap_an_input_in_part(exe: Model, shift: int) -> None:
    memory = values(2 * N)
    x, out = memory[:N], memory[shift : shift + N]
    w = values()
    y, z = expected(x.copy(), w)
    results = exe.run({"x": x, "w": w}, outputs=[out, np.empty(N, np.float32)])
    np.testing.assert_array_equal(results[0], y)
    np.testing.assert_array_equal(results[1], z)


def test_a_view_by_dlpack_is_seen_as_the_memory_it_is(exe: Model) -> None:
    memory, w = values(), values()
    y, z = expected(memory.copy(), w)
    results = exe.run({"x": Tensor.from_dlpack(memory), "w": w}, outputs=[memory, np.empty(N, np.float32)])
    np.testing.assert_array_equal(results[0], y)
    np.testing.assert_array_equal(results[1], z)


@pytest.mark.parametrize("shift", [0, 1, N - 1])
def test_two_outputs_that_share_memory_are_refused(exe: Model, shift: int) -> None:
    memory = np.empty(2 * N, np.float32)
    outputs = [memory[shift : shift + N], memory[:N]]
    with pytest.raises(InputError, match="outputs 'y' and 'z' share memory"):
        exe.run({"x": values(), "w": values()}, outputs=outputs)
    exe.run({"x": values(), "w": values()}, outputs=[memory[:N], memory[N:]])


@pytest.mark.parametrize("executor", ["graph", "aot", "vm"])
def test_results_are_nobody_elses_memory(executor: str) -> None:
    """Inputs and constants that a model hands through come back as arrays of their own, each time it names them."""
    nodes = [helper.make_node("Identity", [name], [f"{name}{i}"]) for name in ("x", "c") for i in range(2)]
    kind = (TensorProto.FLOAT, (N,))
    made = {f"{name}{i}": kind for name in ("x", "c") for i in range(2)}
    exe = tw.compile(make_model(nodes, {"x": kind}, made, {"c": values()}), executor=executor)
    x = values()
    results = exe.run({"x": x})
    for result in results:
        np.testing.assert_array_equal(result, values())
        result[:] = 0
    np.testing.assert_array_equal(x, values())
    for result in exe.run({"x": x}):
        np.testing.assert_array_equal(result, values())
