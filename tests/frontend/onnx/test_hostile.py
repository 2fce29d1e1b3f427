"""Models made to do harm: memory and paths they have no right to, values no operator can take, types without order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import tilewright as tw
from tests.onnx_models import make_model
from tilewright.errors import InputError, ModelError, TypeMismatchError, UnsupportedError, UserError
from tilewright.frontend.onnx import from_onnx
from tilewright.frontend.onnx.schema import MOST_NODES
from tilewright.frontend.onnx.tensors import array_of

F, I64 = TensorProto.FLOAT, TensorProto.INT64


def run(model: onnx.ModelProto, **feeds: Any) -> list[Any]:
    return tw.compile(model, cache=False, threads=1).run(feeds)


def text_model(text: str, opset: int = 21) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> main {text}')


# ------------------------------------------------------------------------------------------------------ functions
def doubling(levels: int) -> onnx.ModelProto:
    """A model whose function number n calls number n - 1 twice."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "f0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets)]
    for level in range(1, levels + 1):
        below = f"f{level - 1}"
        body = [
            helper.make_node(below, ["a"], ["m"], domain="own"),
            helper.make_node(below, ["m"], ["b"], domain="own"),
        ]
        functions.append(helper.make_function("own", f"f{level}", ["a"], ["b"], body, opsets))
    model = make_model([helper.make_node(f"f{levels}", ["x"], ["y"], domain="own")], {"x": (F, (3,))}, {"y": (F, (3,))})
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(functions)
    return model


def test_functions_that_call_each_other_twice_are_counted_before_they_are_put_in_place() -> None:
    x = np.array([1, -2, 3], np.float32)
    np.testing.assert_array_equal(run(doubling(5), x=x)[0], x)
    with pytest.raises(ModelError, match=f"come to {1 << 39} nodes .* more than the {MOST_NODES}"):
        from_onnx(doubling(39))


def test_calls_within_branches_count() -> None:
    model = doubling(39)
    branch = helper.make_graph(
        [helper.make_node("f39", ["a"], ["t"], domain="own")], "t", [], [onnx.ValueInfoProto(name="t")]
    )
    chosen = helper.make_node("If", ["c"], ["b"], then_branch=branch, else_branch=branch)
    yes = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    model.functions.append(
        helper.make_function("own", "top", ["a"], ["b"], [yes, chosen], model.functions[1].opset_import)
    )
    model.graph.node[0].op_type = "top"
    with pytest.raises(ModelError, match=f"come to {2 * (1 << 39) + 2} nodes"):
        from_onnx(model)


# -------------------------------------------------------------------------------------------------- stored tensors
@pytest.mark.parametrize("location", ["a\0b", "a" * 5000, "/".join(["a"] * 5000), "circle"])
def test_paths_that_are_none(location: str, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    tensor = TensorProto(name="w", data_type=F, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    with pytest.raises(ModelError, match=r"'w' points to external data .* which is no path") as caught:
        array_of(tensor, tmp_path, "initializer")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("dims", [[0, 1 << 62], [1 << 62, 0, 1 << 62]])
def test_nothing_of_a_size_that_numpy_refuses(dims: list[int]) -> None:
    with pytest.raises(ModelError, match="declares the impossible shape"):
        array_of(TensorProto(name="w", data_type=F, dims=dims), None, "initializer")


def sparse(positions: Any, dims: tuple[int, ...] = (2, 3)) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "s")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.asarray(positions), "places"), dims)


