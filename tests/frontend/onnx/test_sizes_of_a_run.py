"""Sizes that only a run tells: operands whose size may be 1 are broadcast, pools of any rank run on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tilewright as tw
from tilewright.errors import InputError
from tilewright.frontend.onnx import from_onnx

Model = Callable[..., onnx.ModelProto]


def run(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[np.ndarray]:
    return tw.compile(model, cache=False, threads=1).run(dict(feeds))


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def sliced(make_model: Model, node: onnx.NodeProto, feeds: dict[str, np.ndarray], outputs: Sequence[str]) -> Any:
    """Results of a node on slices whose bounds are data: all sizes of its inputs are data-dependent."""
    nodes, fed = [], {}
    for name, value in feeds.items():
        nodes.append(helper.make_node("Slice", [f"{name}_whole", f"{name}_from", f"{name}_to"], [name]))
        fed |= {f"{name}_whole": value, f"{name}_from": np.zeros(value.ndim, np.int64)}
        fed[f"{name}_to"] = np.array(value.shape)
    model = make_model([*nodes, node], fed, outputs, 21)
    return run(model, fed)


@pytest.mark.parametrize(
    ("a", "b"), [((3, 1), (3, 4)), ((1, 4), (3, 4)), ((4,), (3, 1)), ((1, 1), (3, 4)), ((3, 4), (3, 4)), ((1,), (0,))]
)
def test_sizes_of_a_run_broadcast(make_model: Model, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = floats(*a), floats(*b)
    found = sliced(make_model, helper.make_node("Add", ["x", "y"], ["z"]), {"x": x, "y": y}, ["z"])[0]
    np.testing.assert_array_equal(found, x + y)


def test_sizes_of_a_run_that_do_not_go_together(make_model: Model) -> None:
    node = helper.make_node("Add", ["x", "y"], ["z"])
    with pytest.raises(InputError, match=r"Stretched cannot run on|must be equal"):
        sliced(make_model, node, {"x": floats(3, 2), "y": floats(3, 4)}, ["z"])


def test_a_size_of_a_run_meets_a_fixed_one_and_three_operands(make_model: Model) -> None:
    nodes = [
        helper.make_node("Slice", ["x", "from", "to"], ["part"]),
        helper.make_node("Exp", ["part"], ["same"]),
        helper.make_node("Mul", ["part", "same"], ["product"]),
        helper.make_node("Max", ["product", "fixed", "part"], ["y"]),
    ]
    x, fixed = floats(1, 4), floats(3, 4)
    feeds = {"x": x, "from": np.array([0, 0]), "to": np.array([1, 4]), "fixed": fixed}
    found = run(make_model(nodes, feeds, ["y"], 21), feeds)[0]
    np.testing.assert_allclose(found, np.maximum(np.maximum(x * np.exp(x), fixed), x), rtol=1e-5)


def test_equal_sizes_of_a_run_need_no_help_of_the_host(make_model: Model) -> None:
    """Elements by elements, all operands are as long as the one slice: compiled code computes them."""
    nodes = [
        helper.make_node("Slice", ["x", "from", "to"], ["part"]),
        helper.make_node("ReduceMax", ["part", "axes"], ["most"], keepdims=1),
        helper.make_node("Sub", ["part", "most"], ["y"]),
        helper.make_node("Mul", ["y", "part"], ["z"]),
    ]
    feeds = {"x": floats(3, 4), "from": np.array([0, 0]), "to": np.array([2, 4])}
    model = make_model(nodes, feeds, ["z"], 21, {"axes": np.array([1])})
    assert "Stretched" not in repr(from_onnx(model)[0])
    part = feeds["x"][:2]
    np.testing.assert_allclose(run(model, feeds)[0], (part - part.max(1, keepdims=True)) * part, rtol=1e-6)


POOLS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("MaxPool", (2, 3, 7), {"kernel_shape": [3], "strides": [2], "pads": [1, 0], "ceil_mode": 1}),
    ("MaxPool", (2, 3, 5, 6), {"kernel_shape": [2, 3], "dilations": [2, 1], "storage_order": 1}),
    ("MaxPool", (1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 3], "auto_pad": "SAME_LOWER", "strides": [2, 1, 2]}),
    ("AveragePool", (1, 2, 4, 5, 6), {"kernel_shape": [3, 2, 3], "pads": [1, 0, 1, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", (1, 2, 5, 5, 6), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2], "ceil_mode": 1}),
    ("LpPool", (2, 3, 9), {"kernel_shape": [3], "strides": [2], "p": 3}),
    ("LpPool", (1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 2], "pads": [1, 1, 0, 0, 1, 1]}),
]


@pytest.mark.parametrize("case", POOLS, ids=lambda case: f"{case[0]} of rank {len(case[1])}")
def test_pools_over_sizes_of_a_run(make_model: Model, case: tuple[str, tuple[int, ...], dict[str, Any]]) -> None:
    operator, shape, attributes = case
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    outputs = ["y", "i"] if operator == "MaxPool" else ["y"]
    node = helper.make_node(operator, ["x"], outputs, **attributes)
    known = run(make_model([node], {"x": x}, outputs, 22), {"x": x})
    for found, wanted in zip(sliced(make_model, node, {"x": x}, outputs), known, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
