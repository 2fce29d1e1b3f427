"""Layers that move, repeat, cut or pad elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright.frontend.builders.resizing import resize
from tilewright.frontend.idioms import cast, channels_last, product, rank_of, reshape, shape_of, slice_axis
from tilewright.frontend.keras.convolution import per_axis
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts, layers
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("Flatten")
def convert_flatten(layer: Layer, inputs: Expr) -> Expr:
    value = inputs if layer.last or rank_of(inputs) < 3 else channels_last(inputs)
    return reshape(value, (shape_of(value)[0], product(shape_of(value)[1:])))


@converts("Reshape")
def convert_reshape(layer: Layer, inputs: Expr) -> Expr:
    batch, *rest = shape_of(inputs)
    return reshape(inputs, (batch, *filled(layer["target_shape"], rest)))


def filled(target: Sequence[int], shape: Sequence[Any]) -> list[Any]:
    """`target` with the extent that -1 stands for, so that it has as many elements as `shape`."""
    target = [extent if extent is not None else -1 for extent in target]
    if -1 not in target:
        return list(target)
    known = math.prod(extent for extent in target if extent != -1)
    whole = product(shape)
    rest = whole // known if known else 0
    return [rest if extent == -1 else extent for extent in target]


layers({
    "Permute": lambda layer, inputs: op.transpose(inputs, axes=(0, *(int(axis) for axis in layer["dims"]))),
    "RepeatVector": lambda layer, inputs: op.repeat(op.expand_dims(inputs, axis=1), repeats=int(layer["n"]), axis=1),
})  # fmt: skip


def _pairs(value: Any, axes: int) -> list[tuple[int, int]]:
    """(before, behind) for each axis: one number for all, one an axis, or pairs."""
    if not isinstance(value, list | tuple):
        return [(int(value), int(value))] * axes
    if axes == 1 and len(value) == 2 and not isinstance(value[0], list | tuple):
        return [(int(value[0]), int(value[1]))]
    return [tuple(map(int, one)) if isinstance(one, list | tuple) else (int(one), int(one)) for one in value]  # type: ignore[misc]


def _first(layer: Layer) -> int:
    return 1 if layer.last else 2


@converts("Cropping1D", "Cropping2D", "Cropping3D")
def convert_cropping(layer: Layer, inputs: Expr) -> Expr:
    for axis, (before, behind) in enumerate(_pairs(layer["cropping"], rank_of(inputs) - 2), _first(layer)):
        inputs = slice_axis(inputs, axis, before, shape_of(inputs)[axis] - behind)
    return inputs


@converts("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def convert_zero_padding(layer: Layer, inputs: Expr) -> Expr:
    axes = rank_of(inputs) - 2
    pairs = _pairs(layer["padding"], axes)
    widths = [(0, 0), *pairs, (0, 0)] if layer.last else [(0, 0), (0, 0), *pairs]
    return op.nn.pad(inputs, pad_width=widths)


@converts("UpSampling1D", "UpSampling3D")
def convert_repeating_upsampling(layer: Layer, inputs: Expr) -> Expr:
    axes = rank_of(inputs) - 2
    value = inputs
    for axis, times in enumerate(per_axis(layer["size"], axes)):
        value = op.repeat(value, repeats=times, axis=_first(layer) + axis) if times != 1 else value
    return value


@converts("UpSampling2D")
def convert_upsampling(layer: Layer, inputs: Expr) -> Expr:
    method = str(layer.get("interpolation", "nearest"))
    if method == "nearest":
        return convert_repeating_upsampling(layer, inputs)
    first = _first(layer)
    size = [extent * times for extent, times in zip(shape_of(inputs)[first : first + 2], per_axis(layer["size"], 2))]
    if not all(isinstance(extent, int) for extent in size):
        layer.unsupported(f"interpolation {method!r} of an image of symbolic size; pass it with input_shapes")
    return cast(resize(inputs, size, method, last=layer.last), layer.compute_dtype)
