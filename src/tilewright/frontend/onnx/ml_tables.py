"""Operators of ai.onnx.ml that look things up: label encoders, maps, and ensembles of decision trees.

They run on the host; the importer brings their tables into one form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import cast
from tilewright.frontend.onnx.ml import ML
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.onnx_host import host_call, map_of, parts_of, sequence_of
from tilewright.support.dtype import DType

# ---------------------------------------------------------------------------------------------- tables on the host
_KEYED = {"strings": "string", "int64s": "int64", "floats": "float32"}


@converts("LabelEncoder", domain=ML)
def convert_label_encoder_1(node: OnnxNode, default_string: str = "_Unused", default_int64: int = -1) -> Expr:
    """Texts to their positions in a list, or back (version 1)."""
    classes = node.require("classes_strings")
    defaults = default_string, default_int64
    numbers = list(range(len(classes)))
    if node.dtype().is_string:
        return _encoded(node, classes, numbers, defaults[1], "int64")
    return _encoded(node, numbers, classes, defaults[0], "string")


@converts("LabelEncoder", since=2, domain=ML)
def convert_label_encoder(node: OnnxNode) -> Expr:
    keys, _ = _column(node, "keys")
    values, dtype = _column(node, "values")
    fallback = {"string": "_Unused", "int64": -1, "float32": -0.0}
    names = {"string": "default_string", "int64": "default_int64", "float32": "default_float"}
    given = node.attr("default_tensor")
    default: Any = given.reshape(-1)[0] if given is not None else fallback.get(dtype, 0)
    if given is None and dtype in names:
        default = node.attr(names[dtype], default)
    node.ignore(*names.values())
    return _encoded(node, keys, values, default.item() if isinstance(default, np.generic) else default, dtype)


def _column(node: OnnxNode, stem: str) -> tuple[list[Any], str]:
    """The keys or values of a table and their dtype, from whichever attribute holds them."""
    tensor = node.attr(f"{stem}_tensor")
    if tensor is not None:
        return tensor.reshape(-1).tolist(), str(DType(tensor.dtype))
    for suffix, dtype in _KEYED.items():
        found = node.attr(f"{stem}_{suffix}")
        if found is not None:
            return found, dtype
    raise ModelError(f"{node.label} has no {stem}")


def _encoded(node: OnnxNode, keys: Sequence[Any], values: Sequence[Any], default: Any, dtype: str) -> Expr:
    if len(keys) != len(values):
        raise ModelError(f"{node.label} has {len(keys)} keys and {len(values)} values")
    result = TensorType(node.shape(), dtype)
    return host_call(
        "LabelEncoder", [node[0]], result, keys=tuple(keys), values=tuple(values), default=default, result_dtype=dtype
    )


@converts("CategoryMapper", domain=ML)
def convert_category_mapper(node: OnnxNode, default_string: str = "_Unused", default_int64: int = -1) -> Expr:
    texts, numbers = node.require("cats_strings"), node.require("cats_int64s")
    if node.dtype().is_string:
        return _encoded(node, texts, numbers, default_int64, "int64")
    return _encoded(node, numbers, texts, default_string, "string")


@converts("ZipMap", domain=ML)
def convert_zip_map(node: OnnxNode) -> Expr:
    labels = node.attr("classlabels_strings") or node.attr("classlabels_int64s") or []
    key = "string" if labels and isinstance(labels[0], str) else "int64"
    node.ignore("classlabels_int64s")
    result = sequence_of(map_of(TensorType((), key), TensorType((), "float32")))
    return host_call("ml.ZipMap", [node[0]], result, labels=tuple(labels))


@converts("DictVectorizer", domain=ML)
def convert_dict_vectorizer(node: OnnxNode) -> Expr:
    words = node.attr("string_vocabulary") or node.attr("int64_vocabulary") or []
    node.ignore("int64_vocabulary")
    kind, parts = parts_of(type_of(node[0]))
    value: Type = parts[1] if kind == "Map" else TensorType((), "float32")
    assert isinstance(value, TensorType)
    result = TensorType((1, len(words)), value.dtype)
    return host_call("ml.DictVectorizer", [node[0]], result, vocabulary=tuple(words), result_dtype=str(value.dtype))


@converts("CastMap", domain=ML)
def convert_cast_map(node: OnnxNode, x: Expr, cast_to: str = "TO_FLOAT", max_map: int = 1) -> Expr:
    target = {"TO_FLOAT": "float32", "TO_INT64": "int64", "TO_STRING": "string"}[cast_to]
    sparse = node.choice("map_form", "DENSE", ("DENSE", "SPARSE")) == "SPARSE"
    result = TensorType((1, max_map if sparse else AnyDim()), target)
    return host_call("ml.CastMap", [x], result, width=max_map if sparse else 0, result_dtype=target)


# -------------------------------------------------------------------------------------------------------- trees
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")


@converts("TreeEnsembleRegressor", domain=ML)
def convert_tree_regressor(node: OnnxNode, x: Expr, n_targets: int = 1, post_transform: str = "NONE") -> Expr:
    """The sum, mean, least or largest of the leaves that a row falls to, for each target."""
    forest = _forest(node, "target", n_targets)
    data = cast(x, "float32")
    forest["aggregate"] = node.choice("aggregate_function", "SUM", ("SUM", "AVERAGE", "MIN", "MAX"))
    forest["post_transform"] = post_transform
    return host_call("ml.TreeEnsemble", [data], TensorType((node.shape()[0], n_targets), "float32"), **forest)


@converts("TreeEnsembleClassifier", domain=ML)
def convert_tree_classifier(node: OnnxNode, x: Expr, post_transform: str = "NONE") -> list[Expr]:
    """Label and scores of the classes: the sum of the leaves' weights for each class."""
    labels = node.attr("classlabels_strings") or node.attr("classlabels_int64s") or []
    node.ignore("classlabels_int64s")
    forest = _forest(node, "class", len(labels))
    forest["post_transform"] = post_transform
    dtype = "string" if isinstance(labels[0], str) else "int64"
    rows = node.shape()[0]
    result = TupleType([TensorType((rows,), dtype), TensorType((rows, max(len(labels), 2)), "float32")])
    call = host_call("ml.TreeEnsembleClassifier", [cast(x, "float32")], result, labels=tuple(labels), **forest)
    return [call[0], call[1]]


