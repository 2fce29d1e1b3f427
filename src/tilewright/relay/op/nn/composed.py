"""Neural network operators written in others: norms, mirrored padding, blocks in space and batch, packed layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Expr
from tilewright.relay.ir.registry import Precision, get
from tilewright.relay.ir.type import Type
from tilewright.relay.op import reduce, tensor, transform
from tilewright.relay.op.common import (
    Types,
    at_most,
    call,
    check_axis,
    dims,
    divides,
    known_size,
    require,
    require_float,
    same_dims,
    window_attrs,
)
from tilewright.relay.op.common import tensor as tensor_of
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.nn.activation import pad
from tilewright.relay.op.nn.convolution import conv2d
from tilewright.relay.op.nn.dense import dense
from tilewright.relay.op.nn.normalization import softmax
from tilewright.topi.reference import nn as ref
from tilewright.topi.util import pair


# ------------------------------------------------------------------------------------------------------------- norms
def _l2_type(types: Types, attrs: Attrs) -> Type:
    data = tensor_of(types[0])
    require_float(data)
    for axis in attrs["axis"]:
        check_axis(axis, data.ndim)
    return data


def _l2_normalize(args: Sequence[Expr], attrs: Attrs) -> Expr:
    squares = reduce.sum(args[0] * args[0], axis=attrs["axis"], keepdims=True)
    return args[0] / tensor.sqrt(tensor.maximum(squares, attrs["eps"]))


def _l2_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    squares = np.sum(np.square(x.astype(np.float64)), tuple(attrs["axis"]), keepdims=True)
    return (x / np.sqrt(np.maximum(squares, attrs["eps"]))).astype(x.dtype)


register_composite(
    "nn.l2_normalize",
    num_inputs=1,
    type_rule=_l2_type,
    expansion=_l2_normalize,
    reference=_l2_reference,
    precision=Precision.NEVER,
    attributes={"eps": attr.number(), "axis": attr.axes((1,))},
)


def l2_normalize(data: Expr, eps: float, axis: int | Sequence[int] = (1,)) -> Call:
    """`data` / sqrt(max(sum of squares along `axis`, eps))."""
    return call("nn.l2_normalize", data, eps=float(eps), axis=(axis,) if isinstance(axis, int) else axis)


register_composite(
    "nn.fast_softmax",
    num_inputs=1,
    expansion=lambda args, attrs: softmax(args[0], attrs["axis"]),
    reference=lambda attrs, x: ref.softmax(x, attrs["axis"]),
    attributes={"axis": attr.integer(-1)},
)


def fast_softmax(data: Expr, axis: int = -1) -> Call:
    """`softmax`, which is fast enough here."""
    return call("nn.fast_softmax", data, axis=axis)


# ------------------------------------------------------------------------------------------------------- mirror_pad
def _mirror_pad(args: Sequence[Expr], attrs: Attrs) -> Expr:
    if attrs["mode"] == "REFLECT":
        return pad(args[0], attrs["pad_width"], pad_mode="reflect")
    data = args[0]
    for axis, (before, after) in enumerate(attrs["pad_width"]):
        size = dims(args[0])[axis]
        parts = [data]
        if before:
            parts.insert(0, transform.reverse(transform.strided_slice(data, (0,), (before,), axes=(axis,)), axis))
        if after:
            parts.append(transform.reverse(transform.strided_slice(data, (size - after,), (size,), axes=(axis,)), axis))
        data = transform.concatenate(parts, axis) if len(parts) > 1 else data
    return data


def _mirror_pad_type(types: Types, attrs: Attrs) -> Type:
    data, mode = tensor_of(types[0]), attrs["mode"]
    require(mode in ("SYMMETRIC", "REFLECT"), f"mode {mode!r}; known: SYMMETRIC, REFLECT")
    require(len(attrs["pad_width"]) == data.ndim, f"{len(attrs['pad_width'])} pairs for {data.ndim} dimensions")
    fits = all(at_most(max(width), size) for width, size in zip(attrs["pad_width"], data.shape))
    require(fits, f"the padding {attrs['pad_width']} mirrors more than there is of shape {data.shape}")
    return type_of_expansion(_mirror_pad, types, attrs)


register_composite(
    "nn.mirror_pad",
    num_inputs=1,
    type_rule=_mirror_pad_type,
    expansion=_mirror_pad,
    reference=lambda attrs, x: np.pad(x, attrs["pad_width"], mode=attrs["mode"].lower()),
    attributes={"pad_width": attr.pairs(), "mode": attr.text("SYMMETRIC")},
)


def mirror_pad(data: Expr, pad_width: Sequence[Sequence[int]], mode: str = "SYMMETRIC") -> Call:
    """`data` with its mirror image around it: with the edge (SYMMETRIC) or without (REFLECT)."""
    return call("nn.mirror_pad", data, pad_width=pad_width, mode=mode)


# ------------------------------------------------------------------------------------------------- space and batch
def _space_to_batch(args: Sequence[Expr], attrs: Attrs) -> Expr:
    blocks, paddings = attrs["block_shape"], attrs["paddings"]
    shape, m = dims(args[0]), len(blocks)
    widths = [(0, 0), *paddings, *[(0, 0)] * (len(shape) - 1 - m)]
    data = pad(args[0], widths, attrs["pad_value"]) if any(map(any, widths)) else args[0]
    sizes = [size + before + after for size, (before, after) in zip(shape, widths)]
    for size, block in zip(sizes[1:], blocks):
        require(divides(size, block), f"{size} elements do not divide into blocks of {block}")
    split = [sizes[0], *[part for size, b in zip(sizes[1:], blocks) for part in (size // b, b)], *sizes[1 + m :]]
    order = [*[2 + 2 * i for i in range(m)], 0, *[1 + 2 * i for i in range(m)], *range(1 + 2 * m, len(split))]
    moved = transform.transpose(transform.reshape(data, split), order)
    result = (sizes[0] * math.prod(blocks), *[size // b for size, b in zip(sizes[1:], blocks)], *sizes[1 + m :])
    return transform.reshape(moved, result)


def _space_to_batch_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    blocks = attrs["block_shape"]
    widths = [(0, 0), *attrs["paddings"], *[(0, 0)] * (x.ndim - 1 - len(blocks))]
    padded = np.pad(x, widths, constant_values=attrs["pad_value"])
    parts = [
        padded[(slice(None), *[slice(start, None, step) for start, step in zip(starts, blocks)])]
        for starts in np.ndindex(*blocks)
    ]
    return np.concatenate(parts)


def _batch_to_space(args: Sequence[Expr], attrs: Attrs) -> Expr:
    blocks, crops = attrs["block_shape"], attrs["crops"]
    shape, m, total = dims(args[0]), len(blocks), math.prod(blocks)
    require(divides(shape[0], total), f"a batch of {shape[0]} does not divide into blocks of {total}")
    split = transform.reshape(args[0], (*blocks, shape[0] // total, *shape[1:]))
    order = [m, *[axis for i in range(m) for axis in (m + 1 + i, i)], *range(2 * m + 1, m + len(shape))]
    sizes = [size * b for size, b in zip(shape[1:], blocks)]
    whole = transform.reshape(transform.transpose(split, order), (shape[0] // total, *sizes, *shape[1 + m :]))
    begin, end = [before for before, _ in crops], [size - after for size, (_, after) in zip(sizes, crops)]
    return transform.strided_slice(whole, begin, end, axes=range(1, m + 1)) if any(map(any, crops)) else whole


def _batch_to_space_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    blocks, crops = attrs["block_shape"], attrs["crops"]
    count = x.shape[0] // math.prod(blocks)
    sizes = [size * b for size, b in zip(x.shape[1:], blocks)]
    out = np.empty((count, *sizes, *x.shape[1 + len(blocks) :]), x.dtype)
    for k, starts in enumerate(np.ndindex(*blocks)):
        where = (slice(None), *[slice(start, None, step) for start, step in zip(starts, blocks)])
        out[where] = x[k * count : (k + 1) * count]
    cut = [slice(before, size - after) for size, (before, after) in zip(sizes, crops)]
    return np.ascontiguousarray(out[(slice(None), *cut)])


register_composite(
    "nn.space_to_batch_nd",
    num_inputs=1,
    expansion=_space_to_batch,
    reference=_space_to_batch_reference,
    attributes={"block_shape": attr.integers(), "paddings": attr.pairs(), "pad_value": attr.number(0)},
)
register_composite(
    "nn.batch_to_space_nd",
    num_inputs=1,
    expansion=_batch_to_space,
    reference=_batch_to_space_reference,
    attributes={"block_shape": attr.integers(), "crops": attr.pairs()},
)


def space_to_batch_nd(
    data: Expr, block_shape: Sequence[int], paddings: Sequence[Sequence[int]], pad_value: float = 0
) -> Call:
    """The axes after the first, padded, cut into blocks of `block_shape` whose positions become further batches."""
    return call("nn.space_to_batch_nd", data, block_shape=block_shape, paddings=paddings, pad_value=pad_value)


def batch_to_space_nd(data: Expr, block_shape: Sequence[int], crops: Sequence[Sequence[int]]) -> Call:
    """The inverse of `space_to_batch_nd`, with `crops` (before, after) cut off each axis."""
    return call("nn.batch_to_space_nd", data, block_shape=block_shape, crops=crops)


# ---------------------------------------------------------------------------------------------------------- buffers
def _fifo_type(types: Types, attrs: Attrs) -> Type:
    data, buffer = tensor_of(types[0]), tensor_of(types[1])
    at = check_axis(attrs["axis"], buffer.ndim)
    rest = same_dims(*[[s for d, s in enumerate(t.shape) if d != at] for t in (data, buffer)])
    fits = (
        data.ndim == buffer.ndim and rest and at_most(data.shape[at], buffer.shape[at]) and data.dtype == buffer.dtype
    )
    require(fits, f"{data} cannot be pushed into the buffer {buffer} along axis {attrs['axis']}")
    return buffer


def _fifo(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data, buffer = args
    axis = attrs["axis"]
    count, size = dims(data)[axis], dims(buffer)[axis]
    kept = transform.strided_slice(buffer, (count,), (size,), axes=(axis,))
    return transform.concatenate([kept, data], axis) if count < size else tensor.copy(data)


register_composite(
    "nn.fifo_buffer",
    num_inputs=2,
    type_rule=_fifo_type,
    expansion=_fifo,
    reference=lambda attrs, data, buffer: np.take(
        np.concatenate([buffer, data], attrs["axis"]),
        np.arange(buffer.shape[attrs["axis"]]) + data.shape[attrs["axis"]],
        attrs["axis"],
    ),
    attributes={"axis": attr.integer()},
)


def fifo_buffer(data: Expr, buffer: Expr, axis: int) -> Call:
    """`buffer` with `data` behind it along `axis` and as much dropped in front."""
    return call("nn.fifo_buffer", data, buffer, axis=axis)


# --------------------------------------------------------------------------------------------------- packed layouts
def _conv2d_packed(args: Sequence[Expr], attrs: Attrs) -> Expr:
    return Call(get("nn.conv2d"), args, attrs)


for _name in ("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"):
    register_composite(
        _name,
        num_inputs=2,
        expansion=_conv2d_packed,
        attributes=get("nn.conv2d").attributes,
        reference=lambda attrs, data, kernel: get("nn.conv2d").reference(attrs, data, kernel),
    )


def _packed(name: str, data: Expr, kernel: Expr, attrs: dict[str, Any]) -> Call:
    return call(name, data, kernel, **conv2d(data, kernel, **attrs).attrs)


def contrib_conv2d_NCHWc(data: Expr, kernel: Expr, **attrs: Any) -> Call:
    """`conv2d` whose layouts are blocked already; the attributes are those of `conv2d`."""
    return _packed("nn.contrib_conv2d_NCHWc", data, kernel, attrs)


def contrib_depthwise_conv2d_NCHWc(data: Expr, kernel: Expr, **attrs: Any) -> Call:
    """Depthwise `conv2d` whose layouts are blocked already; the attributes are those of `conv2d`."""
    return _packed("nn.contrib_depthwise_conv2d_NCHWc", data, kernel, attrs)


register_composite(
    "nn.contrib_dense_pack",
    num_inputs=2,
    expansion=lambda args, attrs: dense(args[0], args[1], attrs["units"], attrs["out_dtype"], attrs["weight_layout"]),
    reference=lambda attrs, data, weight: ref.dense(data, weight, out_dtype=attrs["out_dtype"]),
    attributes={
        "weight_layout": attr.text("NC8n"),
        "units": attr.optional(attr.integer()),
        "out_dtype": attr.dtype(""),
    },
)


def contrib_dense_pack(
    data: Expr, weight: Expr, weight_layout: str = "NC8n", units: int | None = None, out_dtype: str = ""
) -> Call:
    """`dense` with a weight packed as [units/8, K, 8] for ``"NC8n"``."""
    return call("nn.contrib_dense_pack", data, weight, weight_layout=weight_layout, units=units, out_dtype=out_dtype)


# ------------------------------------------------------------------------------------------- convolution as a product
def _gemm_weights(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """HWIO to [N / tile_N, K / tile_K, tile_N, tile_K] with K = H·W·I, zeros at the ends."""
    h, w, i, o = (known_size(size, "the size of the kernel") for size in dims(args[0]))
    rows, tile_k, tile_n = h * w * i, attrs["tile_K"], attrs["tile_N"]
    matrix = transform.reshape(args[0], (rows, o))
    widths = ((0, -rows % tile_k), (0, -o % tile_n))
    matrix = pad(matrix, widths) if any(map(any, widths)) else matrix
    k, n = rows + widths[0][1], o + widths[1][1]
    tiles = transform.reshape(matrix, (k // tile_k, tile_k, n // tile_n, tile_n))
    return transform.transpose(tiles, (2, 0, 3, 1))


def _gemm_weights_reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    h, w, i, o = x.shape
    tile_k, tile_n = attrs["tile_K"], attrs["tile_N"]
    padded = np.pad(x.reshape(h * w * i, o), ((0, -(h * w * i) % tile_k), (0, -o % tile_n)))
    k, n = padded.shape
    return np.ascontiguousarray(padded.reshape(k // tile_k, tile_k, n // tile_n, tile_n).transpose(2, 0, 3, 1))


register_composite(
    "nn.contrib_conv2d_gemm_weight_transform",
    num_inputs=1,
    expansion=_gemm_weights,
    reference=_gemm_weights_reference,
    attributes={"tile_N": attr.integer(), "tile_K": attr.integer()},
)


def contrib_conv2d_gemm_weight_transform(weights: Expr, tile_N: int, tile_K: int) -> Call:
    """A kernel HWIO as the tiles [N / tile_N, K / tile_K, tile_N, tile_K] of the matrix [H·W·I, O]."""
    return call("nn.contrib_conv2d_gemm_weight_transform", weights, tile_N=tile_N, tile_K=tile_K)


def _gemm_conv2d(args: Sequence[Expr], attrs: Attrs) -> Expr:
    channels = dims(args[0])[3]
    n, k, tile_n, tile_k = dims(args[1])
    kh, kw = attrs["kernel_size"]
    matrix = transform.reshape(transform.transpose(args[1], (1, 3, 0, 2)), (k * tile_k, n * tile_n))
    whole = transform.strided_slice(matrix, (0, 0), (kh * kw * channels, attrs["channels"]))
    kernel = transform.reshape(whole, (kh, kw, channels, attrs["channels"]))
    window = {name: attrs[name] for name in ("strides", "padding", "dilation", "out_dtype")}
    return conv2d(args[0], kernel, data_layout="NHWC", kernel_layout="HWIO", **window)


def _gemm_conv2d_reference(attrs: Attrs, data: np.ndarray, tiles: np.ndarray) -> np.ndarray:
    kh, kw = attrs["kernel_size"]
    matrix = tiles.transpose(1, 3, 0, 2).reshape(tiles.shape[1] * tiles.shape[3], -1)
    kernel = matrix[: kh * kw * data.shape[3], : attrs["channels"]].reshape(kh, kw, data.shape[3], -1)
    plain = attrs.replace(data_layout="NHWC", kernel_layout="HWIO", out_layout="", groups=1)
    return get("nn.conv2d").reference(plain, data, kernel)  # type: ignore[return-value]


register_composite(
    "nn.contrib_conv2d_gemm_without_weight_transform",
    num_inputs=2,
    expansion=_gemm_conv2d,
    reference=_gemm_conv2d_reference,
    attributes={
        "channels": attr.integer(),
        "kernel_size": attr.per_axis(2),
        **attr.window(2),
        "out_dtype": attr.dtype(""),
    },
)


def contrib_conv2d_gemm_without_weight_transform(
    data: Expr,
    weight: Expr,
    channels: int,
    kernel_size: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    out_dtype: str = "",
) -> Call:
    """Convolution of NHWC data with a kernel that `contrib_conv2d_gemm_weight_transform` has cut into tiles."""
    return call(
        "nn.contrib_conv2d_gemm_without_weight_transform",
        data,
        weight,
        channels=channels,
        kernel_size=pair(kernel_size),
        **window_attrs(strides, padding, dilation),
        out_dtype=out_dtype,
    )
