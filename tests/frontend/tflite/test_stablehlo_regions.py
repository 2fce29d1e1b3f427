"""Operators of StableHLO on regions and with bodies, against NumPy, or LiteRT where it has a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.tflite.builder import Graph, Op, T, build, opened, outputs_of, single
from tilewright.errors import UnsupportedError
from tilewright.frontend.tflite import from_tflite

rng = np.random.default_rng(23)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def run(model: bytes, feeds: list[np.ndarray]) -> list[np.ndarray]:
    module, specs = from_tflite(model)
    found = tw.compile(module, cache=False).run(dict(zip([spec.name for spec in specs], feeds)))
    return [np.asarray(value) for value in found]


def compare(model: bytes, feeds: list[np.ndarray], wanted: list[np.ndarray] | None = None) -> None:
    """With `wanted`, or with LiteRT."""
    for ours, theirs in zip(run(model, feeds), wanted or outputs_of(opened(model), feeds), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def c(value: Any, dtype: str = "int32") -> T:
    data = np.asarray(value, dtype)
    return T(data.shape, dtype, data)


def like(value: np.ndarray) -> T:
    return T(value.shape, str(value.dtype))


def body(name: str, swapped: bool = False, options: Any = None, result: str = "float32") -> Graph:
    """Two scalars combined by one operator."""
    positions = [1, 0] if swapped else [0, 1]
    return Graph([T(()), T(()), T((), result)], [0, 1], [2], [Op(name, positions, [2], options)])


def with_body(name: str, inputs: list[T], outputs: list[T], options: Any, *graphs: Graph) -> bytes:
    tensors = [*inputs, *outputs]
    given = [index for index, tensor in enumerate(inputs) if tensor.data is None]
    results = list(range(len(inputs), len(tensors)))
    main = Graph(tensors, given, results, [Op(name, list(range(len(inputs))), results, options)])
    return build(main, *graphs)


@pytest.mark.parametrize(
    ("low", "high", "inside"),
    [
        ([1, 0], [2, 3], [0, 0]),
        ([0, 1], [0, 2], [2, 1]),
        ([-1, 2], [1, -2], [0, 0]),
        ([-2, -1], [-1, 3], [1, 2]),
    ],
)
def test_padding_inside_and_outside_agrees(low: list[int], high: list[int], inside: list[int]) -> None:
    x = floats(3, 4)
    options = {"edgePaddingLow": low, "edgePaddingHigh": high, "interiorPadding": inside}
    shape = [low[i] + high[i] + n + (n - 1) * inside[i] for i, n in enumerate(x.shape)]
    compare(single("STABLEHLO_PAD", [like(x), c(0.5, "float32")], [T(shape)], ("StablehloPadOptions", options)), [x])


def test_dynamic_slice_is_moved_to_fit() -> None:
    x = floats(5, 6)
    model = single(
        "STABLEHLO_DYNAMIC_SLICE", [like(x), T((), "int32"), T((), "int32")], [T((2, 3))],
        ("StablehloDynamicSliceOptions", {"sliceSizes": [2, 3]}),
    )  # fmt: skip
    for first, second in ((1, 2), (4, 5), (-3, 0)):
        a, b = min(max(first, 0), 3), min(max(second, 0), 3)
        compare(model, [x, np.int32(first), np.int32(second)], [x[a : a + 2, b : b + 3]])


def test_gather_of_windows() -> None:
    x, positions = floats(4, 5, 3), np.array([[0, 1], [3, 4], [2, 9]], np.int32)
    options = {"offsetDims": [1, 2], "collapsedSliceDims": [0], "startIndexMap": [0, 1], "indexVectorDim": 1,
               "sliceSizes": [1, 2, 3]}  # fmt: skip
    wanted = np.stack([x[a, min(b, 3) : min(b, 3) + 2] for a, b in positions])
    model = single("STABLEHLO_GATHER", [like(x), like(positions)], [T((3, 2, 3))], ("StablehloGatherOptions", options))
    compare(model, [x, positions], [wanted])
    compare(model, [x, positions])


def test_gather_of_single_elements() -> None:
    x, positions = floats(6), np.array([[4, 0], [5, 1]], np.int32)
    options = {
        "offsetDims": [],
        "collapsedSliceDims": [0],
        "startIndexMap": [0],
        "indexVectorDim": 2,
        "sliceSizes": [1],
    }
    model = single("STABLEHLO_GATHER", [like(x), like(positions)], [T((2, 2))], ("StablehloGatherOptions", options))
    compare(model, [x, positions], [x[positions]])


@pytest.mark.parametrize("function", ["STABLEHLO_ADD", "STABLEHLO_MAXIMUM", "STABLEHLO_MULTIPLY", "second"])
def test_scattered_updates_are_combined_by_their_body(function: str) -> None:
    x, positions, updates = floats(5, 3), np.array([[0], [3], [7]], np.int32), floats(3, 3)
    options = {"updateWindowDims": [1], "insertedWindowDims": [0], "scatterDimsToOperandDims": [0],
               "indexVectorDim": 1, "updateComputationSubgraphIndex": 1}  # fmt: skip
    chosen = ("StablehloScatterOptions", options)
    combine = Graph([T(()), T(())], [0, 1], [1], []) if function == "second" else body(function)
    model = with_body("STABLEHLO_SCATTER", [like(x), like(positions), like(updates)], [like(x)], chosen, combine)
    made = {"STABLEHLO_ADD": np.add, "STABLEHLO_MAXIMUM": np.maximum, "STABLEHLO_MULTIPLY": np.multiply}
    wanted = x.copy()
    for row, update in ((0, updates[0]), (3, updates[1])):  # the third does not fit
        wanted[row] = update if function == "second" else made[function](x[row], update)
    compare(model, [x, positions, updates], [wanted])


def test_general_products_agree_with_einsum() -> None:
    a, b = floats(2, 3, 4, 5), floats(5, 2, 6, 3)
    options = {"lhsBatchingDimensions": [0], "rhsBatchingDimensions": [1], "lhsContractingDimensions": [3, 1],
               "rhsContractingDimensions": [0, 3]}  # fmt: skip
    model = single("STABLEHLO_DOT_GENERAL", [like(a), like(b)], [T((2, 4, 6))], ("StablehloDotGeneralOptions", options))
    compare(model, [a, b], [np.einsum("bjik,kblj->bil", a, b)])


@pytest.mark.parametrize("reversal", [False, True])
def test_grouped_convolutions_agree_with_numpy(reversal: bool) -> None:
    x, w = floats(1, 6, 7, 4), floats(3, 2, 2, 8)  # NHWC data of two groups, HWIO kernel
    options = {
        "windowStrides": [2, 1], "padding": [1, 0, 0, 2], "lhsDilation": [1, 2], "rhsDilation": [1, 2],
        "windowReversal": [reversal, False], "inputBatchDimension": 0, "inputFeatureDimension": 3,
        "inputSpatialDimensions": [1, 2], "kernelInputFeatureDimension": 2, "kernelOutputFeatureDimension": 3,
        "kernelSpatialDimensions": [0, 1], "outputBatchDimension": 0, "outputFeatureDimension": 3,
        "outputSpatialDimensions": [1, 2], "featureGroupCount": 2, "batchGroupCount": 1,
    }  # fmt: skip
    wide = np.zeros((1, 6, 13, 4), np.float32)
    wide[:, :, ::2] = x
    wide = np.pad(wide, [(0, 0), (1, 0), (0, 2), (0, 0)])
    kernel = w[::-1] if reversal else w
    rows, columns = (7 - 3) // 2 + 1, 15 - 2
    wanted = np.zeros((1, rows, columns, 8), np.float32)
    for i in range(rows):
        for j in range(columns):
            patch = wide[0, 2 * i : 2 * i + 3, j : j + 3 : 2]
            for group in range(2):
                own = patch[:, :, 2 * group : 2 * group + 2]
                wanted[0, i, j, 4 * group : 4 * group + 4] = np.einsum(
                    "hwi,hwio->o", own, kernel[..., 4 * group : 4 * group + 4]
                )
    model = single(
        "STABLEHLO_CONVOLUTION", [like(x), like(w)], [like(wanted)], ("StablehloConvolutionOptions", options)
    )
    compare(model, [x, w], [wanted])


@pytest.mark.parametrize(
    ("name", "function"),
    [("STABLEHLO_ADD", np.sum), ("MUL", np.prod), ("STABLEHLO_MAXIMUM", np.max), ("MINIMUM", np.min)],
)
def test_reductions_by_bodies_agree_with_numpy(name: str, function: Any) -> None:
    x = floats(3, 4, 5)
    chosen = ("StablehloReduceOptions", {"dimensions": [0, 2], "bodySubgraphIndex": 1})
    start = {"STABLEHLO_ADD": 0.5, "MUL": 2.0, "STABLEHLO_MAXIMUM": 0.1, "MINIMUM": -0.1}[name]
    model = with_body("STABLEHLO_REDUCE", [like(x), c(start, "float32")], [T((4,))], chosen, body(name))
    combine = {np.sum: np.add, np.prod: np.multiply, np.max: np.maximum, np.min: np.minimum}[function]
    compare(model, [x], [combine(function(x, (0, 2)), np.float32(start))])


def test_a_body_of_several_operators_is_refused() -> None:
    chosen = ("StablehloReduceOptions", {"dimensions": [0], "bodySubgraphIndex": 1})
    two = Graph(
        [T(()), T(()), T(()), T(())], [0, 1], [3], [Op("ADD", [0, 1], [2], ("AddOptions", {})), Op("NEG", [2], [3])]
    )
    with pytest.raises(UnsupportedError, match="more than a sum, product"):
        from_tflite(with_body("STABLEHLO_REDUCE", [T((3,)), c(0.0, "float32")], [T(())], chosen, two))


def test_windows_of_stablehlo() -> None:
    x = floats(5, 6)
    options = {"windowDimensions": [2, 3], "windowStrides": [2, 1], "baseDilations": [1, 2], "windowDilations": [2, 1],
               "padding": [1, 0, 0, 1], "bodySubgraphIndex": 1}  # fmt: skip
    model = with_body(
        "STABLEHLO_REDUCE_WINDOW", [like(x), c(0.25, "float32")], [T((2, 10))],
        ("StablehloReduceWindowOptions", options), body("STABLEHLO_ADD"),
    )  # fmt: skip
    wide = np.full((6, 12), 0.25, np.float32)
    wide[1:, 0:11:2] = x
    wanted = np.stack([[wide[2 * i : 2 * i + 3 : 2, j : j + 3].sum() + 0.25 for j in range(10)] for i in range(2)])
    compare(model, [x], [wanted.astype(np.float32)])


@pytest.mark.parametrize("function", [1, 2, 3, 4])
def test_windows_of_the_builtin(function: int) -> None:
    x = floats(5, 6)
    start = {1: 0.5, 2: 2.0, 3: 0.1, 4: -0.1}[function]
    inputs = [like(x), c(start, "float32"), c([2, 3], "int64"), c([2, 1], "int64"), c([2, 1], "int64")]
    compare(single("REDUCE_WINDOW", inputs, [T((2, 4))], ("ReduceWindowOptions", {"reduceFunction": function})), [x])


@pytest.mark.parametrize("descending", [False, True])
def test_sort_takes_others_along(descending: bool) -> None:
    keys, others = rng.permutation(20).reshape(4, 5).astype(np.float32), floats(4, 5)
    direction = 3 if descending else 5
    compared = Graph(
        [T(()), T(()), T(()), T(()), T((), "bool")], [0, 1, 2, 3], [4],
        [Op("STABLEHLO_COMPARE", [2, 3], [4], ("StablehloCompareOptions", {"comparisonDirection": direction}))],
    )  # fmt: skip
    chosen = ("StablehloSortOptions", {"dimension": 1, "isStable": True, "comparatorSubgraphIndex": 1})
    model = with_body("STABLEHLO_SORT", [like(others), like(keys)], [like(others), like(keys)], chosen, compared)
    order = np.argsort(-keys if descending else keys, axis=1)
    compare(model, [others, keys], [np.take_along_axis(value, order, 1) for value in (others, keys)])


def test_case_takes_the_branch_of_a_number() -> None:
    branches = [
        Graph([T((2, 3)), c(k, "float32"), T((2, 3))], [0], [2], [Op("ADD", [0, 1], [2], ("AddOptions", {}))])
        for k in (1.0, 2.0, 3.0)
    ]
    chosen = ("StablehloCaseOptions", {"branchSubgraphIndices": [1, 2, 3]})
    model = with_body("STABLEHLO_CASE", [T((), "int32"), T((2, 3))], [T((2, 3))], chosen, *branches)
    x = floats(2, 3)
    for index in (0, 1, 2, 7, -1):
        compare(model, [np.int32(index), x], [x + np.float32(index + 1 if 0 <= index < 3 else 3)])
