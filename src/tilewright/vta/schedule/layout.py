"""Images and weights as tiles in DRAM: channels in blocks, small groups of channels joined until they fill blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.vta.config import Config

Array = np.ndarray[Any, Any]


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
    """How many of `groups` groups become one, so that what is left shares no tile of channels with its neighbours.

    `inputs` and `outputs` are channels of one group.
    """
    for joined in range(1, groups + 1):
        if groups % joined == 0 and (joined * inputs) % config.block == 0 and (joined * outputs) % config.block == 0:
            return joined
    least = math.lcm(config.block // math.gcd(inputs, config.block), config.block // math.gcd(outputs, config.block))
    return groups if inputs != outputs or inputs > config.block else min(least, groups)


def pack_weights(weight: Array, groups: int, config: Config) -> tuple[Array, int]:
    """[outputs, inputs of a group, rows, columns] as tiles of block × block, and the groups that are left.

    Tiles are in the order group · output block · input block · row · column. Products across the groups that were
    joined are with zeros.
    """
    outputs, inputs, rows, columns = weight.shape
    per_group = outputs // groups
    joined = joined_groups(groups, inputs, per_group, config)
    left = -(-groups // joined)
    ins, outs = blocks_of(joined * inputs, config), blocks_of(joined * per_group, config)
    dense = np.zeros((left, outs * config.block, ins * config.block, rows, columns), weight.dtype)
    for group in range(groups):
        to, place = divmod(group, joined)
        o, i = place * per_group, place * inputs
        dense[to, o : o + per_group, i : i + inputs] = weight[group * per_group : (group + 1) * per_group]
    tiles = dense.reshape(left, outs, config.block, ins, config.block, rows, columns).transpose(0, 1, 3, 5, 6, 2, 4)
    return tiles.reshape(-1, config.block, config.block), left