def sparse_model(tensor: onnx.SparseTensorProto, constant: bool) -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["x", "s"], ["y"])]
    if constant:
        nodes.insert(0, helper.make_node("Constant", [], ["s"], sparse_value=tensor))
    model = make_model(nodes, {"x": (F, (2, 3))}, {"y": (F, (2, 3))})
    if not constant:
        model.graph.sparse_initializer.append(tensor)
    return model


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("positions", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_tensors_are_read_in_both_forms(positions: Any, constant: bool) -> None:
    x = np.ones((2, 3), np.float32)
    found = run(sparse_model(sparse(positions), constant), x=x)[0]
    np.testing.assert_array_equal(found, [[1, 6, 1], [1, 1, 8]])


@pytest.mark.parametrize(
    "positions",
    [[1, 6], [-1, 4], [4, 1], [1, 1], [1], [1.0, 4.0], [[0, 1], [0, 3]], [[0, 1], [-1, 2]], [[0, 1, 2], [1, 1, 1]]],
)  # fmt: skip
def test_sparse_tensors_with_positions_that_are_none(positions: Any) -> None:
    with pytest.raises(ModelError, match=r"'s' is a sparse tensor .* there must be an int64 position for each value"):
        from_onnx(sparse_model(sparse(positions), False))


def test_sparse_tensors_of_a_few_bytes_that_would_fill_the_memory() -> None:
    with pytest.raises(UnsupportedError, match="it would take more than 256 MiB with its zeros"):
        from_onnx(sparse_model(sparse([1, 4], (1 << 40, 3)), False))


def test_the_weights_of_a_branch_are_its_own() -> None:
    """Large weights of the graph are left in the file, and found by name; those of a branch are not among them."""
    inner = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["t"])], "t", [], [onnx.ValueInfoProto(name="t")],
        [numpy_helper.from_array(np.full(2000, 7, np.float32), "w")],
    )  # fmt: skip
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)]
    nodes.append(helper.make_node("Identity", ["w"], ["z"]))
    model = make_model(
        nodes, {"c": (TensorProto.BOOL, ())}, {"y": (F, (2000,)), "z": (F, (2000,))}, {"w": np.zeros(2000, np.float32)}
    )
    y, z = tw.compile(model.SerializeToString(), cache=False).run({"c": np.array(True)})
    assert (y == 7).all() and not z.any()


# ------------------------------------------------------------------------------------------------- sizes and ranks
@pytest.mark.parametrize(
    ("node", "shape"),
    [
        (helper.make_node("Reshape", ["x", "s"], ["y"]), np.ones(70, np.int64)),
        (helper.make_node("Expand", ["x", "s"], ["y"]), np.ones(70, np.int64)),
        (helper.make_node("Unsqueeze", ["x", "s"], ["y"]), np.arange(70)),
    ],
    ids=["Reshape", "Expand", "Unsqueeze"],
)
def test_more_dimensions_than_arrays_have(node: onnx.NodeProto, shape: np.ndarray) -> None:
    model = make_model([node], {"x": (F, (1,))}, {"y": (F, ())}, {"s": shape})
    with pytest.raises(UnsupportedError, match=r"7[01] dimensions: at most 64 are possible"):
        tw.compile(model, cache=False)


