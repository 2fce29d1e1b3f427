"""Operators of ai.onnx.ml: features scaled, encoded and chosen, and linear models of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto as T

from bench.fuzz.draft import Draft, Value

ML = "ai.onnx.ml"
_NUMBERS = (T.FLOAT, T.DOUBLE, T.INT64, T.INT32)


def _features(draw: Draft, operator: str) -> Value:
    """A matrix, a row for each sample, of a type that the operator takes."""
    return draw.operand(
        [draw.element(operator, only=_NUMBERS, domain=ML)], rank=2, fits=lambda v: 0 not in v.shape, kind="small"
    )


def _floats(draw: Draft, count: int) -> list[float]:
    return [float(np.float32(draw.rng.uniform(-2, 2))) for _ in range(count)]


def binarizer(draw: Draft, operator: str) -> None:
    """1 above a threshold."""
    draw.emit(operator, [_features(draw, operator)], domain=ML, threshold=draw.choice([None, 0.5, 1.0]))


def scaler(draw: Draft, operator: str) -> None:
    """(x - offset) * scale, for all features or for each."""
    data = _features(draw, operator)
    count = draw.choice([1, data.shape[1]])
    draw.emit(operator, [data], domain=ML, offset=_floats(draw, count), scale=_floats(draw, count))


def normalizer(draw: Draft, operator: str) -> None:
    """Rows by their largest element, sum or length; a row of zeros has none of them."""
    data = _features(draw, operator)
    flat = data.array.astype(np.float64)
    undefined = not np.isfinite(flat).all() or bool((np.abs(flat).sum(1) == 0).any()) or bool((flat < 0).any())
    draw.emit(operator, [data], domain=ML, undefined=undefined, norm=draw.choice(["MAX", "L1", "L2"]))


def imputer(draw: Draft, operator: str) -> None:
    """One number, or NaN, replaced by another."""
    data = draw.operand([draw.choice([T.FLOAT, T.DOUBLE, T.INT64])], rank=2, fits=lambda v: 0 not in v.shape)
    count = draw.choice([1, data.shape[1]])
    if data.element == T.INT64:
        attributes: dict[str, object] = {"imputed_value_int64s": [draw.integer(-3, 3) for _ in range(count)]}
        attributes["replaced_value_int64"] = draw.integer(-2, 3)
    else:
        replaced = draw.choice([float("nan"), 0.5, 1.0])
        attributes = {"imputed_value_floats": _floats(draw, count), "replaced_value_float": replaced}
    draw.emit(operator, [data], domain=ML, **attributes)


def feature_extractor(draw: Draft, operator: str) -> None:
    """Columns picked by number."""
    data = _features(draw, operator)
    where = np.array([draw.integer(0, data.shape[1] - 1) for _ in range(draw.integer(1, 4))], np.int64)
    draw.emit(operator, [data, draw.known(where, 0.5)], domain=ML)


def vectorizer(draw: Draft, operator: str) -> None:
    """Features side by side."""
    first = _features(draw, operator)
    parts = [first]
    for _ in range(draw.integer(0, 2)):
        parts.append(draw.operand([first.element], shape=(first.shape[0], draw.integer(1, 4))))
    draw.emit(operator, parts, domain=ML, inputdimensions=[part.shape[1] for part in parts])


def one_hot_encoder(draw: Draft, operator: str) -> None:
    """A new axis for the categories; what is none of them makes zeros."""
    data = draw.operand([T.INT64], fits=lambda v: 1 <= v.rank <= 2 and 0 not in v.shape)
    draw.emit(operator, [data], domain=ML, cats_int64s=sorted(draw.rng.sample(range(-4, 8), 5)), zeros=1)


def label_encoder(draw: Draft, operator: str) -> None:
    """A table from numbers to numbers."""
    data = draw.operand([T.INT64], fits=lambda v: 0 not in v.shape)
    keys = sorted(draw.rng.sample(range(-4, 8), 5))
    attributes: dict[str, object] = {"keys_int64s": keys}
    if draw.chance(0.5):
        attributes |= {"values_floats": _floats(draw, 5), "default_float": 0.25}
    else:
        attributes |= {"values_int64s": [draw.integer(-9, 9) for _ in keys], "default_int64": -7}
    draw.emit(operator, [data], domain=ML, **attributes)


def regressor(draw: Draft, operator: str) -> None:
    """Sums of weighted features, one for each target."""
    data, targets = _features(draw, operator), draw.integer(1, 3)
    weights = _floats(draw, targets * data.shape[1])
    intercepts = _floats(draw, targets) if draw.chance(0.7) else None
    draw.emit(operator, [data], domain=ML, coefficients=weights, intercepts=intercepts, targets=targets)


def classifier(draw: Draft, operator: str) -> None:
    """The class of the largest score, and the scores."""
    data, classes = _features(draw, operator), draw.integer(3, 5)
    draw.emit(
        operator,
        [data],
        2,
        domain=ML,
        coefficients=_floats(draw, classes * data.shape[1]),
        intercepts=_floats(draw, classes),
        classlabels_ints=list(range(10, 10 + classes)),
        post_transform=draw.choice(["NONE", "SOFTMAX", "LOGISTIC"]),
    )


FAMILY: dict[str, Callable[[Draft, str], None]] = {
    "Binarizer": binarizer, "Scaler": scaler, "Normalizer": normalizer, "Imputer": imputer,
    "ArrayFeatureExtractor": feature_extractor, "FeatureVectorizer": vectorizer, "OneHotEncoder": one_hot_encoder,
    "LabelEncoder": label_encoder, "LinearRegressor": regressor, "LinearClassifier": classifier,
}  # fmt: skip
