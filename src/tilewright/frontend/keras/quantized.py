"""Layers of `model.quantize("int8")`: weights of 8 or 4 bits with a scale each column, inputs rounded as they come.

Keras scales each row of the input by its largest magnitude to -127 … 127, multiplies integers, and divides the product
by both scales.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontend.builders.product import einsum
from tilewright.frontend.idioms import cast, constant, rank_of
from tilewright.frontend.keras.layer import Layer
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


def _only(layer: Layer, *modes: str) -> None:
    if layer.quantization not in modes:
        layer.unsupported(f"quantization {layer.quantization!r}; {', '.join(modes)} is supported")


def _rounded(inputs: Expr, axes: tuple[int, ...]) -> tuple[Expr, Expr]:
    """Integers of -127 … 127, and the factor by which the numbers were multiplied."""
    whole = cast(inputs, "float32")
    peak = op.max(op.abs(whole), axis=axes, keepdims=True)
    scale = constant(127, "float32") / (peak + constant(1e-7, "float32"))
    return cast(op.clip(op.round(whole * scale), -127.0, 127.0), "int8"), scale


def quantized_product(layer: Layer, inputs: Expr, equation: str | None) -> Expr:
    """The product of a Dense layer, or of an EinsumDense layer by its equation, with its bias."""
    _only(layer, "int8")
    has_bias = bool(layer.get("use_bias", True)) if equation is None else bool(layer.get("bias_axes"))
    kernel, *rest = layer.own("kernel", *(["bias"] if has_bias else []), "kernel_scale")
    bias, scale = (rest[0] if has_bias else None), rest[-1]
    if equation is None:
        rank = rank_of(inputs)
        equation = f"{'abcdefgh'[: rank - 1]}y,yz->{'abcdefgh'[: rank - 1]}z"
    terms, result = equation.replace(" ", "").split("->")
    first, second = terms.split(",")
    if "..." in first:
        more = "ABCDEFGH"[: rank_of(inputs) - len(first.replace("...", ""))]
        first, result = first.replace("...", more), result.replace("...", more)
    inner = [label for label in first if label not in result]
    codes, factor = _rounded(inputs, tuple(first.index(label) for label in inner))
    sums = einsum(f"{first},{second}->{result}", [cast(codes, "int32"), cast(kernel, "int32")])
    factor = _spread(factor, first, inner, result)
    kernel_scale = _kernel_scale(layer, scale.data, second, result)
    made: Expr = cast(sums, "float32") / (factor * kernel_scale)
    made = cast(made, layer.compute_dtype)
    return made + layer.cast(bias) if bias is not None else made


def _spread(factor: Expr, labels: str, inner: list[str], result: str) -> Expr:
    """The inputs' factors with the axes of the result."""
    axes = tuple(labels.index(label) for label in inner)
    kept = [label for label in labels if label not in inner]
    value = op.squeeze(factor, axis=axes) if axes else factor
    order = [label for label in result if label in kept]
    value = op.transpose(value, axes=[kept.index(label) for label in order])
    for position, label in enumerate(result):
        if label not in kept:
            value = op.expand_dims(value, axis=position)
    return value


def _kernel_scale(layer: Layer, scale: np.ndarray, labels: str, result: str) -> Expr:
    """The kernel's scales with the axes of the result; Keras stores them so that they broadcast."""
    kept = [label for label in result if label in labels]
    plain = scale.reshape([extent for extent in scale.shape if extent != 1] or [1])
    shape = [1] * len(result)
    sizes = iter(plain.shape)
    if plain.size > 1 and len(plain.shape) != len(kept):
        layer.unsupported("a kernel whose scale does not have one axis for each of its columns'")
    for position, label in enumerate(result):
        if label in kept and plain.size > 1:
            shape[position] = next(sizes)
    return Constant(plain.reshape(shape).astype(np.float32))


def dequantized(layer: Layer, name: str) -> Expr:
    """A table of integers with a scale each row, as numbers."""
    _only(layer, "int8")
    codes, scale = layer.array(name, f"{name}_scale")
    numbers = codes.astype(np.float32) / scale.reshape(-1, 1).astype(np.float32)
    return layer.cast(Constant(numbers))
