"""Preprocessing of numbers: normalization, bins, categories, and tables of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

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
        layer.wrong("it has no bin_boundaries; call adapt before the model is saved")
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
    """The position of each number in a vocabulary, found in a sorted copy of it."""
    words = _vocabulary(layer)
    unknown = int(layer.get("num_oov_indices", 1))
    mask_token, mode = layer.get("mask_token"), str(layer.get("output_mode", "int"))
    first = (1 if mask_token is not None and mode == "int" else 0) + unknown
    if layer.get("invert"):
        return _words_at(layer, inputs, words, mask_token)
    if mode == "tf_idf":
        layer.unsupported("output_mode 'tf_idf'")
    codes = cast(inputs, "int64")
    positions = _lookup(codes, words, first, unknown)
    if unknown > 1:
        positions = op.where(positions < 0, _bins(layer, codes, first - unknown, unknown), positions)
    depth = int(layer["max_tokens"]) if mode != "int" and layer.get("pad_to_max_tokens") else len(words) + first
    if mask_token is not None:  # counted nowhere
        masked = constant(0 if mode == "int" else depth, "int64")
        positions = op.where(op.equal(codes, constant(int(mask_token), "int64")), masked, positions)
    return cast(encoded(layer, positions, depth, mode), "int64")


def _lookup(codes: Expr, words: np.ndarray, first: int, unknown: int) -> Expr:
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    found = op.minimum(op.searchsorted(Constant(ordered), codes, dtype="int64"), constant(len(words) - 1, "int64"))
    known = op.equal(op.take(Constant(ordered), found, axis=0), codes)
    position = op.take(Constant((order + first).astype(np.int64)), found, axis=0)
    return op.where(known, position, constant(first - 1 if unknown == 1 else -1, "int64"))


def _bins(layer: Layer, codes: Expr, first: int, count: int) -> Expr:
    """The positions of unknown numbers, of which there are several."""
    if layer.get("oov_method", "floormod") == "farmhash":
        chosen: Expr = text.text_hash(codes, count, layer.get("salt"))
    else:
        chosen = op.floor_mod(codes, count)
    return chosen + first


def _vocabulary(layer: Layer) -> np.ndarray:
    listed = layer.get("vocabulary")
    if listed is None:
        listed = layer.importer.asset_lines(layer, "vocabulary.txt")
    if isinstance(listed, dict):
        listed = (listed.get("config") or {}).get("value")
    if not isinstance(listed, list) or not listed:
        layer.wrong("it has no vocabulary in the file; give it to the layer, or call adapt before the model is saved")
    return np.asarray([int(word) for word in listed], np.int64)


def _words_at(layer: Layer, inputs: Expr, words: np.ndarray, mask_token: Any) -> Expr:
    unknown = int(layer.get("oov_token", -1))
    lead = ([int(mask_token)] if mask_token is not None else []) + [unknown] * int(layer.get("num_oov_indices", 1))
    table = np.concatenate([np.asarray(lead, np.int64), words])
    codes = cast(inputs, "int64")
    known = op.logical_and(codes >= 0, codes < constant(len(table), "int64"))
    return op.where(known, op.take(Constant(table), codes, axis=0), constant(unknown, "int64"))
