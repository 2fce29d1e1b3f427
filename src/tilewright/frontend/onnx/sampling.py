"""Operators that read a tensor at computed coordinates: grid sampling, deformable convolution, patches put together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tilewright.frontend.idioms import broadcast_to, cast, concatenate, constant, index_axis, like
from tilewright.frontend.onnx.dims import is_static
from tilewright.frontend.onnx.node import OnnxNode, reshape, transpose
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

_MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "nearest": "nearest", "cubic": "cubic"}
_CUBIC = -0.75


@dataclass(frozen=True)
class _Tap:
    """One element read along an axis: its integral position and its weight, both tensors of the samples' shape."""

    position: Expr
    weight: Expr | None


@converts("GridSample", since=16)
@converts("GridSample", domain=MICROSOFT)
def convert_grid_sample(node: OnnxNode, align_corners: bool = False) -> Expr:
    """Samples of X (N, C, …) at the positions in a grid (N, …, axes), whose last axis counts from the last extent."""
    mode = _MODES[node.choice("mode", "bilinear" if node.opset < 20 else "linear", tuple(_MODES))]
    padding = node.choice("padding_mode", "zeros", ("zeros", "border", "reflection"))
    corners = align_corners
    extents, rank = node.shape()[2:], node.rank()
    if not is_static(extents):
        node.unsupported("samples of images of symbolic sizes")
    if node.shape(1)[-1] != len(extents):
        node.bad(f"a grid of shape {list(node.shape(1))} for images of shape {list(node.shape())}")
    taps = []
    for axis, extent in enumerate(extents):
        positions = index_axis(node[1], rank - 1, len(extents) - 1 - axis)
        center = _denormalized(node, positions, extent, corners)
        if padding != "zeros" and mode != "cubic":
            center = _inside(node, center, extent, padding, corners)
        taps.append(_taps(node, center, mode))
    outside = "drop" if padding == "zeros" else padding
    return gather_weighted(node, node[0], taps, outside, corners)


def _denormalized(node: OnnxNode, positions: Expr, extent: int, corners: bool) -> Expr:
    """Places from -1 to 1 as pixels: those are the centres of the outermost ones, or their outer edges."""
    scale, shift = ((extent - 1) / 2, (extent - 1) / 2) if corners else (extent / 2, (extent - 1) / 2)
    return positions * scale + shift


def _inside(node: OnnxNode, positions: Expr, extent: int, padding: str, corners: bool) -> Expr:
    """Places beyond the edge moved onto it, or mirrored at it."""
    low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
    if padding == "reflection":
        span = high - low
        if span <= 0:
            return positions * 0
        away = op.abs(positions - low)
        period = like(2 * span, positions)
        part = away - op.floor(away / period) * period
        folded = op.minimum(part, period - part)
        positions = folded + low
    return op.clip(positions, a_min=0.0, a_max=float(extent - 1))


def _taps(node: OnnxNode, center: Expr, mode: str) -> list[_Tap]:
    """The elements that a sample at `center` is made of."""
    if mode == "nearest":
        return [_Tap(op.round(center), None)]
    low = op.floor(center)
    part = center - low
    one = like(1, center)
    if mode == "linear":
        return [_Tap(low, one - part), _Tap(low + one, part)]
    return [_Tap(low + offset, _cubic_weight(node, part, offset)) for offset in (-1, 0, 1, 2)]


def _cubic_weight(node: OnnxNode, part: Expr, offset: int) -> Expr:
    """Keys' kernel at the distance between the position and the element `offset` away."""
    t: Expr = op.abs(part - offset)
    near, far = (_CUBIC + 2, -(_CUBIC + 3), 0, 1), (_CUBIC, -5 * _CUBIC, 8 * _CUBIC, -4 * _CUBIC)
    value: Expr = like(0, t)
    for factor in near if offset in (0, 1) else far:
        value = value * t + factor
    return value


