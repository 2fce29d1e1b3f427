"""Launches for results that nothing reads: left out, and what is read is as before."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tilewright.runtime.gpu.noted_steps import noted_steps

RNG = np.random.default_rng(5)


@pytest.mark.parametrize(("wanted", "launches"), [(("Y",), 7), (("Y", "Y_h"), 8), (("Y", "Y_h", "Y_c"), 9)])
def test_last_states_are_computed_where_they_are_read(wanted: tuple[str, ...], launches: int) -> None:
    """Three steps of an LSTM, the layer's input product, first states, the sequence; and the last states."""
    weights = {name: RNG.standard_normal((1, 20, size)).astype("float32") for name, size in (("W", 6), ("R", 5))}
    outputs = [name if name in wanted else "" for name in ("Y", "Y_h", "Y_c")]
    node = helper.make_node("LSTM", ["x", "W", "R"], outputs, hidden_size=5)
    shapes = {"Y": [3, 1, 2, 5], "Y_h": [1, 2, 5], "Y_c": [1, 2, 5]}
    made = {name: (TensorProto.FLOAT, shapes[name]) for name in wanted}
    onnx = make_model([node], {"x": (TensorProto.FLOAT, [3, 2, 6])}, made, weights)
    model = tw.compile(onnx, target="webgpu", cache=False)
    noted = noted_steps(model.manifest.plans[0], model.object_code, 1 << 20)
    assert len(noted.steps) == launches
