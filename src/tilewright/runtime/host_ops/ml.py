"""Operators of ai.onnx.ml on the host: decision trees, labels, maps (Python dicts)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]

_COMPARE: dict[str, Any] = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


def _leaves(attrs: Attrs, data: Array, root: int) -> Array:
    """The row of the table of nodes that each row of `data` ends in, beginning at `root`."""
    features, thresholds = np.array(attrs["features"]), np.array(attrs["thresholds"], data.dtype)
    yes, no, missing = (np.array(attrs[key]) for key in ("yes", "no", "missing_yes"))
    modes = np.array(attrs["modes"])
    sets = _sets(attrs, modes)
    at = np.full(len(data), root)
    active = np.flatnonzero(modes[at] != "LEAF")
    while active.size:
        nodes = at[active]
        values = data[active, features[nodes]]
        holds = np.zeros(len(active), bool)
        for mode in np.unique(modes[nodes]):
            chosen = modes[nodes] == mode
            if mode == "BRANCH_MEMBER":
                holds[chosen] = [value in sets[node] for value, node in zip(values[chosen], nodes[chosen])]
            else:
                holds[chosen] = _COMPARE[str(mode)](values[chosen], thresholds[nodes[chosen]])
        holds |= np.isnan(values) & (missing[nodes] != 0)
        at[active] = np.where(holds, yes[nodes], no[nodes])
        active = active[modes[at[active]] != "LEAF"]
    return at


def _sets(attrs: Attrs, modes: Array) -> dict[int, set[float]]:
    """The set of each node that tests membership."""
    return {
        int(node): set(entry) for node, entry in zip(np.flatnonzero(modes == "BRANCH_MEMBER"), attrs.get("members", ()))
    }


def _scores(attrs: Attrs, data: Array) -> Array:
    """Leaf weights aggregated over the trees: (rows, targets)."""
    targets, count = int(attrs["targets"]), len(attrs["modes"])
    weights = np.zeros((count, targets), np.float64)
    present = np.zeros((count, targets), bool)
    np.add.at(weights, (attrs["leaf_rows"], attrs["leaf_targets"]), attrs["leaf_weights"])
    present[attrs["leaf_rows"], attrs["leaf_targets"]] = True
    found = np.stack([_leaves(attrs, data, root) for root in attrs["roots"]])
    how = attrs.get("aggregate", "SUM")
    if how in ("MIN", "MAX"):
        neutral = np.inf if how == "MIN" else -np.inf
        masked = np.where(present[found], weights[found], neutral)
        total = masked.min(axis=0) if how == "MIN" else masked.max(axis=0)
        total = np.where(np.isfinite(total), total, 0)
    else:
        total = weights[found].sum(axis=0) / (len(attrs["roots"]) if how == "AVERAGE" else 1)
    base = np.array(attrs["base"], np.float64)
    return total + base if base.size == targets else total


def _transformed(scores: Array, how: str) -> Array:
    if how == "LOGISTIC":
        return 1 / (1 + np.exp(-scores))
    if how in ("SOFTMAX", "SOFTMAX_ZERO"):
        raised = np.where((scores == 0) & (how == "SOFTMAX_ZERO"), -np.inf, scores)
        powers = np.exp(raised - raised.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    if how != "NONE":
        raise InputError(f"post_transform {how} is not supported for trees; supported: NONE, LOGISTIC, SOFTMAX")
    return scores


@onnx_op("ml.TreeEnsemble")
def tree_ensemble(attrs: Attrs, data: Array) -> Array:
    """The aggregated leaves of an ensemble, (rows, targets)."""
    return _transformed(_scores(attrs, data), attrs["post_transform"]).astype(data.dtype)


@onnx_op("ml.TreeEnsembleClassifier")
def tree_ensemble_classifier(attrs: Attrs, data: Array) -> tuple[Array, Array]:
    """The label of the largest sum and all sums; weights for one class only score it against the other of two."""
    scores = _scores(attrs, data)
    used = sorted(set(attrs["leaf_targets"]))
    if len(attrs["labels"]) <= 2 and len(used) == 1:
        positive = scores[:, used[0]]
        bounded = attrs["post_transform"] == "NONE" and min(attrs["leaf_weights"], default=0) >= 0
        chosen = positive > (0.5 if bounded else 0.0)
        other = 1 - positive if bounded or attrs["post_transform"] == "NONE" else -positive
        index = chosen.astype(np.int64) if len(attrs["labels"]) == 2 else np.zeros(len(data), np.int64)
        scores = np.stack([other, positive], axis=1)
    else:
        index = scores.argmax(axis=1)
    return _named(attrs["labels"], index), _transformed(scores, attrs["post_transform"]).astype(np.float32)


def _named(labels: list[Any], index: Array) -> Array:
    table = np.array(labels, object if isinstance(labels[0], str) else np.int64)
    return table[index]


@onnx_op("ml.Label")
def label(attrs: Attrs, index: Array) -> Array:
    """The text of each class index."""
    return _named(attrs["labels"], index)


@onnx_op("ml.PairProbabilities")
def pair_probabilities(attrs: Attrs, scores: Array) -> Array:
    """Probabilities of the classes [rows, classes] from the scores of their pairs (0, 1), (0, 2), …

    Each score becomes the chance of the first of the pair by Platt's sigmoid; the classes' probabilities agree best
    with those (Wu, Lin and Weng, JMLR 5, 2004, algorithm 2, as in LIBSVM, to its tolerance of 0.005 / classes).
    """
    count = attrs["classes"]
    slopes, offsets = (np.array(attrs[name], np.float32) for name in ("slopes", "offsets"))
    chances = np.clip(1 / (1 + np.exp(scores * slopes + offsets)), 1e-7, 1 - 1e-7)
    first, second = np.triu_indices(count, 1)
    result = np.empty((len(scores), count), np.float32)
    for row, chance in enumerate(chances):
        won = np.zeros((count, count))
        won[first, second], won[second, first] = chance, 1 - chance
        result[row] = _coupled(won)
    return result


def _coupled(won: Array) -> Array:
    """The probabilities of classes of which class i beats class j with the probability won[i, j]."""
    count = len(won)
    terms = -won * won.T
    np.fill_diagonal(terms, (won**2).sum(0))
    found = np.full(count, 1 / count)
    for _ in range(max(100, count)):
        slope = terms @ found
        total = found @ slope
        if np.abs(slope - total).max() < 0.005 / count:
            break
        for k in range(count):
            step = (total - slope[k]) / terms[k, k]
            found[k] += step
            total = (total + step * (step * terms[k, k] + 2 * slope[k])) / (1 + step) ** 2
            slope = (slope + step * terms[k]) / (1 + step)
            found /= 1 + step
    return found


@onnx_op("ml.OneHotEncoder")
def one_hot_encoder(attrs: Attrs, data: Array) -> Array:
    """1 at the category that a text equals, along a new last axis."""
    return (data[..., None] == np.array(attrs["categories"], object)).astype(np.float32)


@onnx_op("ml.ZipMap")
def zip_map(attrs: Attrs, scores: Array) -> list[dict[Any, Any]]:
    """Each row as a map from label to score."""
    rows = scores.reshape(1, -1) if scores.ndim == 1 else scores
    return [dict(zip(attrs["labels"], row.tolist())) for row in rows]


@onnx_op("ml.DictVectorizer")
def dict_vectorizer(attrs: Attrs, values: dict[Any, Any]) -> Array:
    """The values of a map in the order of a vocabulary; zero, or an empty text, for what is missing."""
    dtype = DType(attrs["result_dtype"])
    empty: Any = "" if dtype.is_string else 0
    return np.array([[values.get(word, empty) for word in attrs["vocabulary"]]], dtype.numpy)


@onnx_op("ml.CastMap")
def cast_map(attrs: Attrs, values: dict[int, Any]) -> Array:
    """The values of a map by rising key as a row; with a width, each at the position that its key names."""
    dtype = DType(attrs["result_dtype"])
    convert: Any = str if dtype.is_string else float if dtype.is_float else int
    if not attrs["width"]:
        return np.array([[convert(values[key]) for key in sorted(values)]], dtype.numpy)
    row = [convert(0) if not dtype.is_string else ""] * int(attrs["width"])
    for key, value in values.items():
        if 0 <= key < len(row):
            row[key] = convert(value)
    return np.array([row], dtype.numpy)


@onnx_op("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(attrs: Attrs, data: Array, indices: Array) -> Array:
    """Columns of the last axis by index; of a vector as one row."""
    rows = data.reshape(1, -1) if data.ndim == 1 else data
    return np.asarray(rows[..., np.clip(indices.reshape(-1), 0, max(rows.shape[-1] - 1, 0))])


@onnx_op("ai.onnx.ml.FeatureVectorizer")
def feature_vectorizer(attrs: Attrs, *values: Array) -> Array:
    """Inputs cut or padded to their declared widths, side by side, as floats."""
    parts = []
    for value, width in zip(values, attrs.get("inputdimensions") or [0] * len(values), strict=True):
        rows = (value.reshape(-1, 1) if value.ndim == 1 else value).astype(np.float32)
        wanted = width or rows.shape[1]
        parts.append(np.pad(rows[:, :wanted], ((0, 0), (0, max(wanted - rows.shape[1], 0)))))
    return np.concatenate(parts, axis=1)
