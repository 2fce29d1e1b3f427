"""Converters that position, join, cut and index data, in every operator-set version whose form differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper, parser

import tilewright as tw
from tilewright.errors import InputError
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.ir.visitor import calls

Check = Callable[..., list[np.ndarray]]
Make = Callable[..., Any]
RNG = np.random.default_rng(8)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def test_reshape_and_flatten_agree(check_node: Check) -> None:
    x = floats(2, 3, 4)
    check_node("Reshape", [x], [ints(0, -1)])
    check_node("Reshape", [x], [ints(4, 0, 2)])
    check_node("Reshape", [x], [ints(-1)])
    check_node("Flatten", [x], axis=2)
    check_node("Flatten", [x], axis=-1)
    check_node("Flatten", [x], axis=0)


def test_squeeze_and_unsqueeze(check_node: Check) -> None:
    x = floats(1, 3, 1, 4)
    check_node("Squeeze", [x], opset=11, axes=[2])
    check_node("Squeeze", [x], opset=11)
    check_node("Squeeze", [x], [ints(-2, 0)], opset=13)
    check_node("Unsqueeze", [x], opset=11, axes=[0, 5])
    check_node("Unsqueeze", [x], [ints(-1, 1)], opset=13)


def test_transpose_and_concat_agree(check_node: Check) -> None:
    check_node("Transpose", [floats(2, 3, 4)])
    check_node("Transpose", [floats(2, 3, 4)], perm=[1, 2, 0])
    check_node("Concat", [floats(2, 3), floats(2, 1), floats(2, 2)], axis=-1)


def test_splits_agree_in_every_opset(check_node: Check) -> None:
    x = floats(2, 7)
    check_node("Split", [floats(2, 6)], opset=11, outputs=3, axis=1)
    check_node("Split", [x], opset=11, outputs=2, axis=1, split=[2, 5])
    check_node("Split", [x], [ints(2, 5)], opset=13, outputs=2, axis=-1)
    check_node("Split", [x], opset=18, outputs=3, axis=1, num_outputs=3)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1, 0], [3, 2], None, None),
        ([-3], [2**63 - 1], [-1], None),
        ([0], [-1], [2], [2]),
        ([-1], [-(2**63)], [1], [-1]),
        ([4], [0], [2], [-2]),
        ([3, 9], [1, 99], [0, 1], None),
    ],
)
def test_slices_agree_as_inputs_and_as_attributes(
    check_node: Check, starts: list[int], ends: list[int], axes: Any, steps: Any
) -> None:
    x = floats(4, 5, 6)
    consts = [None if values is None else ints(*values) for values in (starts, ends, axes, steps)]
    picked = [slice(None)] * 3
    for axis, start, end, step in zip(axes or range(3), starts, ends, steps or [1] * 3):
        picked[axis] = slice(start, None if end < -1000 else end, step)
    check_node("Slice", [x], consts, expected=[x[tuple(picked)]])
    if steps is None:
        attributes = {} if axes is None else {"axes": axes}
        check_node("Slice", [x], opset=9, starts=starts, ends=ends, expected=[x[tuple(picked)]], **attributes)


def test_tile_expand_where(check_node: Check) -> None:
    check_node("Tile", [floats(2, 3)], [ints(2, 1)])
    check_node("Expand", [floats(3, 1)], [ints(2, 1, 4)])
    check_node("Expand", [floats(2, 3)], [ints(1, 1)])
    check_node("Where", [np.array([[True], [False]]), floats(2, 3), floats(3)])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_padding_agrees_in_every_opset(check_node: Check, mode: str) -> None:
    x = floats(1, 2, 5, 6)
    check_node("Pad", [x], opset=10, mode=mode, pads=[0, 0, 1, 2, 0, 0, 3, 0])
    check_node("Pad", [x], [ints(0, 0, 1, 2, 0, 0, 3, 0)], opset=13, mode=mode)
    check_node("Pad", [x], [ints(1, 2, 3, 0), None, ints(2, 3)], opset=18, mode=mode)


def test_pad_value_crop_and_wrap(check_node: Check) -> None:
    x = floats(2, 5)
    check_node("Pad", [x], [ints(0, 1, 0, 2), np.float32(3.5)], opset=13)
    check_node("Pad", [x], [ints(1, -1, 0, -2)], opset=13)
    check_node("Pad", [x], [ints(0, 2, 0, 3)], opset=19, mode="wrap", expected=[np.pad(x, ((0, 0), (2, 3)), "wrap")])


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(check_node: Check, mode: str) -> None:
    check_node("DepthToSpace", [floats(2, 8, 3, 2)], blocksize=2, mode=mode)
    check_node("SpaceToDepth", [floats(2, 3, 4, 6)], blocksize=2)


def test_gathers_agree_with_negative_indices(check_node: Check) -> None:
    x = floats(5, 4, 3)
    check_node("Gather", [x], [ints([0, -1], [2, 3])], axis=1)
    check_node("Gather", [x], [np.array(-2)], axis=1)
    check_node("Gather", [x], [ints(2)], axis=0)
    check_node("Gather", [x, np.array([[4, -5]], np.int32)], axis=0)


def test_gather_elements_and_nd(check_node: Check) -> None:
    x = floats(3, 4, 5)
    check_node("GatherElements", [x, RNG.integers(-4, 4, (3, 2, 5))], axis=1)
    check_node("GatherND", [x, ints([0, 1], [2, -1])])
    check_node("GatherND", [x, ints([[1], [0]], [[3], [2]], [[0], [0]])], batch_dims=1)


def test_one_hot_agrees_with_negative_indices(check_node: Check) -> None:
    check_node("OneHot", [ints([0, 2], [-1, 1])], [np.array(3), np.array([-1.0, 2.0], np.float32)], axis=1)


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles_agree_off_the_diagonal(check_node: Check, upper: int) -> None:
    check_node("Trilu", [floats(2, 3, 4)], [np.array(1)], upper=upper)


def test_compress_cumsum_reverse(check_node: Check) -> None:
    x = floats(3, 4)
    check_node("Compress", [x], [np.array([True, False, True])], axis=0)
    check_node("Compress", [x], [np.array([False, True, False, False, True])])
    check_node("CumSum", [x], [np.array(1)])
    check_node("CumSum", [x], [np.array(-2)], exclusive=1, reverse=1)
    check_node("ReverseSequence", [floats(4, 3, 2)], [ints(4, 1, 3)], time_axis=0, batch_axis=1)


def test_constants_need_no_kernel(make_model: Make, run_model: Check) -> None:
    """Shape arithmetic disappears: the module is one reshape."""
    x = floats(2, 3, 4)
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Cast", ["n"], ["n32"], to=6),
        helper.make_node("Cast", ["n32"], ["n64"], to=7),
        helper.make_node("Unsqueeze", ["n64", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    consts = {"zero": np.array(0), "axes": ints(0), "minus": ints(-1)}
    model = make_model(nodes, {"x": x}, ["y"], 17, consts)
    np.testing.assert_array_equal(run_model(model, {"x": x})[0], x.reshape(2, 12))
    assert [call.op.name for call in calls(from_onnx(model)[0]["main"].body)] == ["reshape"]


def test_range_constant_of_shape_eye(check_node: Check) -> None:
    check_node("Range", [], [np.array(2), np.array(11), np.array(3)])
    check_node("Range", [], [np.float32(5), np.float32(1), np.float32(-1.5)])
    check_node("ConstantOfShape", [], [ints(2, 3)], value=helper.make_tensor("v", 7, [1], [4]))
    check_node("EyeLike", [floats(3, 4)], k=1, dtype=7)
    check_node("Size", [floats(3, 4)])
    check_node("Shape", [floats(3, 4, 5)], start=1, end=-1)


def test_spans_are_the_source_names(make_model: Make) -> None:
    nodes = [helper.make_node("HardSwish", ["x"], ["z"], name="swish"), helper.make_node("Neg", ["z"], ["y"])]
    body = from_onnx(make_model(nodes, {"x": floats(2)}, ["y"], 17))[0]["main"].body
    assert {call.span for call in calls(body)} == {"swish", "Neg_1"}


@pytest.mark.parametrize("branch", [True, False])
def test_if_with_a_constant_condition(make_model: Make, run_model: Check, branch: bool) -> None:
    def body(op_type: str) -> Any:
        node = helper.make_node(op_type, ["x"], ["r"])
        return helper.make_graph([node], op_type, [], [helper.make_tensor_value_info("r", 1, None)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=body("Neg"), else_branch=body("Abs"))
    x = floats(4)
    model = make_model([node], {"x": x}, ["y"], 17, {"c": np.array(branch)})
    np.testing.assert_array_equal(run_model(model, {"x": x})[0], -x if branch else abs(x))


def test_several_outputs_keep_their_order(make_model: Make, run_model: Check) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"])]
    x = floats(3)
    model = make_model(nodes, {"x": x}, ["b", "x", "a"], 17)
    got = run_model(model, {"x": x})
    for ours, theirs in zip(got, [abs(x), x, -x], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_scatter_at_constant_positions(check_node: Check) -> None:
    x = floats(4, 5)
    check_node("ScatterElements", [x], [ints([0, -1], [2, 1]), floats(2, 2)], axis=1)
    data, rows = floats(4, 5, 2), ints([[1], [-4]], [[2], [3]])
    check_node("ScatterND", [data], [rows, floats(2, 2, 5, 2)])


def test_scatter_of_computed_updates(make_model: Make, run_model: Check) -> None:
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"])
    x, updates = floats(3, 2), floats(1, 2)
    model = make_model([node], {"x": x, "u": updates}, ["y"], 17, {"i": ints([1])})
    expected = x.copy()
    expected[1] = updates[0]
    np.testing.assert_array_equal(run_model(model, {"x": x, "u": updates})[0], expected)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_ties_of_top_k_go_to_the_lower_position(check_node: Check, largest: int, axis: int) -> None:
    x = RNG.integers(0, 4, (5, 6)).astype(np.float32)  # few distinct values: ties go to the lower position
    check_node("TopK", [x], [ints(3)], outputs=2, largest=largest, axis=axis, opset=11)
    check_node("TopK", [floats(2, 7)], opset=9, outputs=2, k=4)


@pytest.mark.parametrize(("start", "end"), [(-4, -1), (-5, 2), (-2, 4), (1, -2), (0, -4), (-9, 9)])
def test_slices_of_an_open_axis_may_begin_before_it(start: int, end: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 21]> g (float[n] x) => (float[m] y)
        <int64[1] a = {{{start}}}, int64[1] b = {{{end}}}> {{ y = Slice(x, a, b) }}"""
    model = tw.compile(parser.parse_model(text), cache=False, threads=1)
    for size in (1, 2, 3, 5, 12):
        x = floats(size)
        np.testing.assert_array_equal(model(x), x[start:end])