SPLIT = "s = SplitToSequence (x, p) i = Constant <value_int = 0> () y = SequenceAt (s, i)"
RESIZED = "(float[a, b, c, d] y) <float[0] r = {}, float[0] k = {}> { y = Resize (x, r, k, p) }"
UNFIT = {
    "Pad": ("(float[3] x, int64[2] p) => (float[n] y) { y = Pad (x, p) }", {"p": [-5, 1]}, "leave nothing of a tensor"),
    "SplitToSequence": (
        f"(float[3] x, int64 p) => (float[n] y) {{ {SPLIT} }}", {"p": -1}, "cannot be split into parts of -1",
    ),
    "sizes of SplitToSequence": (
        f"(float[3] x, int64[2] p) => (float[n] y) {{ {SPLIT} }}", {"p": [1, 5]}, "do not add up to the 3 elements",
    ),
    "OneHot": (
        "(int64[3] x, int64 p, float[2] v) => (float[a, b] y) { y = OneHot (x, p, v) }",
        {"p": -1, "v": [0, 1]}, "a depth of -1",
    ),
    "Resize": (
        f"(float[1, 1, 2, 3] x, int64[4] p) => {RESIZED}", {"p": [1, 1, -2, 1]}, "cannot be resized to",
    ),
    "Resize of nothing": (
        f"(float[1, 1, 0, 3] x, int64[4] p) => {RESIZED}", {"p": [1, 1, 2, 1]}, "Resize cannot run on",
    ),
    "Range": (
        "(int64 x, int64 p, int64 d) => (int64[n] y) { y = Range (x, p, d) }",
        {"x": -(1 << 63), "p": (1 << 63) - 1, "d": 1}, "Range|no memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(UNFIT))
def test_values_of_a_run_that_no_operator_can_take(name: str) -> None:
    text, feeds, pattern = UNFIT[name]
    model = text_model(text)
    fed = {}
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = np.int64 if value.type.tensor_type.elem_type == I64 else np.float32
        fed[value.name] = np.asarray(feeds.get(value.name, np.ones(shape)), dtype)
    with pytest.raises(UserError, match=pattern):
        run(model, **fed)


@pytest.mark.parametrize("pads", [[-5, 4], [4, -5], [-1, 2], [-2, -1], [2, 0]])
def test_pads_of_a_run(pads: list[int]) -> None:
    """More may be cut off than there is where the other side puts more back."""
    x = np.array([1, 2, 3], np.float32)
    known = text_model(f"(float[3] x) => (float[n] y) <int64[2] p = {{{pads[0]}, {pads[1]}}}> {{ y = Pad (x, p) }}")
    open_ = text_model("(float[3] x, int64[2] p) => (float[n] y) { y = Pad (x, p) }")
    wanted = [1 + i if 0 <= i < 3 else 0 for i in range(-pads[0], 3 + pads[1])]
    for found in (run(known, x=x)[0], run(open_, x=x, p=np.array(pads))[0]):
        np.testing.assert_array_equal(found, np.array(wanted, np.float32))


# ------------------------------------------------------------------------------------------------------------ types
@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ([np.ones(2, np.int32)], "its elements are int32, not float32"),
        (np.ones((2, 2), np.float32), "a ndarray is no list"),
        ([None], "input 's' is no Sequence"),
        ("text", "a str is no list"),
    ],
)
def test_sequences_of_something_else(value: Any, pattern: str) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", F, None)
    graph = helper.make_graph(
        [helper.make_node("SequenceLength", ["s"], ["y"])], "g", [sequence], [onnx.ValueInfoProto(name="y")]
    )
    exe = tw.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), cache=False)
    assert exe.run({"s": [np.ones(2, np.float32), [1, 2]]})[0] == 2
    with pytest.raises(InputError, match=pattern):
        exe.run({"s": value})


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
@pytest.mark.parametrize(
    "operator", ["Max", "ReduceMax", "Abs", "Equal", "Less", "Add", "ArgMax", "Relu", "MatMul", "TopK"]
)
def test_types_that_are_moved_and_cast_only_have_no_order(dtype: str, operator: str) -> None:
    """Their codes lie in bytes in another order: `Max` of int4 chose the smaller one."""
    values = np.array([1, 0, 1, 0]).astype(getattr(ml_dtypes, dtype))
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    names = {"Max": "xx", "Equal": "xx", "Less": "xx", "Add": "xx", "MatMul": "xx", "TopK": "xk"}.get(operator, "x")
    outputs = ["y", "i"] if operator == "TopK" else ["y"]
    weights = {"k": np.array([1], np.int64)} if operator == "TopK" else {}
    model = make_model(
        [helper.make_node(operator, list(names), outputs)], {"x": (kind, (4,))}, {"y": (kind, ("n",))}, weights, 21
    )
    with pytest.raises((ModelError, TypeMismatchError), match=r"cast (it|them) first|cast to|unsupported type"):
        run(model, x=values)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
@pytest.mark.parametrize("of", ["int32", "uint64", "float64"])
def test_numbers_beyond_the_largest_narrow_float_stop_there(dtype: str, of: str) -> None:
    values = np.array([3, 1 << 20, (1 << 31) - 1, 300], of)
    target = np.dtype(getattr(ml_dtypes, dtype))
    kind = helper.np_dtype_to_tensor_dtype(target)
    node = helper.make_node("Cast", ["x"], ["y"], to=kind)
    found = run(
        make_model([node], {"x": (helper.np_dtype_to_tensor_dtype(values.dtype), (4,))}, {"y": (kind, (4,))}, opset=21),
        x=values,
    )[0]
    largest = float(ml_dtypes.finfo(target).max)
    wanted = np.minimum(values.astype(np.float32), largest).astype(target)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("base", ["float16", "float32", "float64"])
def test_a_large_odd_exponent_keeps_the_sign(base: str) -> None:
    """As a float, 2³¹ - 1 becomes 2³¹, which is even."""
    x = np.array([-2, -0.5, 2, -np.inf, -0.0, 0.0, -1], base)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    exponents = np.array([[-(2**31) + 1], [2**31 - 1], [2**31 - 2], [3]], np.int32)
    model = make_model(
        [helper.make_node("Pow", ["x", "e"], ["y"])],
        {"x": (kind, (7,)), "e": (TensorProto.INT32, (4, 1))},
        {"y": (kind, (4, 7))},
    )
    found = run(model, x=x, e=exponents)[0]
    inf = np.inf
    wanted = [
        [-0.0, -inf, 0, -0.0, -inf, inf, -1], [-inf, -0.0, inf, -inf, -0.0, 0, -1], [inf, 0, inf, inf, 0, 0, 1],
        [-8, -0.125, 8, -inf, -0.0, 0, -1],
    ]  # fmt: skip
    np.testing.assert_array_equal(found, np.array(wanted, base))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.array(wanted, base)))