def gather_weighted(
    node: OnnxNode, data: Expr, taps: Sequence[Sequence[_Tap]], outside: str = "drop", corners: bool = False
) -> Expr:
    """The sum over all combinations of taps of `data` (N, C, …) at their positions, times their weights.

    Places and weights have the shape (N, samples …); what lies outside counts as zero with "drop", else it is moved
    inside. The result is (N, C, samples …).
    """
    shape = node.shape(data)
    batch, channels, extents = shape[0], shape[1], shape[2:]
    samples = node.shape(taps[0][0].position)[1:]
    count = int(np.prod(extents))
    flat = reshape(node, data, (batch, channels, count))
    rows = transpose(flat, (0, 2, 1))
    terms = [_term(node, rows, combination, extents, outside, corners) for combination in itertools.product(*taps)]
    total = reduce(op.add, terms)
    rank = 2 + len(samples)
    return transpose(total, (0, rank - 1, *range(1, rank - 1)))


def _term(
    node: OnnxNode, rows: Expr, taps: Sequence[_Tap], extents: Sequence[int], outside: str, corners: bool
) -> Expr:
    """Of `rows` (N, elements, C) those that one combination of taps picks, (N, samples …, C), times its weight."""
    index: Expr | None = None
    weight: Expr | None = None
    valid: Expr | None = None
    for tap, extent in zip(taps, extents):
        position = tap.position
        if outside == "drop":
            within = op.logical_and(position >= 0, position < extent)
            valid = within if valid is None else op.logical_and(valid, within)
        else:
            position = _inside(node, position, extent, outside, corners)
        whole = op.cast(op.clip(position, a_min=0.0, a_max=float(extent - 1)), dtype="int64")
        index = whole if index is None else index * constant(extent, "int64") + whole
        if tap.weight is not None:
            weight = tap.weight if weight is None else weight * tap.weight
    assert index is not None
    picked = op.gather_nd(rows, op.expand_dims(index, axis=0, num_newaxis=1), batch_dims=1)
    last = node.rank(picked) - 1
    if valid is not None:
        picked = op.where(op.expand_dims(valid, axis=last, num_newaxis=1), picked, 0)
    if weight is not None:
        picked = picked * cast(op.expand_dims(weight, axis=last, num_newaxis=1), node.dtype(picked))
    return picked


@converts("AffineGrid", since=20)
def convert_affine_grid(node: OnnxNode, x: Expr, align_corners: bool = False) -> Expr:
    """The positions of a regular grid from -1 to 1 under an affine map (N, axes, axes + 1), last axis first."""
    size = node.ints(1, "size")
    extents = size[2:]
    lines = []
    for extent in extents:
        steps = np.arange(extent, dtype=np.float64)
        centred = (2 * steps + 1) / extent - 1
        lines.append((2 * steps / (extent - 1) - 1 if extent > 1 else steps * 0) if align_corners else centred)
    planes = np.meshgrid(*lines, indexing="ij")[::-1]
    points = np.stack([*planes, np.ones_like(planes[0])], axis=-1).reshape(1, -1, len(extents) + 1)
    grid = constant(np.repeat(points, size[0], axis=0), node.dtype())
    placed = op.nn.batch_matmul(grid, x, transpose_a=False, transpose_b=True)
    return reshape(node, placed, (size[0], *extents, len(extents)))


