"""ONNX operators on text: tensors of Python strings (`object` arrays)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op
from tilewright.runtime.host_ops.regex import compiled_regex
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def _texts(values: Any, shape: tuple[int, ...]) -> Array:
    result = np.empty(shape, object)
    result[...] = np.asarray(list(values), object).reshape(shape) if result.size else result
    return result


@onnx_op("StringConcat")
def concat(attrs: Attrs, a: Array, b: Array) -> Array:
    """Texts joined pairwise, broadcast."""
    a, b = np.broadcast_arrays(a, b)
    return _texts([str(x) + str(y) for x, y in zip(a.reshape(-1), b.reshape(-1))], a.shape)


@onnx_op("StringSplit")
def split(attrs: Attrs, texts: Array) -> tuple[Array, Array]:
    """The parts of each text along a new last axis, filled up with empty texts, and how many there are of each."""
    delimiter = attrs.get("delimiter") or None
    most = attrs.get("maxsplit")
    parts = [str(text).split(delimiter, -1 if most is None else int(most)) for text in texts.reshape(-1)]
    longest = max(map(len, parts), default=0)
    padded = [part + [""] * (longest - len(part)) for part in parts]
    counts = np.array([len(part) for part in parts], np.int64).reshape(texts.shape)
    return _texts([text for part in padded for text in part], (*texts.shape, longest)), counts


@onnx_op("StringNormalizer")
def normalize(attrs: Attrs, texts: Array) -> Array:
    """Stop words removed from one row of texts, then upper or lower case; all removed leave one empty text."""
    sensitive = bool(attrs.get("is_case_sensitive", 0))
    stops = {word if sensitive else word.lower() for word in attrs.get("stopwords") or ()}
    if (texts.ndim == 2 and texts.shape[0] != 1) or texts.ndim > 2:
        raise InputError(f"texts of shape [n] or [1, n] are needed, not {list(texts.shape)}")
    kept = [text for text in texts.reshape(-1) if (text if sensitive else text.lower()) not in stops]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(attrs.get("case_change_action", "NONE"), str)
    result = [change(text) for text in kept] or [""]
    return _texts(result, (len(result),) if texts.ndim == 1 else (1, len(result)))


@onnx_op("RegexFullMatch")
def full_match(attrs: Attrs, texts: Array) -> Array:
    """True where the whole text matches the pattern, in time linear in the text."""
    pattern = compiled_regex(attrs.get("pattern", ""))
    return np.array([pattern.full_match(str(text)) for text in texts.reshape(-1)], bool).reshape(texts.shape)


@onnx_op("Equal")
def equal(attrs: Attrs, a: Array, b: Array) -> Array:
    """True where two texts are the same, broadcast."""
    return np.asarray(np.equal(a, b), bool)


@onnx_op("Cast", "CastLike")
def cast(attrs: Attrs, data: Array, _like: Array | None = None) -> Array:
    """Numbers to text in their shortest form, or text to numbers."""
    target = attrs["result_dtype"]
    if target == "string":
        return _texts([_spelled(value) for value in data.reshape(-1)], data.shape)
    if data.dtype != object:
        return data.astype(DType(target).numpy)
    try:
        parse = int if DType(target).is_int else float
        values: list[Any] = [parse(str(text)) for text in data.reshape(-1)]
    except ValueError as error:
        raise InputError(f"a text is not a number: {error}") from None
    return np.array(values).astype(DType(target).numpy).reshape(data.shape)


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else str(np.asarray(value)[()])


@onnx_op("LabelEncoder")
def label_encoder(attrs: Attrs, keys: Array) -> Array:
    """Each key's value by the table of the attributes; a default for what the table lacks."""
    table = dict(zip(map(_key, attrs["keys"]), attrs["values"]))
    default = attrs["default"]
    found = [table.get(_key(key), default) for key in keys.reshape(-1).tolist()]
    if attrs["result_dtype"] == "string":
        return _texts(found, keys.shape)
    return np.array(found).astype(DType(attrs["result_dtype"]).numpy).reshape(keys.shape)


def _key(key: Any) -> Any:
    """NaN as one key that equals itself."""
    return "NaN key" if isinstance(key, float) and key != key else key


@onnx_op("TfIdfVectorizer")
def tf_idf(attrs: Attrs, data: Array) -> Array:
    """Counts of the n-grams of a pool in each row, as they are, as 0 or 1, or weighted.

    An n-gram of n elements may leave out up to `max_skip_count` between two of them, the same number everywhere.
    """
    width = max(attrs["ngram_indexes"]) + 1
    grams = _pool(attrs)
    rows = data.reshape(1, -1) if data.ndim <= 1 else data
    result = np.zeros((rows.shape[0], width), np.float32)
    for row, items in enumerate(rows.tolist()):
        for gram in _grams(attrs, items):
            if gram in grams:
                result[row, attrs["ngram_indexes"][grams[gram]]] += 1
    weights = np.ones(width, np.float32)
    for position, index in enumerate(attrs["ngram_indexes"]):
        weights[index] = (attrs.get("weights") or [1.0] * len(attrs["ngram_indexes"]))[position]
    mode = attrs["mode"]
    if mode != "TF":
        result = (result > 0).astype(np.float32) if mode == "IDF" else result
        result = result * weights
    return result.reshape(width) if data.ndim <= 1 else result


def _pool(attrs: Attrs) -> dict[tuple[Any, ...], int]:
    """The n-grams of the pool, each with its number."""
    pool = attrs.get("pool_strings") or attrs.get("pool_int64s") or []
    starts = [*attrs["ngram_counts"], len(pool)]
    grams: dict[tuple[Any, ...], int] = {}
    for size, (begin, end) in enumerate(pairwise(starts), start=1):
        for position in range(begin, end, size):
            grams[tuple(pool[position : position + size])] = len(grams)
    return grams


def _grams(attrs: Attrs, items: list[Any]) -> list[tuple[Any, ...]]:
    """All n-grams of `items`; those of one element once, whatever may be skipped."""
    found: list[tuple[Any, ...]] = []
    for size in range(int(attrs["min_gram_length"]), int(attrs["max_gram_length"]) + 1):
        for skip in range(1, 2 if size == 1 else int(attrs["max_skip_count"]) + 2):
            reach = skip * (size - 1)
            found += [tuple(items[begin : begin + reach + 1 : skip]) for begin in range(len(items) - reach)]
    return found
