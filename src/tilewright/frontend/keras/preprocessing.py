"""Preprocessing of numbers: normalization, bins, categories, tables of integers, and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders.elements import looked_up
from tilewright.frontend.idioms import cast, constant, dtype_of, is_float, one_hot, rank_of, reshape, shape_of
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.op import text


@converts("Normalization", passes_mask=True)
def convert_normalization(layer: Layer, inputs: Expr) -> Expr:
    value = cast(inputs, layer.compute_dtype)
    given = layer.get("axis", -1)
    axes = [] if given is None else given if isinstance(given, list | tuple) else [given]
    kept = sorted(int(axis) % rank_of(value) for axis in axes)
    if layer.get("mean") is not None:
        mean, variance = (np.asarray(layer[key], "float64") for key in ("mean", "variance"))
    else:
        mean, variance, _ = layer.array("mean", "variance", "count")
    shape = [1] * rank_of(value)
    if mean.ndim:
        for extent, axis in zip(mean.shape[::-1], kept[::-1]):
            shape[axis] = extent
    mean, variance = (part.reshape(shape if part.ndim else ()) for part in (mean, variance))
    deviation = np.maximum(np.sqrt(variance), 1e-7)
    middle, width = constant(mean, layer.compute_dtype), constant(deviation, layer.compute_dtype)
    return middle + value * width if layer.get("invert") else (value - middle) / width


@converts("Discretization")
def convert_discretization(layer: Layer, inputs: Expr) -> Expr:
    bounds = layer.get("bin_boundaries")
    if bounds is None:
        layer.bad("it has no bin_boundaries; call adapt before the model is saved")
    edges = np.asarray(bounds, "float64")
    whole = cast(inputs, "float32") if not is_float(dtype_of(inputs)) else inputs
    positions = op.searchsorted(constant(edges, dtype_of(whole)), whole, right=True)
    return encoded(layer, positions, len(edges) + 1, str(layer.get("output_mode", "int")))


@converts("CategoryEncoding")
def convert_category_encoding(layer: Layer, inputs: Expr, count_weights: Any = None) -> Expr:
    return encoded(layer, inputs, int(layer["num_tokens"]), str(layer.get("output_mode", "multi_hot")), count_weights)


def encoded(layer: Layer, positions: Expr, depth: int, mode: str, weights: Any = None) -> Expr:
    """Categories as they are, or as vectors with a position for each: one hot, all that occur, or how often they do."""
    if layer.get("sparse"):
        layer.unsupported("a sparse result; make the layer with sparse=False")
    if mode == "int":
        return cast(positions, "int32" if layer.class_name == "Discretization" else "int64")
    codes = positions if dtype_of(positions) in ("int32", "int64") else cast(positions, "int32")
    if not rank_of(codes):
        codes = op.expand_dims(codes, axis=0)
    dtype = layer.compute_dtype
    shape = shape_of(codes)
    if mode == "one_hot":
        if len(shape) > 1 and isinstance(shape[-1], int) and shape[-1] == 1:
            codes = reshape(codes, shape[:-1])
        return one_hot(codes, depth, dtype)
    if mode not in ("multi_hot", "count"):
        layer.unsupported(f"output_mode {mode!r}")
    hot = one_hot(codes, depth, dtype)
    axis = 1 if rank_of(codes) > 1 else 0
    if mode == "multi_hot":
        return op.max(hot, axis=(axis,))
    if isinstance(weights, Expr):
        hot = hot * op.expand_dims(cast(weights, dtype), axis=rank_of(weights))
    return op.sum(hot, axis=(axis,))


@converts("IntegerLookup")
def convert_integer_lookup(layer: Layer, inputs: Expr) -> Expr:
    """The position of each number in a vocabulary."""
    words = np.asarray([int(word) for word in _vocabulary(layer)], np.int64)
    unknown = int(layer.get("num_oov_indices", 1))
    mask_token, mode = layer.get("mask_token"), str(layer.get("output_mode", "int"))
    first = (1 if mask_token is not None and mode == "int" else 0) + unknown
    if layer.get("invert"):
        return _words_at(layer, inputs, words, mask_token)
    if mode == "tf_idf":
        layer.unsupported("output_mode 'tf_idf'")
    codes = cast(inputs, "int64")
    default = constant(first - 1 if unknown == 1 else -1, "int64")
    positions = looked_up(codes, words, np.arange(first, first + len(words)), default)
    if unknown > 1:
        positions = op.where(positions < 0, _bins(layer, codes, first - unknown, unknown), positions)
    depth = int(layer["max_tokens"]) if mode != "int" and layer.get("pad_to_max_tokens") else len(words) + first
    if mask_token is not None:  # counted nowhere
        masked = constant(0 if mode == "int" else depth, "int64")
        positions = op.where(op.equal(codes, constant(int(mask_token), "int64")), masked, positions)
    return cast(encoded(layer, positions, depth, mode), "int64")


def _bins(layer: Layer, codes: Expr, first: int, count: int) -> Expr:
    """The positions of unknown numbers, of which there are several."""
    if layer.get("oov_method", "floormod") == "farmhash":
        chosen: Expr = text.text_hash(codes, count, layer.get("salt"))
    else:
        chosen = op.floor_mod(codes, count)
    return chosen + first


def _stored(layer: Layer, key: str) -> Any:
    """An entry of the configuration, which Keras may have stored as an object that holds it."""
    given = layer.get(key)
    return (given.get("config") or {}).get("value") if isinstance(given, dict) else given


def _vocabulary(layer: Layer) -> list[Any]:
    listed = _stored(layer, "vocabulary") or layer.importer.asset_lines(layer, "vocabulary.txt")
    if not isinstance(listed, list) or not listed:
        layer.bad("it has no vocabulary in the file; pass it to the layer, or call adapt before the model is saved")
    return listed


def _words_at(layer: Layer, inputs: Expr, words: np.ndarray, mask_token: Any) -> Expr:
    unknown = int(layer.get("oov_token", -1))
    lead = ([int(mask_token)] if mask_token is not None else []) + [unknown] * int(layer.get("num_oov_indices", 1))
    table = np.concatenate([np.asarray(lead, np.int64), words])
    codes = cast(inputs, "int64")
    known = op.logical_and(codes >= 0, codes < constant(len(table), "int64"))
    return op.where(known, op.take(Constant(table), codes, axis=0), constant(unknown, "int64"))


# ----------------------------------------------------------------------------------------------------------------- Text
@converts("Hashing")
def convert_hashing(layer: Layer, inputs: Expr) -> Expr:
    bins, mask, salt = int(layer["num_bins"]), layer.get("mask_value"), layer.get("salt")
    masked = mask is not None and bins > 1
    values = cast(inputs, "int64") if is_float(dtype_of(inputs)) else inputs
    positions: Expr = text.text_hash(values, bins - masked, [salt, salt] if isinstance(salt, int) else salt)
    if masked:
        positions = op.where(_equal(inputs, mask), constant(0, "int64"), positions + 1)
    return _binned(layer, positions, bins)


def _binned(layer: Layer, positions: Expr, bins: int) -> Expr:
    """Positions as a layer that hashes returns them."""
    mode = str(layer.get("output_mode", "int"))
    return cast(positions, layer.compute_dtype) if mode == "int" else encoded(layer, positions, bins, mode)


def _equal(values: Expr, wanted: Any) -> Expr:
    """True where an element, text or number, is `wanted`."""
    if dtype_of(values) != "string":
        return op.equal(values, constant(wanted, dtype_of(values)))
    return op.equal(text.look_up(values, [str(wanted)], [1], 0), constant(1, "int64"))


@converts("HashedCrossing")
def convert_hashed_crossing(layer: Layer, inputs: Sequence[Expr]) -> Expr:
    columns, bins = [one if dtype_of(one) == "string" else cast(one, "int64") for one in inputs], int(layer["num_bins"])
    return _binned(layer, text.text_cross(columns, bins), bins)


@converts("StringLookup")
def convert_string_lookup(layer: Layer, inputs: Expr) -> Expr:
    mask, unknown = layer.get("mask_token"), int(layer.get("num_oov_indices", 1))
    mode = _mode(layer)
    lead = 1 if mask is not None and mode == "int" else 0
    words = _words(layer, [mask] * lead + [layer.get("oov_token", "[UNK]")] * unknown)
    if layer.get("invert"):
        positions = range(lead + unknown, lead + unknown + len(words))
        keys, found = [*([0] * lead), *positions], [*([mask] * lead), *words]
        return text.look_up(cast(inputs, "int64"), keys, found, layer.get("oov_token", "[UNK]"), "string")
    return _looked_up(layer, inputs, words, mask, unknown, mode)


def _mode(layer: Layer) -> str:
    mode = str(layer.get("output_mode", "int"))
    return {"binary": "multi_hot", "tf-idf": "tf_idf"}.get(mode, mode)


def _words(layer: Layer, lead: list[Any]) -> list[str]:
    """The vocabulary without the tokens that stand for what is masked or unknown."""
    words = [str(word) for word in _vocabulary(layer)]
    return words[len(lead) :] if words[: len(lead)] == lead else words


def _looked_up(layer: Layer, inputs: Expr, words: list[str], mask: str | None, unknown: int, mode: str) -> Expr:
    """The position of each text in the vocabulary, behind those of the mask and of unknown texts."""
    lead = 1 if mask is not None and mode == "int" else 0
    first = lead + unknown
    keys, positions = list(words), list(range(first, first + len(words)))
    depth = int(layer["max_tokens"]) if layer.get("pad_to_max_tokens") else len(words) + first
    if mask is not None:  # counted nowhere
        keys.append(mask)
        positions.append(0 if mode == "int" else depth)
    default = None if not unknown else lead if unknown == 1 else -1
    found: Expr = text.look_up(inputs, keys, positions, default)
    if unknown > 1:
        chosen = text.text_hash(inputs, unknown, layer.get("salt")) + lead
        found = op.where(op.equal(found, constant(-1, "int64")), chosen, found)
    if mode == "int":
        return found
    if mode != "tf_idf":
        return cast(encoded(layer, found, depth, mode), "int64")
    return cast(encoded(layer, found, depth, "count"), "float32") * _weights(layer, words, first, depth)


def _weights(layer: Layer, words: list[str], first: int, depth: int) -> Expr:
    """The multipliers of counts of words: those of the special tokens, which have none, are their mean."""
    given = _stored(layer, "idf_weights")
    if given is None:
        (weights,) = layer.array("idf_weights")
    else:
        weights = np.asarray(given, "float64")
        if len(weights) == len(words):
            weights = np.concatenate([np.full(first, weights.mean()), weights])
    if weights.ndim != 1 or len(weights) > depth:
        layer.bad(f"its idf_weights of shape {list(weights.shape)} do not fit {depth} tokens")
    return constant(np.pad(weights, (0, depth - len(weights))), "float32")


@converts("TextVectorization")
def convert_text_vectorization(layer: Layer, inputs: Expr) -> Expr:
    standardize, split, mode = layer.get("standardize"), layer.get("split"), _mode(layer)
    known = (None, "lower", "strip_punctuation", "lower_and_strip_punctuation"), (None, "whitespace", "character")
    if standardize not in known[0] or split not in known[1]:
        layer.unsupported("standardize or split by a function, which is Python code that is never run")
    if layer.get("ragged") or layer.get("sparse"):
        layer.unsupported("a ragged or sparse result; make the layer with ragged=False and sparse=False")
    if (
        split is not None and rank_of(inputs) > 1 and shape_of(inputs)[1:] != (1,)
    ):  # a column of texts is a list of them
        layer.bad(f"texts of shape {[str(extent) for extent in shape_of(inputs)]} cannot be split")
    ngrams = layer.get("ngrams")
    runs = range(1, ngrams + 1) if isinstance(ngrams, int) else ngrams
    length = layer.get("output_sequence_length")
    parts = text.tokens(
        inputs, lower="lower" in str(standardize), strip="strip" in str(standardize), split=split or "",
        ngrams=None if runs is None else list(runs), length=None if mode != "int" or length is None else int(length),
    )  # fmt: skip
    words = _words(layer, ["", "[UNK]"] if mode == "int" else ["[UNK]"])
    return _looked_up(layer, parts, words, "", 1, mode)
