"""The classical operators of ai.onnx.ml: linear models, support vectors, trees, scaling and encoding.

Numeric ones become Relay operators. Those whose results are text, maps or sequences, and tree ensembles, run on the
host; the importer brings their tables into one form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders.reductions import p_norm
from tilewright.frontend.idioms import cast, concatenate, constant, slice_axis
from tilewright.frontend.onnx.node import OnnxNode, reshape
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op.onnx_host import host_call

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@converts("ArrayFeatureExtractor", domain=ML)
def convert_array_feature_extractor(node: OnnxNode) -> Expr:
    data = reshape(node, node[0], (1, node.shape()[0])) if node.rank() == 1 else node[0]
    count = int(np.prod(node.shape(1)))
    return op.take(data, reshape(node, node[1], (count,)), axis=node.rank(data) - 1, mode="clip")


@converts("Binarizer", domain=ML)
def convert_binarizer(node: OnnxNode, x: Expr, threshold: float = 0.0) -> Expr:
    return op.cast(x > constant(threshold, node.dtype()), dtype=str(node.dtype()))


@converts("Scaler", domain=ML)
def convert_scaler(node: OnnxNode) -> Expr:
    """(x - offset) * scale, as floats."""
    offset = constant(node.attr("offset") or [0.0], "float32")
    return (cast(node[0], "float32") - offset) * constant(node.attr("scale") or [1.0], "float32")


@converts("Normalizer", domain=ML)
def convert_normalizer(node: OnnxNode) -> Expr:
    """Rows divided by their largest element, sum of magnitudes, or length; what would be divided by zero stays."""
    data = cast(node[0], "float32")
    norm, axis = node.choice("norm", "MAX", ("MAX", "L1", "L2")), (node.rank() - 1,)
    if norm == "MAX":
        size = op.max(data, axis=axis, keepdims=True)
    else:
        size = p_norm(data, axis, 1 if norm == "L1" else 2, True)
    return data / op.where(op.equal(size, 0), 1, size)


@converts("Imputer", domain=ML)
def convert_imputer(node: OnnxNode, x: Expr, replaced_value_float: float = 0.0, replaced_value_int64: int = 0) -> Expr:
    """A value that marks what is missing replaced, one replacement for all columns or one each."""
    if node.dtype().is_float:
        values, marker = node.attr("imputed_value_floats") or [0.0], replaced_value_float
        node.ignore("imputed_value_int64s", "replaced_value_int64")
    else:
        values, marker = node.attr("imputed_value_int64s") or [0], replaced_value_int64
        node.ignore("imputed_value_floats", "replaced_value_float")
    missing = op.isnan(x) if marker != marker else op.equal(x, constant(marker, node.dtype()))
    return op.where(missing, constant(values, node.dtype()), x)


@converts("FeatureVectorizer", domain=ML)
def convert_feature_vectorizer(node: OnnxNode) -> Expr:
    """Inputs cut or padded to their declared widths, side by side, as floats."""
    parts = []
    for index, width in enumerate(node.attr("inputdimensions") or [0] * len(node.inputs)):
        value = cast(node[index], "float32")
        value = reshape(node, value, (node.shape(index)[0], 1)) if node.rank(index) == 1 else value
        extent = node.shape(value)[1]
        wanted = width or extent
        if extent > wanted:
            value = slice_axis(value, 1, 0, wanted)
        elif extent < wanted:
            value = op.nn.pad(value, pad_width=((0, 0), (0, wanted - extent)), pad_value=0.0)
        parts.append(value)
    return concatenate(parts, 1)


@converts("OneHotEncoder", domain=ML)
def convert_one_hot_encoder(node: OnnxNode) -> Expr:
    """1 at the category that an element equals, along a new last axis; an unknown one is all zeros."""
    texts, numbers = node.attr("cats_strings"), node.attr("cats_int64s")
    node.ignore("zeros")
    if texts:
        shape = [*node.shape(), len(texts)]
        return host_call("ml.OneHotEncoder", [node[0]], TensorType(shape, "float32"), categories=tuple(texts))
    wide = op.expand_dims(cast(node[0], "int64"), axis=node.rank(), num_newaxis=1)
    return op.cast(op.equal(wide, constant(numbers or [], "int64")), dtype="float32")


# -------------------------------------------------------------------------------------------------- linear models
@converts("LinearRegressor", domain=ML)
def convert_linear_regressor(node: OnnxNode, x: Expr, targets: int = 1, post_transform: str = "NONE") -> Expr:
    weights = np.array(node.require("coefficients"), np.float32).reshape(targets, -1)
    scores = op.nn.dense(cast(x, "float32"), constant(weights, "float32"), units=targets)
    intercepts = node.attr("intercepts")
    result = scores + constant(intercepts, "float32") if intercepts else scores
    return post_transformed(node, result, post_transform)


@converts("LinearClassifier", domain=ML)
def convert_linear_classifier(node: OnnxNode) -> list[Expr]:
    """Label and scores of the classes: x A' + b, the largest wins; one row of coefficients means two classes."""
    labels = node.attr("classlabels_strings") or node.attr("classlabels_ints") or []
    node.ignore("multi_class", "classlabels_ints")
    count = max(len(node.attr("intercepts") or []), 1)
    weights = np.array(node.require("coefficients"), np.float32).reshape(count, -1)
    data = cast(node[0], "float32")
    data = reshape(node, data, (1, node.shape()[0])) if node.rank() == 1 else data
    scores: Expr = op.nn.dense(data, constant(weights, "float32"), units=count)
    if node.attr("intercepts"):
        scores = scores + constant(node.attr("intercepts"), "float32")
    transform = node.choice("post_transform", "NONE", TRANSFORMS)
    zero = constant(0.0, "float32")
    if count > 1:
        return [_label(node, op.argmax(scores, axis=1), labels), post_transformed(node, scores, transform)]
    if transform == "LOGISTIC":
        positive = op.sigmoid(scores)
        both = _pair(constant(1.0, "float32") - positive, positive)
    else:
        both = post_transformed(node, _pair(-scores, scores), transform)
    chosen = op.cast(reshape(node, scores, (node.shape(scores)[0],)) > zero, dtype="int64")
    return [_label(node, chosen, labels or [0, 1]), both]


