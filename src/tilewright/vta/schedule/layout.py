"""Images and weights as tiles in DRAM: channels in blocks, small groups of channels joined until they fill blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.vta.config import Config

Array = np.ndarray[Any, Any]
Pair = Sequence[int]
Four = Sequence[int]


def blocks_of(channels: int, config: Config) -> int:
    """Blocks that hold `channels` channels."""
    return -(-channels // config.block)


def pack_image(image: Array, config: Config) -> Array:
    """[images, channels, rows, columns] as tiles: image blocks · channel blocks · rows · columns of batch × block."""
    n, c, h, w = image.shape
    batches, blocks = -(-n // config.batch), blocks_of(c, config)
    padded = np.zeros((batches * config.batch, blocks * config.block, h, w), image.dtype)
    padded[:n, :c] = image
    tiles = padded.reshape(batches, config.batch, blocks, config.block, h, w).transpose(0, 2, 4, 5, 1, 3)
    return tiles.reshape(-1, config.batch, config.block)


def unpack_image(tiles: Array, shape: tuple[int, int, int, int], config: Config) -> Array:
    """The image of `shape` that `pack_image` made tiles of."""
    n, c, h, w = shape
    batches, blocks = -(-n // config.batch), blocks_of(c, config)
    image = tiles.reshape(batches, blocks, h, w, config.batch, config.block).transpose(0, 4, 1, 5, 2, 3)
    return np.ascontiguousarray(image.reshape(batches * config.batch, blocks * config.block, h, w)[:n, :c])


def joined_groups(groups: int, inputs: int, outputs: int, config: Config) -> int:
    """The number of `groups` joined to one, so that the rest shares no tile of channels with its neighbours.

    `inputs` and `outputs` are channels of one group.
    """
    for joined in range(1, groups + 1):
        if groups % joined == 0 and (joined * inputs) % config.block == 0 and (joined * outputs) % config.block == 0:
            return joined
    least = math.lcm(config.block // math.gcd(inputs, config.block), config.block // math.gcd(outputs, config.block))
    return groups if inputs != outputs or inputs > config.block else min(least, groups)


def group_blocks(groups: int, inputs: int, outputs: int, config: Config) -> tuple[int, int, int]:
    """Groups that are left when small ones are joined, with their blocks of outputs and of inputs."""
    joined = joined_groups(groups, inputs, outputs, config)
    return -(-groups // joined), blocks_of(joined * outputs, config), blocks_of(joined * inputs, config)


def pack_weights(weight: Array, groups: int, config: Config) -> Array:
    """[outputs, inputs of a group, rows, columns] as tiles of block × block, by `group_blocks`.

    Their order is group · output block · input block · row · column. Products across joined groups are with zeros.
    """
    outputs, inputs, rows, columns = weight.shape
    per_group = outputs // groups
    joined = joined_groups(groups, inputs, per_group, config)
    left, outs, ins = group_blocks(groups, inputs, per_group, config)
    dense = np.zeros((left, outs * config.block, ins * config.block, rows, columns), weight.dtype)
    for group in range(groups):
        to, position = divmod(group, joined)
        o, i = position * per_group, position * inputs
        dense[to, o : o + per_group, i : i + inputs] = weight[group * per_group : (group + 1) * per_group]
    tiles = dense.reshape(left, outs, config.block, ins, config.block, rows, columns).transpose(0, 1, 3, 5, 6, 2, 4)
    return tiles.reshape(-1, config.block, config.block)


def patches(image: Array, kernel: Pair, strides: Pair, padding: Four, dilation: Pair) -> Array:
    """The elements that each output of a convolution reads, as channels: [images, channels · taps, rows, columns] of
    the result.
    """
    top, left, bottom, right = padding
    padded = np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    taps = windows[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]].transpose(0, 1, 4, 5, 2, 3)
    return taps.reshape(image.shape[0], -1, *taps.shape[4:])
