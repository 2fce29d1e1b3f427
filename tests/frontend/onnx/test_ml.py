"""Operators of ai.onnx.ml against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.relay.interpreter.interpreter import evaluate

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 3)).astype(np.float32)
ML = "ai.onnx.ml"

TREES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0],
    "nodes_values": [0.1, -0.2, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
    "nodes_missing_value_tracks_true": [0, 1, 0, 0, 0, 1, 0, 0],
}
LEAVES = {"treeids": [0, 0, 0, 1, 1], "nodeids": [2, 3, 4, 1, 2]}


def _leaves(kind: str, ids: list[int], weights: list[float]) -> dict[str, Any]:
    return {f"{kind}_{key}": value for key, value in LEAVES.items()} | {f"{kind}_ids": ids, f"{kind}_weights": weights}


NUMERIC: list[tuple[str, np.ndarray, dict[str, Any]]] = [
    ("Binarizer", X, {"threshold": 0.2}),
    ("Scaler", X, {"offset": [0.1, 0.2, 0.3], "scale": [2.0, 3.0, 4.0]}),
    ("Normalizer", X, {"norm": "MAX"}),
    ("Normalizer", X, {"norm": "L1"}),
    ("Normalizer", X, {"norm": "L2"}),
    (
        "Imputer",
        np.where(X > 0.5, np.nan, X).astype(np.float32),
        {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")},
    ),
    ("LinearRegressor", X, {"coefficients": [float(i) for i in range(6)], "intercepts": [0.5, -0.5], "targets": 2}),
    ("LinearRegressor", X, {"coefficients": [1.0, 2.0, 3.0], "post_transform": "NONE"}),
    (
        "SVMRegressor",
        X,
        {
            "kernel_type": "RBF",
            "kernel_params": [0.3, 0.0, 3.0],
            "n_supports": 2,
            "support_vectors": [0.1, 0.2, 0.3, -0.1, 0.5, 0.2],
            "coefficients": [0.7, -0.4],
            "rho": [0.2],
        },
    ),
    (
        "SVMRegressor",
        X,
        {
            "kernel_type": "POLY",
            "kernel_params": [0.3, 1.0, 2.0],
            "n_supports": 2,
            "support_vectors": [0.1, 0.2, 0.3, -0.1, 0.5, 0.2],
            "coefficients": [0.7, -0.4],
            "rho": [0.2],
        },
    ),
    (
        "SVMRegressor",
        X,
        {
            "kernel_type": "SIGMOID",
            "kernel_params": [0.3, 0.1, 2.0],
            "n_supports": 2,
            "support_vectors": [0.1, 0.2, 0.3, -0.1, 0.5, 0.2],
            "coefficients": [0.7, -0.4],
            "rho": [0.2],
        },
    ),
    (
        "TreeEnsembleRegressor",
        X,
        TREES | _leaves("target", [0, 0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0, 5.0]) | {"n_targets": 2},
    ),
    (
        "TreeEnsembleRegressor",
        X,
        TREES | _leaves("target", [0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]) | {"aggregate_function": "MAX", "n_targets": 1},
    ),
    (
        "TreeEnsembleRegressor",
        X,
        TREES
        | _leaves("target", [0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0])
        | {"aggregate_function": "AVERAGE", "base_values": [0.5], "n_targets": 1},
    ),
    ("OneHotEncoder", np.array([[1, 3], [2, 7]]), {"cats_int64s": [1, 2, 3]}),
]


@pytest.mark.parametrize(
    ("name", "data", "attributes"), NUMERIC, ids=lambda value: value if isinstance(value, str) else ""
)
def test_numbers_to_numbers(check_node: Any, name: str, data: np.ndarray, attributes: dict[str, Any]) -> None:
    check_node(name, [data], opset=15, domain=ML, **attributes)


def test_missing_values_follow_their_branch(check_node: Any) -> None:
    data = X.copy()
    data[::2, 1] = data[1::2, 2] = np.nan
    attributes = TREES | _leaves("target", [0] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]) | {"n_targets": 1}
    check_node("TreeEnsembleRegressor", [data], opset=15, domain=ML, **attributes)


CLASSIFIERS: list[tuple[str, dict[str, Any]]] = [
    (
        "LinearClassifier",
        {
            "coefficients": list(np.linspace(-1, 1, 9)),
            "intercepts": [0.1, 0.2, 0.3],
            "classlabels_ints": [5, 6, 7],
            "post_transform": "SOFTMAX",
        },
    ),
    (
        "LinearClassifier",
        {"coefficients": list(np.linspace(-1, 1, 9)), "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [5, 6, 7]},
    ),
    (
        "LinearClassifier",
        {
            "coefficients": list(np.linspace(-1, 1, 6)),
            "intercepts": [0.1, 0.2],
            "classlabels_ints": [0, 1],
            "post_transform": "LOGISTIC",
        },
    ),
    (
        "TreeEnsembleClassifier",
        TREES | _leaves("class", [0, 1, 2, 1, 0], [1.0, 2.0, 3.0, 4.0, 5.0]) | {"classlabels_int64s": [3, 4, 5]},
    ),
    (
        "TreeEnsembleClassifier",
        TREES
        | _leaves("class", [0, 1, 2, 1, 0], [1.0, 2.0, 3.0, 4.0, 5.0])
        | {"classlabels_int64s": [3, 4, 5], "post_transform": "SOFTMAX"},
    ),
]


VECTORS = np.random.default_rng(4).standard_normal((7, 3)).astype(np.float32)
WEIGHTS = np.random.default_rng(5).standard_normal(14).astype(np.float32)


def support_vectors(per_class: list[int], **more: Any) -> dict[str, Any]:
    """A classifier of pairs: one row of coefficients less than there are classes."""
    pairs = len(per_class) * (len(per_class) - 1) // 2
    return {
        "vectors_per_class": per_class,
        "support_vectors": VECTORS.ravel().tolist(),
        "coefficients": WEIGHTS[: 7 * (len(per_class) - 1)].tolist(),
        "rho": [0.3, -0.2, 0.1][:pairs],
        "kernel_params": [0.3, 0.1, 2.0],
        "classlabels_ints": [4, 5, 6][: len(per_class)],
        **more,
    }


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF", "POLY", "SIGMOID"])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("per_class", [[2, 3, 2], [3, 4]], ids=["three classes", "two classes"])
def test_support_vectors_agree_with_onnxruntime(
    check_node: Any, per_class: list[int], transform: str, kernel: str
) -> None:
    attributes = support_vectors(per_class, kernel_type=kernel, post_transform=transform)
    check_node("SVMClassifier", [X], opset=15, domain=ML, outputs=2, **attributes)


@pytest.mark.parametrize("per_class", [[2, 3, 2], [3, 4]], ids=["three classes", "two classes"])
def test_probabilities_of_pairs(check_node: Any, per_class: list[int]) -> None:
    pairs = len(per_class) * (len(per_class) - 1) // 2
    platt = {"prob_a": [-1.2, 0.4, 0.9][:pairs], "prob_b": [0.1, -0.3, 0.5][:pairs]}
    attributes = support_vectors(per_class, kernel_type="RBF", **platt)
    check_node("SVMClassifier", [X], opset=15, domain=ML, outputs=2, **attributes)


CATEGORIES = {"cats_strings": ["a", "b"], "cats_int64s": [3, 4], "default_int64": 9, "default_string": "zz"}
NAMES = np.array(["a", "b", "q"], object)


def test_texts_and_numbers(make_model: Any, run_reference: Any) -> None:
    from onnx import helper

    from tilewright.frontend.onnx import from_onnx

    for name, data, attributes in (
        ("CategoryMapper", NAMES, CATEGORIES),
        ("CategoryMapper", np.array([3, 4, 7]), CATEGORIES),
        ("OneHotEncoder", NAMES, {"cats_strings": ["a", "b"], "zeros": 1}),
    ):
        model = make_model(
            [helper.make_node(name, ["x"], ["y"], domain=ML, **attributes)], {"x": data}, ["y"], 15, {}, {ML: 1}
        )
        module, _ = from_onnx(model)
        np.testing.assert_array_equal(evaluate(module, [data]), run_reference(model, {"x": data})[0])


@pytest.mark.parametrize(
    ("name", "key", "values", "attributes"),
    [
        ("DictVectorizer", "STRING", {"a": 1.0, "c": 3.0}, {"string_vocabulary": ["a", "b", "c"]}),
        ("DictVectorizer", "INT64", {5: 1.0, 2: 3.0}, {"int64_vocabulary": [2, 3, 5]}),
        ("CastMap", "INT64", {3: 3.0, 0: 1.0}, {"map_form": "DENSE"}),
        ("CastMap", "INT64", {0: 1.0, 3: 3.0}, {"map_form": "SPARSE", "max_map": 6}),
    ],
)
def test_maps_to_rows(name: str, key: str, values: dict[Any, float], attributes: dict[str, Any]) -> None:
    import onnxruntime
    from onnx import TensorProto, helper

    from tilewright.frontend.onnx import from_onnx

    value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    kind = helper.make_map_type_proto(getattr(TensorProto, key), value)
    graph = helper.make_graph(
        [helper.make_node(name, ["x"], ["y"], domain=ML, **attributes)],
        "test",
        [helper.make_value_info("x", kind)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    imports = [helper.make_opsetid("", 15), helper.make_opsetid(ML, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    module, _ = from_onnx(model)
    np.testing.assert_array_equal(evaluate(module, [values]), session.run(None, {"x": values})[0])


@pytest.mark.parametrize(("name", "attributes"), CLASSIFIERS, ids=lambda value: value if isinstance(value, str) else "")
def test_classifiers_agree_with_onnxruntime(check_node: Any, name: str, attributes: dict[str, Any]) -> None:
    check_node(name, [X], opset=15, domain=ML, outputs=2, **attributes)


def test_columns_by_index(check_node: Any) -> None:
    check_node("ArrayFeatureExtractor", [X], [np.array([2, 0])], opset=15, domain=ML)


def test_features_side_by_side(check_node: Any) -> None:
    check_node("FeatureVectorizer", [X, X[:, :2]], opset=15, domain=ML, inputdimensions=[3, 2])


def test_labels_that_are_text(make_model: Any, run_reference: Any) -> None:
    from onnx import helper

    from tilewright.frontend.onnx import from_onnx

    attributes = {
        "coefficients": [1.0, 2, 3, -1, -2, -3],
        "intercepts": [0.1, 0.2],
        "classlabels_strings": ["no", "yes"],
    }
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain=ML, **attributes),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain=ML, classlabels_strings=["no", "yes"]),
    ]
    model = make_model(nodes, {"x": X}, ["label", "maps"], 15, domains={ML: 3})
    module, _ = from_onnx(model)
    label, maps = evaluate(module, [X])
    scores = X @ np.float32([[1, 2, 3], [-1, -2, -3]]).T + np.float32([0.1, 0.2])
    assert label.tolist() == [["no", "yes"][i] for i in scores.argmax(axis=1)]
    np.testing.assert_allclose([[row["no"], row["yes"]] for row in maps], scores, rtol=1e-5)
