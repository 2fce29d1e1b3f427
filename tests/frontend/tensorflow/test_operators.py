"""TensorFlow's operators against TensorFlow: each in a graph of its own, frozen, read from its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.frontend.tensorflow import from_tensorflow
from tilewright.relay import interpret

tf = pytest.importorskip("tensorflow", reason="tensorflow, which these numbers are compared with, is not installed")

from tests.frontend.tensorflow.cases import Case, cases  # noqa: E402  (needs tensorflow)


def frozen(function: Any, arrays: list[np.ndarray]) -> tuple[bytes, list[str], list[str], list[np.ndarray]]:
    """A function as the bytes of its graph, with the names of inputs and outputs, and what TensorFlow computes."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    specs = [tf.TensorSpec(np.shape(array), np.asarray(array).dtype) for array in arrays]
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    made = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    wanted = [np.asarray(one) for one in tf.nest.flatten(made(*[tf.constant(array) for array in arrays]))]
    inputs = [one.name.partition(":")[0] for one in made.inputs]
    return made.graph.as_graph_def().SerializeToString(), inputs, [one.name for one in made.outputs], wanted


@pytest.mark.parametrize("case", cases(tf), ids=lambda case: case[0])
def test_operators_agree_with_tensorflow(case: Case) -> None:
    name, function, arrays = case
    graph, inputs, outputs, wanted = frozen(function, arrays)
    mod, _ = from_tensorflow(graph, outputs=outputs)
    found: Any = interpret(mod, {one: np.asarray(array) for one, array in zip(inputs, arrays)})
    found = found if isinstance(found, list | tuple) else [found]
    assert len(found) == len(wanted)
    tolerance = 2e-3 if "Bicubic" in name else 1e-4
    for ours, theirs in zip(found, wanted):
        assert np.asarray(ours).dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
