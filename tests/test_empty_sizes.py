"""Sizes of nothing and of one, in compiled models: products, reductions, scatters, pads and selections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tilewright as tw
from tests.onnx_models import make_model
from tilewright.errors import InputError, UserError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
ONES = np.ones


def run(
    op: str, inputs: list[np.ndarray], consts: list[np.ndarray], outputs: int = 1, opset: int = 19, **attrs: Any
) -> Any:
    """Results of a model of one node on float inputs, and on constants behind them."""
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    weights = {f"c{i}": value for i, value in enumerate(consts)}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, [*feeds, *weights], results, **attrs)
    kinds = {np.dtype("float32"): FLOAT, np.dtype("int64"): INT64}
    declared: Mapping[str, Any] = {name: (kinds[value.dtype], value.shape) for name, value in feeds.items()}
    kind = {1: [FLOAT], 2: [FLOAT, INT64]}[outputs]
    model = make_model(
        [node], declared, {name: (k, None) for name, k in zip(results, kind, strict=True)}, weights, opset
    )
    return tw.compile(model, cache=False).run(feeds)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


@pytest.mark.sample(24)
@pytest.mark.parametrize("constant", [False, True], ids=["input", "constant"])
@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("terms", [0, 1, 4])
@pytest.mark.parametrize("columns", [0, 1, 5])
def test_products_of_any_size(rows: int, terms: int, columns: int, constant: bool) -> None:
    left, right, bias = floats(rows, terms), floats(terms, columns), floats(columns)
    inputs, consts = ([left], [right]) if constant else ([left, right], [])
    (product,) = run("MatMul", inputs, consts)
    np.testing.assert_allclose(product, left @ right, rtol=1e-5)
    (sums,) = run("Gemm", inputs, [*consts, bias], alpha=0.5, beta=2.0)
    np.testing.assert_allclose(sums, 0.5 * (left @ right) + 2 * bias, rtol=1e-5)


@pytest.mark.parametrize(("left", "right"), [((0, 2, 3), (0, 3, 4)), ((0, 1, 2, 3), (5, 3, 4)), ((2, 0, 3), (2, 3, 4))])
def test_stacks_of_products(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = floats(*left), floats(*right)
    np.testing.assert_allclose(run("MatMul", [a, b], [])[0], a @ b)


@pytest.mark.parametrize("channels", [0, 3])
@pytest.mark.parametrize("batch", [0, 2])
def test_convolutions_of_nothing_return_the_bias(batch: int, channels: int) -> None:
    (got,) = run(
        "Conv", [floats(batch, channels, 5, 5)], [np.zeros((4, channels, 3, 3), "float32"), ONES(4, "float32")]
    )
    np.testing.assert_array_equal(got, ONES((batch, 4, 3, 3), "float32"))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "LayerNormalization"])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (0, 3), (2, 1)])
def test_rows_of_one_element(op: str, shape: tuple[int, ...]) -> None:
    (got,) = run(op, [floats(*shape)], [ONES(shape[-1:], "float32")] if op == "LayerNormalization" else [], axis=-1)
    assert got.shape == shape
    if shape[-1] == 1:
        np.testing.assert_array_equal(got, ONES(shape) if op == "Softmax" else np.zeros(shape))


EMPTY = {
    "ReduceSum": 0, "ReduceProd": 1, "ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceMean": np.nan, "ReduceL1": 0,
    "ReduceL2": 0, "ReduceLogSumExp": -np.inf, "ReduceLogSum": -np.inf, "ReduceSumSquare": 0,
}  # fmt: skip


@pytest.mark.parametrize("op", EMPTY)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions_of_nothing(op: str, keepdims: int) -> None:
    (got,) = run(op, [floats(2, 0, 3)], [np.array([1])], keepdims=keepdims)
    np.testing.assert_array_equal(got, np.full((2, 1, 3) if keepdims else (2, 3), EMPTY[op], "float32"))
    (got,) = run(op, [floats(2, 0, 3)], [np.array([0])], keepdims=keepdims)
    assert got.shape == ((1, 0, 3) if keepdims else (0, 3))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("data", [[2.0], [2.0, 2.0]], ids=["one", "several"])
def test_updates_of_constants(reduction: str, data: list[float]) -> None:
    combined = {"none": 3.0, "add": 5.0, "mul": 6.0, "max": 3.0, "min": 2.0}[reduction]
    index, update = np.array([len(data) - 1]), np.array([3.0], "float32")
    for op, where in (("ScatterElements", index), ("ScatterND", index[:, None])):
        constants = {"d": np.array(data, "float32"), "i": where}
        node = helper.make_node(op, ["d", "i", "u"], ["y"], reduction=reduction)
        model = make_model([node], {"u": (FLOAT, [1])}, {"y": (FLOAT, [len(data)])}, constants, 18)
        (got,) = tw.compile(model, cache=False).run({"u": update})
        np.testing.assert_array_equal(got, [*data[:-1], combined])


@pytest.mark.parametrize("k", [0, 1, 4])
def test_the_largest_k(k: int) -> None:
    data = floats(3, 4)
    values, positions = run("TopK", [data], [np.array([k])], outputs=2)
    np.testing.assert_array_equal(positions, np.argsort(-data, axis=1, kind="stable")[:, :k])
    np.testing.assert_array_equal(values, -np.sort(-data, axis=1)[:, :k])


@pytest.mark.parametrize("largest", [0, 1])
def test_the_largest_none_of_a_symbolic_size(largest: int) -> None:
    nodes = [helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=0, largest=largest)]
    model = symbolic(nodes, {"k": np.array([0])})
    assert model(floats(3, 4)).shape == (0, 4) and model(floats(0, 2)).shape == (0, 2)
    values, positions = run("TopK", [floats(3, 4)], [np.array([0])], outputs=2, largest=largest)
    assert values.shape == positions.shape == (3, 0) and positions.dtype == np.int64


@pytest.mark.parametrize("pads", [(-2, -2), (-3, 1), (-4, 4), (-6, 6), (5, -7), (-2, 6), (-4, 0), (1, -4)])
def test_pads_that_cut_off(pads: tuple[int, int]) -> None:
    data = np.arange(1, 5, dtype="float32")
    around = np.concatenate([np.full(9, 7, "float32"), data, np.full(9, 7, "float32")])
    (got,) = run("Pad", [data], [np.array(pads), np.float32(7)])
    np.testing.assert_array_equal(got, around[9 - pads[0] : 13 + pads[1]])


@pytest.mark.parametrize("pads", [(3, 0), (0, 7), (9, 5)])
def test_pads_that_wrap_several_times(pads: tuple[int, int]) -> None:
    data = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(run("Pad", [data], [np.array(pads)], mode="wrap")[0], np.pad(data, pads, "wrap"))


@pytest.mark.parametrize(
    ("mode", "pads"), [("constant", (-5, 0)), ("edge", (-4, 4)), ("wrap", (5, -7)), ("edge", (0, -5))]
)
def test_pads_that_leave_nothing_are_refused(mode: str, pads: tuple[int, int]) -> None:
    with pytest.raises(UserError, match=r"Pad.*pads .* of axis 0, whose extent is 4"):
        run("Pad", [floats(4)], [np.array(pads)], mode=mode)


@pytest.mark.parametrize(("op", "attrs"), [("ReduceLogSumExp", {"axes": [0]}), ("LpNormalization", {"axis": 0})])
def test_nothing_beside_open_sizes(op: str, attrs: dict[str, Any]) -> None:
    nodes = [helper.make_node(op, ["x"], ["y"], **attrs), helper.make_node("Relu", ["y"], ["z"])]
    model = tw.compile(make_model(nodes, {"x": (FLOAT, ("n", 0, "m"))}, {"z": (FLOAT, None)}, {}, 13), cache=False)
    for shape in ((4, 0, 20), (1, 0, 1), (3, 0, 0)):
        assert model(np.zeros(shape, np.float32)).shape == ((1, *shape[1:]) if "axes" in attrs else shape)


def symbolic(nodes: list[Any], constants: dict[str, np.ndarray], opset: int = 18) -> tw.Model:
    """A model of `nodes` from x [n, m] to y, compiled with both sizes symbolic."""
    return tw.compile(
        make_model(nodes, {"x": (FLOAT, ("n", "m"))}, {"y": (FLOAT, None)}, constants, opset), cache=False
    )


TILED_GATHER = [
    helper.make_node("Tile", ["x", "r"], ["t"]),
    helper.make_node("Gather", ["t", "i"], ["y"], axis=0),
]
REFUSED: dict[str, tuple[list[Any], dict[str, np.ndarray], list[tuple[int, int]], list[tuple[int, int]]]] = {
    "tile_gather": (TILED_GATHER, {"r": np.array([2, 1]), "i": np.array([0, 1, -1])}, [(0, 3)], [(1, 3), (3, 0)]),
    "gather": (
        [helper.make_node("Gather", ["x", "i"], ["y"], axis=0)],
        {"i": np.array([0, 1, -1])},
        [(0, 3), (0, 0), (1, 3)],
        [(2, 3), (4, 0)],
    ),
    "gather_elements": (
        [helper.make_node("GatherElements", ["x", "i"], ["y"], axis=0)],
        {"i": np.zeros((2, 3), np.int64)},
        [(0, 3)],
        [(1, 3)],
    ),
    "gather_nd": ([helper.make_node("GatherND", ["x", "i"], ["y"])], {"i": np.array([[0], [1]])}, [(0, 3)], [(2, 3)]),
    "arg_max": (
        [helper.make_node("ArgMax", ["x"], ["i"], axis=0), helper.make_node("Cast", ["i"], ["y"], to=FLOAT)],
        {},
        [(0, 3)],
        [(3, 0), (1, 2), (0, 0)],
    ),
    "reflect": (
        [helper.make_node("Pad", ["x", "p"], ["y"], mode="reflect")],
        {"p": np.array([1, 0, 1, 0])},
        [(0, 3), (1, 3)],
        [(2, 3)],
    ),
    "edge": (
        [helper.make_node("Pad", ["x", "p"], ["y"], mode="edge")],
        {"p": np.array([1, 0, 1, 0])},
        [(0, 3)],
        [(1, 3), (2, 1)],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_symbolic_sizes_without_meaning_are_refused(case: str) -> None:
    nodes, constants, refused, taken = REFUSED[case]
    model = symbolic(nodes, constants)
    for shape in refused:
        with pytest.raises(InputError, match=r"must hold, where n = |must be equal"):
            model(np.ones(shape, np.float32))
    for shape in taken:
        data = floats(*shape)
        fixed = make_model(nodes, {"x": (FLOAT, shape)}, {"y": (FLOAT, None)}, constants, 18)
        np.testing.assert_array_equal(model(data), tw.compile(fixed, cache=False)(data))


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_conditions_of_images(executor: str) -> None:
    for node in (
        helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3]),
        helper.make_node("Conv", ["x", "w"], ["y"]),
        helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2),
    ):
        weights = {"w": ONES((1, 1, 3, 3), np.float32)} if node.op_type == "Conv" else {}
        declared = make_model([node], {"x": (FLOAT, (1, 1, "h", "w0"))}, {"y": (FLOAT, None)}, weights, 18)
        model = tw.compile(declared, cache=False, executor=executor)
        even = node.op_type == "SpaceToDepth"
        for shape in [(3, 4), (5, 2)] if even else [(2, 2), (0, 4)]:
            with pytest.raises(InputError, match=r"must hold|must be equal"):
                model(ONES((1, 1, *shape), np.float32))
        assert model(ONES((1, 1, 4, 6), np.float32)).shape == ((1, 4, 2, 3) if even else (1, 1, 2, 4))


@pytest.mark.parametrize("shape", [(1, 1, 0, 2), ("n", 1, "h", "w")])
def test_images_of_nothing_are_resized_to_nothing(shape: tuple[Any, ...]) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"])
    made = make_model([node], {"x": (FLOAT, shape)}, {"y": (FLOAT, None)}, {"s": np.array([1, 1, 2, 2], "f")}, 18)
    assert tw.compile(made, cache=False)(np.zeros((1, 1, 0, 2), np.float32)).shape == (1, 1, 0, 4)


def test_a_fixed_axis_of_nothing_has_nothing_to_gather() -> None:
    for op in ("GatherElements", "GatherND"):
        with pytest.raises(UserError, match="an axis of size 0 has no positions"):
            run(op, [floats(0, 3)], [np.zeros((2, 3) if op == "GatherElements" else (2, 1), np.int64)])


def test_empty_results_are_folded_where_nothing_is_left_to_check() -> None:
    model = symbolic([helper.make_node("Min", ["x", "z"], ["y"])], {"z": np.zeros((0, 6), np.float32)})
    assert model(np.zeros((0, 6), np.float32)).shape == (0, 6)
    with pytest.raises(InputError, match="n = 3 and 0 must be equal"):
        model(np.zeros((3, 6), np.float32))


def test_a_window_that_does_not_fit_its_frames_is_refused() -> None:
    node = helper.make_node("STFT", ["x", "step", "w", "length"], ["y"])
    constants = {"step": np.array(1), "length": np.array(3)}
    inputs = {"x": (FLOAT, (1, 9, 1)), "w": (FLOAT, ("n",))}
    model = tw.compile(make_model([node], inputs, {"y": (FLOAT, None)}, constants, 17), cache=False)
    assert model.run({"x": floats(1, 9, 1), "w": floats(3)})[0].shape == (1, 7, 2, 2)
    for size in (0, 1, 4):
        with pytest.raises(InputError):
            model.run({"x": floats(1, 9, 1), "w": floats(size)})