@converts("DeformConv", since=19)
def convert_deform_conv(node: OnnxNode, group: int = 1, offset_group: int = 1) -> Expr:
    """A convolution whose taps are moved by learned offsets (and weighted by a mask): sampling, then a product."""
    (batch, channels, height, width), (units, per_group, *kernel) = node.shape(), node.shape(1)
    offset_groups = offset_group
    node.ignore("kernel_shape")
    strides, dilations = node.per_axis("strides", 1, 2), node.per_axis("dilations", 1, 2)
    pads = node.per_axis("pads", 0, 4)
    out = node.shape(2)[2:]
    count = kernel[0] * kernel[1]
    share = channels // offset_groups
    offsets = reshape(node, node[2], (batch, offset_groups, count, 2, *out))
    data = reshape(node, node[0], (batch * offset_groups, share, height, width))
    taps = []
    for axis in range(2):
        moved = reshape(node, index_axis(offsets, 3, axis), (batch * offset_groups, count, *out))
        base = _tap_positions(kernel, out, strides, dilations, pads, axis)
        taps.append(_taps(node, moved + constant(base, node.dtype(moved)), "linear"))
    sampled = gather_weighted(node, data, taps)
    sampled = reshape(node, sampled, (batch, offset_groups, share, count, *out))
    if node.has(4):
        mask = reshape(node, node[4], (batch, offset_groups, 1, count, *out))
        sampled = sampled * mask
    positions = out[0] * out[1]
    columns = reshape(node, sampled, (batch, group, (channels // group) * count, positions))
    stacked = reshape(node, columns, (batch * group, (channels // group) * count, positions))
    weight = reshape(node, node[1], (1, group, units // group, per_group * count))
    weights = broadcast_to(weight, (batch, group, units // group, per_group * count))
    matrices = reshape(node, weights, (batch * group, units // group, per_group * count))
    product = op.nn.batch_matmul(matrices, stacked, transpose_a=False, transpose_b=False)
    result = reshape(node, product, (batch, units, *out))
    return op.nn.bias_add(result, node[3], axis=1) if node.has(3) else result


def _tap_positions(
    kernel: Sequence[int], out: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int],
    axis: int,
) -> np.ndarray:  # fmt: skip
    """The coordinates that each tap reads without an offset along an axis: (1, taps, rows, columns)."""
    tap = np.indices(kernel)[axis].reshape(-1, 1, 1) * dilations[axis]
    return (tap + (np.indices(out)[axis][None] * strides[axis]) - pads[axis])[None].astype(np.float64)


@converts("Col2Im", since=18)
def convert_col2im(node: OnnxNode) -> Expr:
    """Patches (N, C * taps, positions) added up to images: each tap's plane, spread by the stride, at its offset."""
    image, block = node.ints(1, "image_shape"), node.ints(2, "block_shape")
    axes = len(image)
    strides, dilations = node.per_axis("strides", 1, axes), node.per_axis("dilations", 1, axes)
    pads = node.per_axis("pads", 0, 2 * axes)
    batch, columns, _ = node.shape()
    channels = columns // int(np.prod(block))
    padded = [image[a] + pads[a] + pads[a + axes] for a in range(axes)]
    steps = [(padded[a] - dilations[a] * (block[a] - 1) - 1) // strides[a] + 1 for a in range(axes)]
    count, positions = int(np.prod(block)), int(np.prod(steps))
    # Every element of the image gathers the patch elements that fall on it; the position behind the last holds zero.
    taps = np.indices(block).reshape(axes, -1)
    origin = np.indices(steps).reshape(axes, -1)
    source: list[list[int]] = [[] for _ in range(int(np.prod(padded)))]
    for tap in range(count):
        for position in range(positions):
            target = [int(origin[a, position] * strides[a] + taps[a, tap] * dilations[a]) for a in range(axes)]
            source[int(np.ravel_multi_index(target, padded))].append(tap * positions + position)
    deepest = max(map(len, source))
    table = np.array([entry + [count * positions] * (deepest - len(entry)) for entry in source]).reshape(
        *padded, deepest
    )
    for a in range(axes):
        table = np.take(table, range(pads[a], pads[a] + image[a]), axis=a)
    flat = reshape(node, node[0], (batch * channels, count * positions))
    zero = constant(np.zeros((batch * channels, 1)), node.dtype())
    picked = op.take(concatenate([flat, zero], 1), Constant(table), axis=1, mode="clip")
    return reshape(node, op.sum(picked, axis=(axes + 1,), keepdims=False), (batch, channels, *image))