def _pair(a: Expr, b: Expr) -> Expr:
    return concatenate([a, b], 1)


def _label(node: OnnxNode, index: Expr, labels: Sequence[Any]) -> Expr:
    """The label of each class index: a number by a table, a text on the host."""
    whole = cast(index, "int64")
    if not labels:
        return whole
    if isinstance(labels[0], str):
        return host_call("ml.Label", [whole], TensorType(node.shape(index), "string"), labels=tuple(labels))
    return op.take(constant(list(labels), "int64"), whole, axis=0, mode="clip")


def post_transformed(node: OnnxNode, scores: Expr, transform: str) -> Expr:
    """Scores as they are, as probabilities, or through the logistic function."""
    if transform == "LOGISTIC":
        return op.sigmoid(scores)
    if transform == "SOFTMAX":
        return op.nn.softmax(scores, axis=-1)
    if transform == "SOFTMAX_ZERO":
        zero = constant(0.0, "float32")
        raised = op.where(op.equal(scores, zero), constant(-np.inf, "float32"), scores)
        return op.nn.softmax(raised, axis=-1)
    if transform != "NONE":
        node.unsupported(f"attribute post_transform={transform!r}; supported: {', '.join(TRANSFORMS[:4])}")
    return scores


# ------------------------------------------------------------------------------------------------ support vectors
def _kernel(node: OnnxNode, data: Expr, vectors: np.ndarray) -> Expr:
    """The kernel function of each row of `data` with each support vector: (rows, vectors)."""
    kind = node.choice("kernel_type", "LINEAR", ("LINEAR", "POLY", "RBF", "SIGMOID"))
    gamma, offset, degree = [float(v) for v in (node.attr("kernel_params") or [0.0, 0.0, 3.0])][:3]
    product = op.nn.dense(data, constant(vectors, "float32"), units=len(vectors))
    if kind == "LINEAR":
        return product
    if kind == "RBF":
        own = op.sum(data * data, axis=(1,), keepdims=True)
        theirs = constant((vectors * vectors).sum(axis=1), "float32")
        distance = own - product * constant(2.0, "float32") + theirs
        return op.exp(distance * constant(-gamma, "float32"))
    affine = product * constant(gamma, "float32") + constant(offset, "float32")
    return op.tanh(affine) if kind == "SIGMOID" else op.power(affine, constant(degree, "float32"))


