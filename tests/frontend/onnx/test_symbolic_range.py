"""`Range` over the model's symbolic dimensions stays in the graph, as the causal masks that torch exports need."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model


@pytest.mark.parametrize(("start", "step"), [(0, 1), (2, 3)])
def test_a_range_up_to_an_open_size(start: int, step: int) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Squeeze", ["shape"], ["limit"]),
        helper.make_node("Range", ["start", "limit", "step"], ["y"]),
    ]
    weights = {"start": np.array(start), "step": np.array(step)}
    model = make_model(nodes, {"x": (TensorProto.FLOAT, ["N"])}, {"y": (TensorProto.INT64, ["M"])}, weights)
    compiled = tw.compile(model, cache=False, executor="graph")
    for size in (1, 2, 3, 9):
        (got,) = compiled.run({"x": np.zeros(size, "float32")})
        np.testing.assert_array_equal(got, np.arange(start, size, step))


@pytest.mark.parametrize(("more", "step"), [(1, 1), (5, 2)])
def test_a_range_from_a_symbolic_size_on(more: int, step: int) -> None:
    """Positions of tokens behind a cache: their number is known where the first is not."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Squeeze", ["shape"], ["start"]),
        helper.make_node("Add", ["start", "more"], ["limit"]),
        helper.make_node("Range", ["start", "limit", "step"], ["y"]),
    ]
    weights = {"more": np.array(more), "step": np.array(step)}
    model = make_model(nodes, {"x": (TensorProto.FLOAT, ["N"])}, {"y": (TensorProto.INT64, ["M"])}, weights)
    compiled = tw.compile(model, cache=False, executor="graph")
    for size in (0, 1, 9):
        (got,) = compiled.run({"x": np.zeros(size, "float32")})
        np.testing.assert_array_equal(got, np.arange(size, size + more, step))
