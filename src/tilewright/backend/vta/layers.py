"""Pieces of a graph as layers of a network: whether the accelerator takes them, and how they join its program."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backend.vta.patterns import Piece, read_piece, weight_of
from tilewright.backend.vta.settings import Settings
from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.registry import Op, get, names
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op import view_rules
from tilewright.relay.transform.simplify.make import is_call
from tilewright.vta.config import Config
from tilewright.vta.network.network import Network, Patches, Tensor, convolution
from tilewright.vta.schedule.alu import Pool, pool_tiling
from tilewright.vta.schedule.geometry import fits
from tilewright.vta.schedule.layout import Array, blocks_of

#: Operators whose result is what they are given, under another shape.
RESHAPES = tuple(name for name in names() if get(name).view is view_rules.whole)


# ------------------------------------------------------------------------------------------------ what is taken
def takes_piece(settings: Settings, root: Expr) -> bool:
    """True for a piece that the accelerator computes exactly."""
    piece = read_piece(root)
    if piece is None or not all(_is_image(expr) for expr in piece.inputs):
        return False
    if is_call(piece.core, "nn.conv2d", "nn.dense"):
        return _takes_product(settings.config, piece)
    if is_call(piece.core, "sum"):
        attrs, ndim = piece.core.attrs, tensor_type_of(piece.inputs[0]).ndim
        axes = sorted(axis % ndim for axis in (attrs.axis if isinstance(attrs.axis, tuple) else (attrs.axis,)))
        over_image = ndim == 4 and axes == [2, 3] and bool(attrs.keepdims) and not attrs.get("exclude")
        return over_image and _pool_fits(settings, whole_image(settings.config, tensor_type_of(piece.inputs[0])))
    left, right = (tensor_type_of(expr) for expr in piece.inputs)
    return left.shape == right.shape and piece.immediates_only


def _takes_product(config: Config, piece: Piece) -> bool:
    weight, image = weight_of(piece), tensor_type_of(piece.inputs[0])
    if str(weight.dtype) != "int8":
        return False
    how = geometry(piece.core)
    if is_call(piece.core, "nn.conv2d"):
        attrs = piece.core.attrs
        if attrs.data_layout != "NCHW" or attrs.kernel_layout != "OIHW" or attrs.out_layout not in ("", "NCHW"):
            return False
    layer = convolution(config, four(image), weight.shape, **how)
    return not layer.refusal() and fits(config, layer)


def takes_max_pool(settings: Settings, call: Call) -> bool:
    """True for a maximum over windows of an int8 image."""
    attrs = call.attrs
    plain = _is_image(call.args[0]) and attrs.layout == "NCHW" and set(attrs.dilation) == {1}
    return plain and _pool_fits(settings, max_pool(settings.config, call))


def takes_reshape(call: Call) -> bool:
    """True if a reshape only drops or appends dimensions of 1 after images and channels."""
    if not _is_image(call.args[0]) or not _is_image(call):
        return False
    return four(tensor_type_of(call.args[0])) == four(tensor_type_of(call)) and four(tensor_type_of(call))[2:] == (1, 1)


def _is_image(expr: Expr) -> bool:
    type_ = expr.checked_type
    return (
        isinstance(type_, TensorType)
        and type_.is_static
        and str(type_.dtype) == "int8"
        and type_.ndim in (2, 4)
        and all(size > 0 for size in type_.shape)
    )


def four(type_: TensorType) -> tuple[int, int, int, int]:
    """The shape as images, channels, rows and columns."""
    n, c, h, w = (*map(int, type_.shape), 1, 1)[:4]
    return n, c, h, w


# ------------------------------------------------------------------------------------------------- how it is computed
def geometry(core: Call) -> dict[str, Any]:
    """Strides, padding, dilation and groups of a convolution; a dense layer has none."""
    if not is_call(core, "nn.conv2d"):
        return {}
    attrs = core.attrs
    return {
        "strides": tuple(attrs.strides),
        "padding": tuple(attrs.padding),
        "dilation": tuple(attrs.dilation),
        "groups": int(attrs.groups),
    }


def max_pool(config: Config, call: Call) -> Pool:
    """The pooling of a `nn.max_pool2d`."""
    attrs, image, out = call.attrs, four(tensor_type_of(call.args[0])), four(tensor_type_of(call))
    padding = tuple(attrs.padding)
    return Pool(
        "MAX", _blocks(config, image), image[2], image[3], attrs.pool_size, attrs.strides, padding, out[2], out[3]
    )


def whole_image(config: Config, type_: TensorType) -> Pool:
    """The sum over an image."""
    image = four(type_)
    return Pool("ADD", _blocks(config, image), *image[2:], image[2:], (1, 1), (0, 0, 0, 0), 1, 1)


def _blocks(config: Config, image: tuple[int, int, int, int]) -> int:
    return -(-image[0] // config.batch) * blocks_of(image[1], config)


def _pool_fits(settings: Settings, pool: Pool) -> bool:
    reserved = (1 << settings.config.log_acc_depth) // 8
    return pool_tiling(settings.config, pool, reserved, settings.threads) is not None


def by_patches(config: Config, core: Call, weight: Array) -> bool:
    """True if a convolution of an operand should be one of 1×1 over patches: less than half of its blocks are full."""
    how = geometry(core)
    taps, channels = weight.shape[2] * weight.shape[3], weight.shape[1]
    return how.get("groups", 1) == 1 and 2 * blocks_of(channels * taps, config) <= blocks_of(channels, config) * taps


def add_product(network: Network, piece: Piece, weight: Array, data: Tensor) -> Tensor:
    """A convolution or dense layer."""
    how, planes = geometry(piece.core), planes_of(piece, weight)
    return network.conv2d(data, weight, piece.steps, **how, name=_name(piece), planes=planes)


def add_product_of_patches(network: Network, piece: Piece, weight: Array, operand: int) -> Tensor:
    """A convolution of an input over patches, which the host gathers."""
    how, image = geometry(piece.core), four(tensor_type_of(piece.inputs[0]))
    layer = convolution(network.config, image, weight.shape, **how)
    patches = Patches(layer.kernel, layer.strides, layer.padding, layer.dilation)
    shape = (image[0], weight[0].size, layer.out_height, layer.out_width)
    gathered = network.image(shape, operand, patches, image)
    flat, planes = weight.reshape(len(weight), -1, 1, 1), planes_of(piece, weight)
    return network.conv2d(gathered, flat, piece.steps, name=_name(piece), planes=planes)


def planes_of(piece: Piece, weight: Array) -> int:
    """The bytes of a result: one if steps bring it to int8, else as many as the largest possible sum has."""
    if piece.steps:
        return 1
    most = 128 * int(np.abs(weight.astype(np.int64)).reshape(len(weight), -1).sum(axis=1).max(initial=0))
    return max(2, -(-(most.bit_length() + 1) // 8))


def _name(piece: Piece) -> str:
    assert isinstance(piece.core.op, Op)
    return piece.core.span or piece.core.op.name
