"""`tilewright bisect`: a fault planted in one operator is found, named, and shown by a minimal model."""

from __future__ import annotations

import dataclasses
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.conftest import Command
from tests.onnx_models import saved
from tests.test_models import MODELS
from tilewright import te
from tilewright.cli.bisect import bisect
from tilewright.frontend.onnx.reference.exact import values_of
from tilewright.frontend.onnx.reference.straight_line import straight_line
from tilewright.relay.ir import registry

FLOAT = onnx.TensorProto.FLOAT


@contextmanager
def fault_in(name: str) -> Iterator[None]:
    """The Relay operator `name` computes results that are 1 % too large."""
    op = registry.get(name)
    assert op.compute is not None
    right = op.compute

    def wrong(attrs: Any, inputs: Any, out: Any) -> list[te.Tensor]:
        return [te.compute(t.shape, lambda *i, t=t: t(*i) * 1.01, tag="injective") for t in right(attrs, inputs, out)]

    registry._OPS[name] = dataclasses.replace(op, compute=wrong)
    try:
        yield
    finally:
        registry._OPS[name] = op


def model_of(nodes: list[Any], inputs: dict[str, tuple[int, ...]], outputs: list[str], weights: Any = ()) -> Any:
    infos = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", infos, results, [onnx.numpy_helper.from_array(w, n) for n, w in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain() -> Any:
    weight = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Tanh", ["a"], ["b"], name="squash"),
        helper.make_node("Add", ["b", "x"], ["c"], name="sum"),
        helper.make_node("Sigmoid", ["c"], ["d"], name="gate"),
        helper.make_node("MatMul", ["d", "w"], ["e"], name="second"),
        helper.make_node("Tanh", ["e"], ["y"], name="last"),
    ]
    return model_of(nodes, {"x": (4, 8)}, ["y"], [("w", weight)])


def branching() -> Any:
    """If inside If, the inner one taken depends on the data; names that shadow each other."""

    def branch(name: str, nodes: list[Any], output: str) -> Any:
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(output, FLOAT, None)])

    inner = helper.make_node(
        "If", ["positive"], ["picked"], name="inner",
        then_branch=branch("t", [helper.make_node("Sigmoid", ["z"], ["r"], name="gate")], "r"),
        else_branch=branch("e", [helper.make_node("Neg", ["z"], ["r"], name="negate")], "r"),
    )  # fmt: skip
    outer = helper.make_node(
        "If", ["yes"], ["p"], name="outer",
        then_branch=branch("t", [helper.make_node("Mul", ["x", "x"], ["z"], name="square"), inner], "picked"),
        else_branch=branch("e", [helper.make_node("Identity", ["x"], ["q"])], "q"),
    )  # fmt: skip
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["positive"]),
        helper.make_node("Not", ["positive"], ["no"]),
        helper.make_node("Or", ["positive", "no"], ["yes"]),
        outer,
        helper.make_node("Tanh", ["p"], ["y"], name="last"),
    ]
    return model_of(nodes, {"x": (3,)}, ["y"], [("zero", np.array(0, "float32"))])


def random(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal(shape).astype("float32")}


def test_nothing_differs_in_a_right_model() -> None:
    finding, search = bisect(chain(), random((4, 8)))
    assert finding is None and search.compilations == 1


@pytest.mark.parametrize(("op", "name"), [("tanh", "squash"), ("sigmoid", "gate")])
def test_the_first_faulty_node_is_named(op: str, name: str) -> None:
    with fault_in(op):
        finding, _ = bisect(chain(), random((4, 8)))
    assert finding is not None and finding.node.name == name
    assert op in finding.kernel
    assert [node.name for node in finding.minimal.graph.node] == [name]
    assert set(finding.inputs) == set(finding.node.inputs)


def test_branches_are_followed_as_they_are_taken() -> None:
    inputs = {"x": np.array([1.0, 2.0, -0.5], "float32")}
    with fault_in("sigmoid"):
        finding, search = bisect(branching(), inputs)
    assert finding is not None and finding.label.startswith("outer/then_branch/inner/then_branch/gate (Sigmoid")
    assert not [node for node in search.graph.nodes if node.operator == "If"]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_straight_line_computes_what_the_model_does(sign: float) -> None:
    inputs = {"x": np.array([1.0, 2.0, -0.5], "float32") * np.float32(sign)}
    model = branching()
    straight = straight_line(model, lambda made, names: values_of(made, inputs, names))
    assert "If" not in {node.op_type for node in straight.graph.node}
    np.testing.assert_array_equal(values_of(straight, inputs, ["y"])["y"], values_of(model, inputs, ["y"])["y"])


def test_the_command_writes_a_model_that_shows_the_fault(tilewright: Command, tmp_path: Path) -> None:
    path, minimal = saved(chain(), tmp_path / "chain.onnx"), tmp_path / "minimal.onnx"
    fine = tilewright("bisect", str(path), "--seed", "1", "-o", str(minimal))
    assert fine.status == 0 and "no output differs" in fine.out and not minimal.exists()
    with fault_in("sigmoid"):
        found = tilewright("bisect", str(path), "--seed", "1", "--no-cache", "-o", str(minimal))
        data = dict(np.load(tmp_path / "minimal.npz"))
        again, _ = bisect(onnx.load(minimal), data)
    assert found.status == 1 and "first to differ: node 3: gate (Sigmoid, output d)" in found.out
    assert again is not None and again.node.name == "gate"
    arguments = (
        "--against",
        "reference",
        "--input",
        str(tmp_path / "minimal.npz"),
        "--no-cache",
        "-o",
        str(tmp_path / "m.onnx"),
    )
    with fault_in("sigmoid"):
        exact = tilewright("bisect", str(minimal), *arguments)
    assert exact.status == 1 and "against reference, given inputs" in exact.out and "gate (Sigmoid" in exact.out


@pytest.mark.long
@pytest.mark.parametrize(
    ("network", "op", "operator"), [("resnet18", "nn.max_pool2d", "MaxPool"), ("bert_base_128", "erf", "Erf")]
)
def test_a_planted_fault_in_a_network_is_found(network: str, op: str, operator: str, tmp_path: Path) -> None:
    fill = MODELS / "nets" / "fill.py"
    if not fill.is_file():
        pytest.skip(f"needs {fill}")
    path = tmp_path / f"{network}.onnx"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [str(fill), network, str(path)])
        runpy.run_path(str(fill), run_name="__main__")
    model = onnx.load(path)
    rng = np.random.default_rng(0)
    inputs = {}
    for info in model.graph.input:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        inputs[info.name] = (rng.integers(0, 2, shape) if dtype.kind == "i" else rng.standard_normal(shape)).astype(
            dtype
        )
    with fault_in(op):
        finding, _ = bisect(model, inputs)
    first = next(i for i, node in enumerate(model.graph.node) if node.op_type == operator)
    assert finding is not None and finding.index == first and len(finding.minimal.graph.node) == 1


@pytest.mark.long
def test_a_trained_model_with_nested_branches() -> None:
    path = MODELS / "real" / "onnx" / "silero_vad" / "silero_vad.onnx"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    rng = np.random.default_rng(0)
    inputs = {
        "input": rng.standard_normal((1, 512)).astype("float32") * np.float32(0.1),
        "state": rng.standard_normal((2, 1, 128)).astype("float32") * np.float32(0.1),
        "sr": np.array(16000, "int64"),
    }
    with fault_in("sigmoid"):
        finding, _ = bisect(onnx.load(path), inputs)
    assert finding is not None and finding.node.operator == "Sigmoid"