@converts("SVMRegressor", domain=ML)
def convert_svm_regressor(
    node: OnnxNode, x: Expr, n_supports: int = 0, one_class: int = 0, post_transform: str = "NONE"
) -> Expr:
    """The weighted sum of kernel functions with the support vectors, or a linear function without any."""
    coefficients = np.array(node.require("coefficients"), np.float32)
    rho = float((node.attr("rho") or [0.0])[0])
    data = cast(x, "float32")
    if n_supports:
        vectors = np.array(node.require("support_vectors"), np.float32).reshape(n_supports, -1)
        data = _kernel(node, data, vectors)
    else:
        node.ignore("kernel_type", "kernel_params", "support_vectors")
    total = op.nn.dense(data, constant(coefficients.reshape(1, -1), "float32")) + constant(rho, "float32")
    if one_class:
        total = op.where(total > constant(0.0, "float32"), constant(1.0, "float32"), constant(-1.0, "float32"))
    return post_transformed(node, total, post_transform)


@converts("SVMClassifier", domain=ML)
def convert_svm_classifier(node: OnnxNode) -> list[Expr]:
    """One vote for each pair of classes (or with linear classes one score each); label and scores.

    With Platt's parameters the scores are probabilities. Those of two classes are -s and s, or the logistic functions;
    with another transform 1 - s and s, as onnxruntime has it.
    """
    labels = node.attr("classlabels_strings") or node.attr("classlabels_ints") or []
    node.ignore("classlabels_ints")
    slopes, offsets = node.attr("prob_a") or [], node.attr("prob_b") or []
    per_class = node.attr("vectors_per_class")
    data = cast(node[0], "float32")
    data = reshape(node, data, (1, node.shape()[0])) if node.rank() == 1 else data
    transform = node.choice("post_transform", "NONE", TRANSFORMS)
    if not per_class:
        return _linear_classes(node, data, labels, transform)
    supports, classes = int(np.sum(per_class)), len(per_class)
    vectors = np.array(node.require("support_vectors"), np.float32).reshape(supports, -1)
    weights = _pair_weights(
        np.array(node.require("coefficients"), np.float32).reshape(classes - 1, supports), per_class
    )
    rho = np.array(node.attr("rho") or [0.0] * len(weights), np.float32)
    scores = op.nn.dense(_kernel(node, data, vectors), constant(weights, "float32"), units=len(weights)) + constant(
        rho, "float32"
    )
    label = _label(node, op.argmax(_votes(scores, classes), axis=1), labels)
    if slopes:
        rows = node.shape(scores)[0]
        attrs = {"slopes": tuple(slopes), "offsets": tuple(offsets), "classes": classes}
        chances = host_call("ml.PairProbabilities", [scores], TensorType((rows, classes), "float32"), **attrs)
        return [label, post_transformed(node, chances, transform)]
    if classes > 2:
        return [label, post_transformed(node, scores, transform)]
    if transform in ("NONE", "LOGISTIC"):
        return [label, post_transformed(node, _pair(-scores, scores), transform)]
    return [label, _pair(constant(1.0, "float32") - scores, scores)]


def _linear_classes(node: OnnxNode, data: Expr, labels: Sequence[Any], transform: str) -> list[Expr]:
    node.ignore("kernel_type", "kernel_params", "support_vectors")
    rho = np.array(node.attr("rho") or [0.0], np.float32)
    weights = np.array(node.require("coefficients"), np.float32).reshape(max(len(labels), 1), -1)
    scores = op.nn.dense(data, constant(weights, "float32")) + constant(rho[:1], "float32")
    return [_label(node, op.argmax(scores, axis=1), labels), post_transformed(node, scores, transform)]


def _pair_weights(coefficients: np.ndarray, per_class: Sequence[int]) -> np.ndarray:
    """One row of weights over all support vectors for each pair of classes, in the order (0, 1), (0, 2), …"""
    starts = np.concatenate([[0], np.cumsum(per_class)])
    rows = []
    for i in range(len(per_class)):
        for j in range(i + 1, len(per_class)):
            row = np.zeros(coefficients.shape[1], np.float32)
            row[starts[i] : starts[i + 1]] = coefficients[j - 1, starts[i] : starts[i + 1]]
            row[starts[j] : starts[j + 1]] = coefficients[i, starts[j] : starts[j + 1]]
            rows.append(row)
    return np.array(rows)


def _votes(scores: Expr, classes: int) -> Expr:
    """The number of its pairs that each class wins."""
    wins, losses = [], []
    for i in range(classes):
        for j in range(i + 1, classes):
            wins.append([1.0 if k == i else 0.0 for k in range(classes)])
            losses.append([1.0 if k == j else 0.0 for k in range(classes)])
    first = op.cast(scores > constant(0.0, "float32"), dtype="float32")
    second = constant(1.0, "float32") - first
    won = op.nn.dense(first, constant(np.array(wins).T, "float32"), units=classes)
    return won + op.nn.dense(second, constant(np.array(losses).T, "float32"), units=classes)
