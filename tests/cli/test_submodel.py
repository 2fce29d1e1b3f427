"""`verify --at`: inner values of a model compared, and an unknown value refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import Command
from tilewright.cli.submodel import cut_at


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
    assert "no node of" in outcome.err and "near it: inner" in outcome.err