WORDS = np.array([f"{i}" for i in range(16)], object)
AS_NUMBERS = np.arange(16.0).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "shape", "others", "attributes"),
    [
        ("GatherElements", (4, 4), (ints([0, -1], [2, 3], [1, 1]),), {"axis": 1}),
        ("ScatterElements", (4, 4), (ints([0, -1], [2, 3]), (2, 2)), {"axis": 1}),
        ("GatherND", (4, 2, 2), (ints([[0, 1]], [[3, -1]]),), {}),
        ("GatherND", (2, 4, 2), (ints([[0, 1]], [[3, -1]]),), {"batch_dims": 1}),
        ("ScatterND", (4, 2, 2), (ints([0], [-1]), (2, 2, 2)), {}),
        ("ScatterND", (16,), (ints(3), ()), {}),
        ("DepthToSpace", (1, 4, 2, 2), (), {"blocksize": 2}),
        ("DepthToSpace", (1, 4, 2, 2), (), {"blocksize": 2, "mode": "CRD"}),
        ("SpaceToDepth", (1, 1, 4, 4), (), {"blocksize": 2}),
    ],
)
def test_texts_are_moved_as_numbers_are(
    make_model: Make, name: str, shape: tuple[int, ...], others: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    results = []
    for values in (WORDS, AS_NUMBERS):
        inputs = [values.reshape(shape)]
        inputs += [values[: int(np.prod(o))].reshape(o) if isinstance(o, tuple) else o for o in others]
        feeds = {f"i{index}": value for index, value in enumerate(inputs)}
        model = make_model([helper.make_node(name, list(feeds), ["y"], **attributes)], feeds, ["y"], 16)
        results.append(tw.compile(model, cache=False, threads=1).run(feeds)[0])
    np.testing.assert_array_equal(results[0].astype(np.float32), results[1])


def test_a_text_without_dimensions_is_an_array(make_model: Make) -> None:
    model = make_model([helper.make_node("Gather", ["x", "i"], ["y"])], {"x": WORDS, "i": ints(3)[0]}, ["y"], 16)
    found = tw.compile(model, cache=False, threads=1).run({"x": WORDS, "i": ints(3)[0]})[0]
    assert isinstance(found, np.ndarray) and found.shape == () and found[()] == "3"


def test_an_index_of_another_image_is_the_inputs_fault(make_model: Make) -> None:
    feeds = {"x": floats(1, 1, 1, 1), "i": ints([[[9]]])}
    node = helper.make_node("MaxUnpool", list(feeds), ["y"], kernel_shape=[2, 2], strides=[2, 2])
    with pytest.raises(InputError, match="MaxUnpool: an index is out of range for 4 elements"):
        tw.compile(make_model([node], feeds, ["y"], 16), cache=False, threads=1).run(feeds)


@pytest.mark.parametrize("name", ["Transpose", "Identity", "Expand"])
def test_the_host_keeps_tensors_without_dimensions(make_model: Make, name: str) -> None:
    feeds = {"x": np.array("3", object)}
    feeds |= {"s": np.zeros(0, np.int64)} if name == "Expand" else {}
    model = make_model([helper.make_node(name, list(feeds), ["y"])], feeds, ["y"], 16)
    assert tw.compile(model, cache=False, threads=1).run(feeds)[0].shape == ()


def test_an_open_size_is_what_it_is_expanded_to() -> None:
    text = """<ir_version: 8, opset_import: ["" : 21]> g (float[n] x) => (float[a, b] y) <int64[2] s = {3, 4}>
        { y = Expand(x, s) }"""
    model = tw.compile(parser.parse_model(text), cache=False, threads=1)
    np.testing.assert_array_equal(model(floats(4)).shape, (3, 4))
    with pytest.raises(InputError, match="n = 1 and 4 must be equal"):
        model(floats(1))


def test_running_sums_without_the_element_itself_keep_infinities(check_node: Check) -> None:
    x = np.array([[1.0, np.inf, 2.0, -1.0]], np.float32)
    check_node("CumSum", [x], [np.array(1)], exclusive=1)
    check_node("CumSum", [x], [np.array(1)], exclusive=1, reverse=1)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_reductions_over_axes_of_a_run_keep_their_type(make_model: Make, dtype: str) -> None:
    feeds = {"x": floats(2, 3).astype(dtype), "a": ints(1)}
    model = make_model([helper.make_node("ReduceSum", list(feeds), ["y"])], feeds, ["y"], 17)
    (found,) = tw.compile(model, cache=False, threads=1).run(feeds)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, feeds["x"].sum(1, keepdims=True), rtol=1e-2)


def test_distinct_slices_of_texts(make_model: Make) -> None:
    feeds = {"x": np.array([["b", "a"], ["a", "z"], ["b", "a"]], object)}
    model = make_model([helper.make_node("Unique", ["x"], ["y"], axis=0)], feeds, ["y"], 17)
    (found,) = tw.compile(model, cache=False, threads=1).run(feeds)
    assert found.tolist() == [["a", "z"], ["b", "a"]]
