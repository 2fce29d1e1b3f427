"""Random numbers from a key and a counter: the Threefry-2x64 generator (Salmon et al., 2011), twenty rounds.

A key of classic Relay is a uint64 vector of 10: the four words of the key, the four of the position, and two that say
how often it was split. Here the first two words are the cipher's key and the next two its counter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.runtime.host_ops.registry import host_op

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]

_ROTATIONS = (16, 42, 12, 31, 16, 32, 24, 21)
_PARITY = np.uint64(0x1BD11BDAA9FC1A22)


def threefry2x64(key: Array, counter: Array) -> Array:
    """The cipher on uint64 words: `key` [2], `counter` [n, 2] to [n, 2]."""
    with np.errstate(over="ignore"):
        words = [key[0], key[1], _PARITY ^ key[0] ^ key[1]]
        x, y = counter[:, 0] + words[0], counter[:, 1] + words[1]
        for turn in range(20):
            bits = np.uint64(_ROTATIONS[turn % 8])
            x = x + y
            y = ((y << bits) | (y >> (np.uint64(64) - bits))) ^ x
            if turn % 4 == 3:
                step = turn // 4 + 1
                x = x + words[step % 3]
                y = y + words[(step + 1) % 3] + np.uint64(step)
        return np.stack([x, y], 1)


def _words(key: Array, count: int) -> Array:
    """The next `count` words of the stream of `key`."""
    blocks = np.arange(-(-count // 2), dtype=np.uint64)
    counter = np.stack([key[2] + blocks, np.broadcast_to(key[3], blocks.shape)], 1)
    return threefry2x64(key[:2], counter).reshape(-1)[:count]


def _moved(key: Array, count: int) -> Array:
    """`key` behind the words that were taken."""
    after = key.copy()
    after[2] += np.uint64(-(-count // 2))
    return after


@host_op("random.threefry_generate")
def generate(attrs: Attrs, key: Array) -> tuple[Array, Array]:
    """(the key behind what was taken, random words of `out_shape`)."""
    count = int(np.prod(attrs["out_shape"]))
    return _moved(key, count), _words(key, count).reshape(attrs["out_shape"])


@host_op("random.threefry_split")
def split(attrs: Attrs, key: Array) -> tuple[Array, Array]:
    """Two keys whose streams have nothing to do with each other."""
    halves = []
    for side in (0, 1):
        counter = np.array([[key[2], key[3] ^ np.uint64(1 << 63) ^ np.uint64(side)]], np.uint64)
        fresh = np.zeros_like(key)
        fresh[:2] = threefry2x64(key[:2], counter)[0]
        halves.append(fresh)
    return halves[0], halves[1]


@host_op("random.uniform")
def uniform(attrs: Attrs, key: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """(the key behind what was taken, numbers of `out_shape` spread evenly over [low, high))."""
    count, dtype = int(np.prod(attrs["out_shape"])), np.dtype(attrs["out_dtype"])
    mantissa = 24 if dtype == np.float32 else 53
    share = (_words(key, count) >> np.uint64(64 - mantissa)).astype(dtype) * dtype.type(2.0**-mantissa)
    return _moved(key, count), (low + share * (high - low)).astype(dtype).reshape(attrs["out_shape"])
