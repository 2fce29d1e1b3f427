"""Branches, loops, sequences and shapes that only a run can tell: compiled, and compared with onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tests.frontend.onnx.conftest import build_model, reference_outputs
from tilewright.errors import InputError, ModelError

RNG = np.random.default_rng(3)


def constant(name: str, value: Any, dtype: Any = np.int64) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype)))


def info(name: str, dtype: int = TensorProto.FLOAT, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def check(model: onnx.ModelProto, *runs: dict[str, np.ndarray]) -> None:
    """Every run of the compiled model gives what onnxruntime, or ONNX's reference evaluator, gives."""
    compiled = tw.compile(model, cache=False)
    for feeds in runs:
        for ours, theirs in zip(compiled.run(feeds), reference_outputs(model, feeds), strict=True):
            np.testing.assert_allclose(ours, np.asarray(theirs), rtol=1e-5, atol=1e-6)


def test_a_branch_is_chosen_at_run_time() -> None:
    then = helper.make_graph([helper.make_node("Exp", ["x"], ["a"])], "then", [], [info("a")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [info("b")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    model = build_model([node], {"c": np.array(True), "x": x}, ["y"], 17)
    check(model, {"c": np.array(True), "x": x}, {"c": np.array(False), "x": x})


def test_branches_of_different_shapes() -> None:
    then = helper.make_graph([helper.make_node("Concat", ["x", "x"], ["a"], axis=0)], "then", [], [info("a")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [info("b")])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    model = build_model(nodes, {"c": np.array(True), "x": x}, ["z"], 17)
    check(model, {"c": np.array(True), "x": x}, {"c": np.array(False), "x": x})


def test_what_follows_branches_of_different_ranks_is_compiled_for_each() -> None:
    """x squeezed where its last extent is 1, as exporters write it; behind it operators for either rank."""
    then = helper.make_graph([helper.make_node("Squeeze", ["x", "axis"], ["a"])], "then", [], [info("a")])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "else", [], [info("b")])
    nodes = [
        constant("axis", [-1]),
        constant("one", [1]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "axis"], ["last"]),
        helper.make_node("Equal", ["last", "one"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        helper.make_node("Exp", ["y"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axis"], ["z"], keepdims=0),
    ]
    model = build_model(nodes, {"x": np.ones((2, 3, 4), np.float32)}, ["z"], 17)
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, "abc"):
        dim.dim_param = name
    compiled = tw.compile(model, cache=False)
    assert "onnx.Exp" not in {entry.host for entry in compiled.manifest.packed}
    for shape in ((2, 3, 4), (5, 2, 1), (1, 1, 1)):
        x = RNG.standard_normal(shape).astype(np.float32)
        expected = np.exp(x[..., 0] if shape[2] == 1 else x).sum(-1)
        np.testing.assert_allclose(compiled.run({"x": x})[0], expected, rtol=1e-5)


def test_a_rank_that_what_follows_cannot_take_fails_only_when_it_comes() -> None:
    then = helper.make_graph([helper.make_node("Identity", ["x"], ["a"])], "then", [], [info("a")])
    flat = helper.make_graph([helper.make_node("Reshape", ["x", "flat"], ["b"])], "else", [], [info("b")])
    nodes = [
        constant("flat", [-1]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=flat),
        helper.make_node("Transpose", ["y"], ["z"], name="turn", perm=[1, 0]),
    ]
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    compiled = tw.compile(build_model(nodes, {"c": np.array(True), "x": x}, ["z"], 17), cache=False)
    np.testing.assert_array_equal(compiled.run({"c": np.array(True), "x": x})[0], x.T)
    with pytest.raises(InputError, match=r"branch of the model that cannot run on them.*turn"):
        compiled.run({"c": np.array(False), "x": x})


def test_a_branch_that_cannot_run_fails_only_when_taken() -> None:
    then = helper.make_graph([helper.make_node("Add", ["x", "w"], ["a"])], "then", [], [info("a")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], [info("b")])
    node = helper.make_node("If", ["c"], ["y"], name="pick", then_branch=then, else_branch=other)
    x = np.ones((2, 3), np.float32)
    model = build_model([node], {"c": np.array(True), "x": x}, ["y"], 17, {"w": np.zeros(5, np.float32)})
    compiled = tw.compile(model, cache=False)
    np.testing.assert_array_equal(compiled.run({"c": np.array(False), "x": x})[0], -x)
    with pytest.raises(InputError, match="pick/Add"):
        compiled.run({"c": np.array(True), "x": x})


def loop_model(trips: np.ndarray | None = None) -> onnx.ModelProto:
    """x <- x + w * i while its first element is below a limit, collecting every x."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["w", "f"], ["step"]),
            helper.make_node("Add", ["x_in", "step"], ["x_out"]),
            constant("first", [0]),
            helper.make_node("Gather", ["x_out", "first"], ["head"]),
            helper.make_node("Less", ["head", "limit"], ["below"]),
            helper.make_node("Squeeze", ["below"], ["on"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("x_in")],
        [info("on", TensorProto.BOOL, []), info("x_out"), info("x_out")],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["last", "all"], name="steps", body=body)
    feeds = {"n": np.array(3), "x": np.zeros(4, np.float32), "limit": np.zeros(1, np.float32)}
    consts = {"w": np.float32([1, 2, 3, 4])}
    if trips is not None:
        consts["n"] = trips
        del feeds["n"]
    return build_model([node], feeds, ["last", "all"], 17, consts)


def test_a_loop_whose_length_a_run_decides() -> None:
    x = RNG.standard_normal(4).astype(np.float32)
    runs = [{"n": np.array(n), "x": x, "limit": np.float32([limit])} for n in (1, 5, 40) for limit in (1, 9, 1e9)]
    check(loop_model(), *runs)


def test_a_short_loop_of_known_length_is_still_ended_by_its_condition() -> None:
    x = RNG.standard_normal(4).astype(np.float32)
    check(loop_model(np.array(6)), *({"x": x, "limit": np.float32([limit])} for limit in (1, 1e9)))


def test_a_value_that_grows_in_a_loop() -> None:
    body = helper.make_graph(
        [helper.make_node("Concat", ["x_in", "w"], ["x_out"], axis=0), helper.make_node("Identity", ["c"], ["on"])],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("x_in")],
        [info("on", TensorProto.BOOL, []), info("x_out")],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    feeds = {"n": np.array(3), "x": np.zeros(1, np.float32)}
    model = build_model([node], feeds, ["y"], 17, {"w": np.float32([1, 2])})
    check(model, *({"n": np.array(n), "x": np.float32([7])} for n in (0, 1, 30)))


def scan_model(steps: int, backwards: int) -> tuple[onnx.ModelProto, np.ndarray]:
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Mul", ["t", "e"], ["o"])],
        "body", [info("s"), info("e")], [info("t"), info("o")],
    )  # fmt: skip
    node = helper.make_node(
        "Scan", ["s0", "x"], ["s", "y"], num_scan_inputs=1, body=body,
        scan_input_directions=[backwards], scan_output_directions=[backwards],
    )  # fmt: skip
    x = RNG.standard_normal((steps, 3)).astype(np.float32)
    return build_model([node], {"x": x}, ["s", "y"], 17, {"s0": np.float32([1, 2, 3])}), x


@pytest.mark.parametrize("steps", [4, 40])
@pytest.mark.parametrize("backwards", [0, 1])
def test_scans_short_and_long(steps: int, backwards: int) -> None:
    model, x = scan_model(steps, backwards)
    feeds = x[::-1] if backwards else x
    states = np.float32([1, 2, 3]) + np.cumsum(feeds, axis=0)
    outputs = states * feeds
    got = tw.compile(model, cache=False).run({"x": x})
    np.testing.assert_allclose(got[0], states[-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], outputs[::-1] if backwards else outputs, rtol=1e-4, atol=1e-5)


def test_what_data_decides() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "two"], ["y"]),
    ]
    x = np.float32([[0, 1, 0], [2, 0, 3]])
    model = build_model(nodes, {"x": x}, ["y"], 17, {"two": np.float32(2)})
    check(model, {"x": x}, {"x": np.zeros((2, 3), np.float32)}, {"x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize(
    ("op_type", "values", "attributes"),
    [
        ("Reshape", [np.array([3, 4]), np.array([2, -1])], {}),
        ("Expand", [np.array([2, 2, 6]), np.array([3, 1, 6])], {}),
        ("Tile", [np.array([2, 1]), np.array([1, 3])], {}),
        ("TopK", [np.array([2]), np.array([5])], {}),
        ("ReduceSum", [np.array([0]), np.array([1])], {}),
        ("Pad", [np.array([0, 1, 0, 2]), np.array([1, 0, 1, 0])], {}),
        ("Unsqueeze", [np.array([0]), np.array([2])], {}),
        ("CumSum", [np.array(0), np.array(1)], {}),
    ],
)
def test_shapes_and_counts_given_at_run_time(
    op_type: str, values: list[np.ndarray], attributes: dict[str, Any]
) -> None:
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    outputs = ["y", "places"] if op_type == "TopK" else ["y"]
    node = helper.make_node(op_type, ["x", "v"], outputs, **attributes)
    model = build_model([node], {"x": x, "v": values[0]}, outputs, 18)
    check(model, *({"x": x, "v": value} for value in values))


def test_sequences_agree_with_the_reference() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["parts"], axis=1),
        helper.make_node("SequenceAt", ["parts", "k"], ["one"]),
        helper.make_node("SequenceErase", ["parts", "k"], ["rest"]),
        helper.make_node("SequenceInsert", ["rest", "one"], ["turned"]),
        helper.make_node("ConcatFromSequence", ["turned"], ["y"], axis=1),
        helper.make_node("SequenceLength", ["turned"], ["count"]),
    ]
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    model = build_model(nodes, {"x": x, "k": np.array(0)}, ["y", "count"], 17, {"sizes": np.array([1, 2, 3])})
    check(model, *({"x": x, "k": np.array(k)} for k in (0, 1, -1)))


def test_text_is_split_and_joined() -> None:
    nodes = [
        helper.make_node("StringConcat", ["a", "b"], ["joined"]),
        helper.make_node("StringSplit", ["joined"], ["parts", "counts"], delimiter="-"),
    ]
    graph = helper.make_graph(
        nodes, "g", [info("a", TensorProto.STRING, [2]), info("b", TensorProto.STRING, [2])],
        [info("parts", TensorProto.STRING, None), info("counts", TensorProto.INT64, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    feeds = {"a": np.array(["x-", "y"], object), "b": np.array(["z", "-é-w"], object)}
    parts, counts = tw.compile(model, cache=False).run(feeds)
    assert parts.tolist() == [["x", "z", ""], ["y", "é", "w"]]
    assert counts.tolist() == [2, 3]


def test_shape_mismatch_deep_in_a_loop_names_the_path() -> None:
    inner = helper.make_graph([helper.make_node("Add", ["x_in", "w"], ["bad"], name="sum")], "t", [], [info("bad")])
    other = helper.make_graph(
        [helper.make_node("Add", ["x_in", "v"], ["worse"], name="sum2")], "e", [], [info("worse")]
    )
    body = helper.make_graph(
        [
            helper.make_node("If", ["flag"], ["x_out"], name="pick", then_branch=inner, else_branch=other),
            helper.make_node("Identity", ["c"], ["on"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("x_in")],
        [info("on", TensorProto.BOOL, []), info("x_out")],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], name="steps", body=body)
    feeds = {"n": np.array(3), "x": np.zeros(4, np.float32), "flag": np.array(True)}
    consts = {"w": np.zeros(3, np.float32), "v": np.zeros(5, np.float32)}
    with pytest.raises(ModelError, match=r"node 'steps/pick/sum' \(ai\.onnx\.Add, opset 17\) does not fit its inputs"):
        tw.compile(build_model([node], feeds, ["y"], 17, consts), cache=False)
