"""The models that `mutations.py` mutates: small ones of every kind that the importer treats in its own way."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def _info(name: str, kind: int, dims: tuple[int | str, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(nodes, "seed", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions or [])


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _perceptron() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], alpha=0.5, transB=1),
        helper.make_node("Softmax", ["h"], ["y"], axis=-1),
    ]
    weights = {"w": _random(4, 8), "b": _random(4)}
    return _model(nodes, [_info("x", F, ("n", 8))], [_info("y", F, ("n", 4))], weights)


def _convolution() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["c", "s", "s", "s", "v"], ["n"], epsilon=1e-3),
        helper.make_node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2], strides=[1, 1], ceil_mode=1),
        helper.make_node("Flatten", ["p"], ["y"], axis=1),
    ]
    weights = {"w": _random(4, 3, 3, 3), "s": _random(4), "v": np.ones(4, np.float32)}
    return _model(nodes, [_info("x", F, (1, 3, 8, 8))], [_info("y", F, (1, 36))], weights)


def _shapes() -> onnx.ModelProto:
    """Shapes computed from shapes, slices, a constant of a computed shape: what the importer folds."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["first"], axis=0),
        helper.make_node("Concat", ["first", "four"], ["wanted"], axis=0),
        helper.make_node(
            "ConstantOfShape", ["wanted"], ["filled"], value=numpy_helper.from_array(np.ones(1, "float32"))
        ),
        helper.make_node("Slice", ["x", "zero", "four"], ["part"]),
        helper.make_node("Expand", ["part", "ones"], ["wide"]),
        helper.make_node("Pad", ["wide", "pads"], ["padded"], mode="constant"),
        helper.make_node("Tile", ["filled", "twice"], ["tiled"]),
        helper.make_node("Range", ["start", "limit", "step"], ["range"]),
        helper.make_node("Cast", ["range"], ["numbers"], to=F),
        helper.make_node("ReduceSum", ["tiled"], ["total"], keepdims=0),
        helper.make_node("Add", ["padded", "total"], ["y"]),
        helper.make_node("OneHot", ["range", "depth", "values"], ["z"], axis=-1),
    ]
    weights = {
        "zero": np.array([0], np.int64), "ones": np.array([1, 1], np.int64), "four": np.array([4], np.int64),
        "pads": np.array([0, 1, 0, 1], np.int64),
        "twice": np.array([2, 1], np.int64), "start": np.array(0, np.int64), "limit": np.array(5, np.int64),
        "step": np.array(2, np.int64), "depth": np.array(6, np.int64), "values": np.array([0, 1], np.float32),
    }  # fmt: skip
    return _model(nodes, [_info("x", F, (6, 4))], [_info("y", F, (4, 6)), _info("z", F, (3, 6))], weights)


def _loop() -> onnx.ModelProto:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["carried", "x"], ["next"]),
            helper.make_node("ReduceMax", ["next"], ["most"], keepdims=0),
            helper.make_node("Less", ["most", "bound"], ["again"]),
        ],
        "body",
        [_info("i", I64, ()), _info("cond", BOOL, ()), _info("carried", F, (4,))],
        [_info("again", BOOL, ()), _info("next", F, (4,)), _info("most", F, ())],
    )
    nodes = [helper.make_node("Loop", ["count", "true", "x"], ["last", "all"], body=body)]
    weights = {"count": np.array(5, np.int64), "true": np.array(True), "bound": np.array(9, np.float32)}
    return _model(nodes, [_info("x", F, (4,))], [_info("last", F, (4,)), _info("all", F, ("k",))], weights)


def _branches() -> onnx.ModelProto:
    then = helper.make_graph([helper.make_node("Neg", ["x"], ["a"])], "then", [], [_info("a", F, (4,))])
    other = helper.make_graph([helper.make_node("Exp", ["x"], ["b"])], "else", [], [_info("b", F, (4,))])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    return _model(nodes, [_info("x", F, (4,))], [_info("y", F, (4,))], {"zero": np.array(0, np.float32)})


def _recurrent() -> onnx.ModelProto:
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y", "h", ""], hidden_size=4, direction="forward")]
    weights = {"w": _random(1, 16, 3), "r": _random(1, 16, 4)}
    return _model(nodes, [_info("x", F, (5, 2, 3))], [_info("y", F, (5, 1, 2, 4)), _info("h", F, (1, 2, 4))], weights)


def _quantized() -> onnx.ModelProto:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearMatMul", ["q", "s", "z", "w", "s", "zw", "s", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    weights = {
        "s": np.array(0.1, np.float32), "z": np.array(128, np.uint8), "zw": np.array(0, np.int8),
        "w": np.arange(32).reshape(8, 4).astype(np.int8),
    }  # fmt: skip
    return _model(nodes, [_info("x", F, (2, 8))], [_info("y", F, (2, 4))], weights)


def _functions() -> onnx.ModelProto:
    square = helper.make_function(
        "own", "Square", ["a"], ["b"], [helper.make_node("Mul", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    twice = helper.make_function(
        "own", "Fourth", ["a"], ["c"],
        [helper.make_node("Square", [a], [b], domain="own") for a, b in ("ab", "bc")],
        [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
    )  # fmt: skip
    nodes = [helper.make_node("Fourth", ["x"], ["y"], domain="own")]
    return _model(nodes, [_info("x", F, (3,))], [_info("y", F, (3,))], None, [square, twice])


def _data_dependent() -> onnx.ModelProto:
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"]),
        helper.make_node("Transpose", ["where"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["picked"]),
        helper.make_node("TopK", ["picked", "k"], ["y", "at"], axis=0),
        helper.make_node("Unique", ["at"], ["u"], sorted=1),
        helper.make_node("Split", ["x", "sizes"], ["left", "right"], axis=1),
        helper.make_node("Resize", ["grid", "", "scales"], ["large"], mode="linear"),
    ]
    weights = {
        "k": np.array([2], np.int64), "sizes": np.array([1, 3], np.int64), "grid": _random(1, 1, 2, 2),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }  # fmt: skip
    outputs = [_info("y", F, (2,)), _info("u", I64, ("n",)), _info("left", F, (3, 1)), _info("large", F, (1, 1, 4, 4))]
    return _model(nodes, [_info("x", F, (3, 4))], outputs, weights)


def _classic_learning() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0]),
        helper.make_node(
            "TreeEnsembleRegressor", ["s"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0, 0, 0],
            nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
            nodes_values=[0.5, 0.0, 0.0], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
            target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0],
        ),
        helper.make_node("Einsum", ["x", "x"], ["e"], equation="ij,kj->ik"),
    ]  # fmt: skip
    return _model(nodes, [_info("x", F, (3, 2))], [_info("y", F, (3, 1)), _info("e", F, (3, 3))])


def seeds() -> dict[str, onnx.ModelProto]:
    """All of them, by name."""
    makers = (
        _perceptron, _convolution, _shapes, _loop, _branches, _recurrent, _quantized, _functions, _data_dependent,
        _classic_learning,
    )  # fmt: skip
    return {maker.__name__.removeprefix("_"): maker() for maker in makers}
