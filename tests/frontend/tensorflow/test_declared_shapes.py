"""Shapes that a file declares against the derived ones, and files that loop over the wrong axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.protobuf import encode
from tests.frontend.running import run
from tilewright.errors import UnsupportedError
from tilewright.frontend.tensorflow import from_tensorflow
from tilewright.frontend.tensorflow.schema import SCHEMA

FLOAT, INT = 1, 3


def shape(*extents: int) -> dict[str, Any]:
    return {"dim": [{"size": extent} for extent in extents]}


def node(op: str, name: str, *inputs: str, declared: Any = None, **attrs: Any) -> dict[str, Any]:
    if declared is not None:
        attrs["_output_shapes"] = {"list": {"shape": [declared]}}
    return {"name": name, "op": op, "input": list(inputs), "attr": attrs}


def placeholder(*extents: int) -> dict[str, Any]:
    return node("Placeholder", "x", dtype={"type": FLOAT}, shape={"shape": shape(*extents)})


def const(name: str, *numbers: int) -> dict[str, Any]:
    tensor = {"dtype": INT, "tensor_shape": shape(len(numbers)), "int_val": list(numbers)}
    return node("Const", name, dtype={"type": INT}, value={"tensor": tensor})


def scalar(name: str, number: int) -> dict[str, Any]:
    tensor = {"dtype": INT, "tensor_shape": shape(), "int_val": [number]}
    return node("Const", name, dtype={"type": INT}, value={"tensor": tensor})


def graph(*nodes: dict[str, Any]) -> bytes:
    return encode(SCHEMA, "GraphDef", {"node": list(nodes)})


@pytest.mark.parametrize("declared", [shape(-1, 3), shape(2, 3), {"unknown_rank": True}, shape(-1, -1)])
def test_a_shape_that_fits(declared: dict[str, Any]) -> None:
    module, _ = from_tensorflow(graph(placeholder(-1, 3), node("Relu", "y", "x", declared=declared)), {"x": (2, 3)})
    data = np.float32([[-1, 2, 3], [4, -5, 6]])
    np.testing.assert_array_equal(run(module, {"x": data})[0], np.maximum(data, 0))


@pytest.mark.parametrize("declared", [shape(-1, 4), shape(-1, 3, 1), shape(5, 3), shape(3)])
def test_a_shape_that_contradicts_the_declared_one(declared: dict[str, Any]) -> None:
    model = graph(placeholder(-1, 3), node("Relu", "wrong", "x", declared=declared), node("Tanh", "y", "wrong"))
    with pytest.raises(UnsupportedError, match=r"Relu 'wrong': its result 0 came out as \[2, 3\]; the file declares"):
        from_tensorflow(model, {"x": (2, 3)})


def time_distributed(axis: int) -> bytes:
    """The export of Keras' TimeDistributed, as far as the count of its steps: `range(shape(x)[axis])`."""
    return graph(
        placeholder(-1, -1, 4), node("Shape", "td/Shape", "x", T={"type": FLOAT}),
        const("td/begin", axis), const("td/end", axis + 1), const("td/step", 1),
        node("StridedSlice", "td/slice", "td/Shape", "td/begin", "td/end", "td/step", shrink_axis_mask={"i": 1}),
        const("td/perm", 1, 0, 2), node("Transpose", "td/transpose", "x", "td/perm"),
        scalar("td/zero", 0), scalar("td/one", 1),
        node("Range", "td/range", "td/zero", "td/slice", "td/one", Tidx={"type": INT}),
        node("GatherV2", "td/loop_body/rows", "td/transpose", "td/range", "td/zero"),
    )  # fmt: skip


def test_steps_counted_by_the_batch_are_refused() -> None:
    for sizes in ((2, 5, 4), ("batch", 5, 4), (2, "steps", 4)):
        with pytest.raises(UnsupportedError, match=r"Range 'td/range': a fault of the Keras that exported it.*\.keras"):
            from_tensorflow(time_distributed(0), {"x": sizes})
    with pytest.raises(UnsupportedError, match="a fault of the Keras"):
        from_tensorflow(time_distributed(0))


def test_as_many_steps_as_samples_and_steps_counted_right_are_read() -> None:
    data = np.random.default_rng(0).standard_normal((3, 3, 4)).astype("f")
    for model in (time_distributed(0), time_distributed(1)):
        module, _ = from_tensorflow(model, {"x": (3, 3, 4)})
        np.testing.assert_array_equal(run(module, {"x": data})[0], data.transpose(1, 0, 2))
    module, _ = from_tensorflow(time_distributed(1), {"x": (2, 5, 4)})
    assert run(module, {"x": np.zeros((2, 5, 4), "f")})[0].shape == (5, 2, 4)
