"""`verify --at`: inner values of a model compared, and an unknown value refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.conftest import Command
from tests.onnx_models import make_model
from tilewright.frontend.onnx.reference.submodel import cut_at


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """x -> relu -> (inner) -> multiply by zero -> y: the output says nothing, the inner value does."""
    nodes = [
        helper.make_node("Relu", ["x"], ["inner"]),
        helper.make_node("Sub", ["inner", "inner"], ["y"]),
        helper.make_node("Neg", ["x"], ["unused"]),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "chain", [tensor("x", TensorProto.FLOAT, [2, 3])], [tensor("y", TensorProto.FLOAT, [2, 3])]
    )
    path = tmp_path / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_inner_values_are_compared(tilewright: Command, chain: Path) -> None:
    outcome = tilewright("verify", chain, "--at", "inner", "--at", "unused", "--seed", 1)
    assert outcome.status == 0
    assert "ok       inner" in outcome.out and "ok       unused" in outcome.out
    assert str(chain) in outcome.out and "max|ref| 0," not in outcome.out


def test_nodes_that_are_not_needed_are_left_out(chain: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    cut: Any = onnx.load(cut_at(str(chain), ["inner"], str(folder)))
    assert [node.op_type for node in cut.graph.node] == ["Relu"]


def test_an_unknown_value_is_refused(tilewright: Command, chain: Path) -> None:
    outcome = tilewright("verify", chain, "--at", "iner")
    assert outcome.status == 2
    assert "no node of" in outcome.err and "did you mean 'inner'" in outcome.err


def test_external_data_comes_with_the_cut(tilewright: Command, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["inner"]), helper.make_node("Sub", ["inner", "inner"], ["y"])]
    vector = (TensorProto.FLOAT, (2, 3))
    model = make_model(nodes, {"x": vector}, {"y": vector})
    model.graph.initializer.append(weight)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="data/w.bin", size_threshold=0)
    outcome = tilewright("verify", folder / "m.onnx", "--at", "inner")
    assert outcome.status == 0 and "ok       inner" in outcome.out
    assert sorted(path.name for path in folder.rglob("*")) == ["data", "m.onnx", "w.bin"]