def _forest(node: OnnxNode, leaf: str, targets: int) -> dict[str, Any]:
    """The trees of the older operators as one table of nodes, children by row, and one of leaf weights."""
    trees, numbers = node.require("nodes_treeids"), node.require("nodes_nodeids")
    row = {key: i for i, key in enumerate(zip(trees, numbers))}
    modes = node.require("nodes_modes")
    node.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    children = {
        side: [row.get((tree, child), -1) if mode != "LEAF" else -1 for tree, child, mode in zip(trees, found, modes)]
        for side, found in (("yes", node.require("nodes_truenodeids")), ("no", node.require("nodes_falsenodeids")))
    }
    owners = zip(node.require(f"{leaf}_treeids"), node.require(f"{leaf}_nodeids"))
    return {
        "roots": tuple(_roots(trees, children)),
        "features": tuple(node.require("nodes_featureids")),
        "thresholds": tuple(_numbers(node, "nodes_values")),
        "modes": tuple(modes),
        "yes": tuple(children["yes"]),
        "no": tuple(children["no"]),
        "missing_yes": tuple(node.attr("nodes_missing_value_tracks_true") or [0] * len(trees)),
        "leaf_rows": tuple(row[key] for key in owners),
        "leaf_targets": tuple(node.require(f"{leaf}_ids")),
        "leaf_weights": tuple(_numbers(node, f"{leaf}_weights")),
        "base": tuple(_numbers(node, "base_values")),
        "targets": targets,
    }


def _numbers(node: OnnxNode, name: str) -> list[float]:
    """An attribute of floats, or the tensor that newer versions have instead."""
    tensor = node.attr(f"{name}_as_tensor")
    return tensor.reshape(-1).tolist() if tensor is not None else list(node.attr(name) or [])


def _roots(trees: Sequence[int], children: dict[str, list[int]]) -> list[int]:
    """The first row of each tree that is no child."""
    inner = {child for side in children.values() for child in side}
    roots: dict[int, int] = {}
    for number, tree in enumerate(trees):
        if number not in inner:
            roots.setdefault(tree, number)
    return list(roots.values())


@converts("TreeEnsemble", since=5, domain=ML)
def convert_tree_ensemble(
    node: OnnxNode, x: Expr, n_targets: int = 1, aggregate_function: int = 1, post_transform: int = 0
) -> Expr:
    """The operator of version 5: inner nodes and leaves in tables of their own."""
    thresholds = np.asarray(node.require("nodes_splits")).reshape(-1)
    modes = [_MODES[int(mode)] for mode in np.asarray(node.require("nodes_modes")).reshape(-1)]
    inner = len(modes)
    node.ignore("nodes_hitrates")

    def rows(side: str) -> list[int]:
        leaves = node.require(f"nodes_{side}leafs")
        return [inner + child if leaf else child for child, leaf in zip(node.require(f"nodes_{side}nodeids"), leaves)]

    weights = np.asarray(node.require("leaf_weights")).reshape(-1).tolist()
    owners = node.require("leaf_targetids")
    leaves = len(weights)
    aggregate = ("AVERAGE", "SUM", "MIN", "MAX")[aggregate_function]
    transforms = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    forest = {
        "roots": tuple(node.require("tree_roots")), "features": (*node.require("nodes_featureids"), *[0] * leaves),
        "thresholds": (*thresholds.tolist(), *[0.0] * leaves), "modes": (*modes, *["LEAF"] * leaves),
        "yes": (*rows("true"), *[-1] * leaves), "no": (*rows("false"), *[-1] * leaves),
        "missing_yes": (*(node.attr("nodes_missing_value_tracks_true") or [0] * inner), *[0] * leaves),
        "leaf_rows": tuple(range(inner, inner + leaves)), "leaf_targets": tuple(owners),
        "leaf_weights": tuple(weights), "base": (), "targets": n_targets, "members": _members(node, modes),
        "aggregate": aggregate, "post_transform": transforms[post_transform],
    }  # fmt: skip
    return host_call("ml.TreeEnsemble", [x], TensorType((node.shape()[0], n_targets), node.dtype()), **forest)


def _members(node: OnnxNode, modes: Sequence[str]) -> tuple[tuple[float, ...], ...]:
    """The sets that the nodes which test membership look into, in their order; NaN separates them."""
    values = node.attr("membership_values")
    if values is None or "BRANCH_MEMBER" not in modes:
        return ()
    sets: list[list[float]] = [[]]
    for value in np.asarray(values).reshape(-1).tolist():
        if value != value:
            sets.append([])
        else:
            sets[-1].append(value)
    return tuple(tuple(entry) for entry in sets)
