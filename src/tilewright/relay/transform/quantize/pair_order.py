"""An order of the depth for each panel of weights in which the sums of neighbouring products fit 16 bits.

pmaddubsw multiplies unsigned bytes x by signed w and adds pairs of products in 16 bits, which it limits. No pair of
weights exceeds them, whatever it meets, if the sum of its positive ones and that of its negative ones are at most 128:
255 * 128 < 2**15. One of two large weights of one sign may be negated, if x is too: x w = 255 w + (255 - x) (-w). So
two inputs can be neighbours if |v + w| <= 128 for each unit of the panel, or |v - w| <= 128 for each; they are looked
for among 16, which one instruction permutes.

Before: weights of a panel's unit  [100, 90, -3, 5, ...]
After:  order [0, 2, 1 + 16, 3, ...], weights [100, -3, -90, 5, ...], and 255 * 90 is added to the unit's sums
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.tir.table_lookup import ENTRIES

#: The largest sum of two weights of one sign: 255 times it fits 16 bits, and so does -255 times it.
_MOST = 128

#: Attempts to pair the inputs of a window by chance, and the share of windows that they are worth.
_ATTEMPTS, _FEW = 16, 0.25

#: Windows of data that are copied together, 64 bytes.
_TOGETHER = 4


class PairOrder(NamedTuple):
    """`order` [panels, depth] as `topi.nn.dot_product.ordered_byte` reads it, the weights [units, depth] in it, and
    what is to be added to each unit's sums. The windows `copies` of the data are to follow the data.
    """

    order: np.ndarray
    weights: np.ndarray
    added: np.ndarray
    copies: tuple[int, ...]


def pair_order(weights: np.ndarray, block: int) -> PairOrder:
    """The order for int8 weights [units, depth] in panels of `block` units.

    Inputs of a window that cannot be paired meet zeros, half of them in a copy of the window.
    """
    units, depth = weights.shape
    panels, windows = units // block, depth // ENTRIES
    parts = weights.reshape(panels, block, windows, ENTRIES).transpose(1, 0, 2, 3)
    apart = parts.reshape(block, panels * windows, ENTRIES).astype(np.int16)
    order, turned, left = _orders(apart)
    moved = np.take_along_axis(apart, order[None].astype(np.int64), axis=2)
    added = 255 * np.where(turned, moved, 0).sum(axis=2, dtype=np.int64).reshape(block, panels, windows).sum(axis=2)
    whole = np.where(turned, -moved, moved).astype(np.int8).reshape(block, panels, windows, ENTRIES)
    table = (order + ENTRIES * turned).astype(np.uint8).reshape(panels, windows, ENTRIES)
    copies = tuple(np.unique(left % windows).tolist())
    if copies:
        copies += (0,) * (-len(copies) % _TOGETHER)
        whole = np.pad(whole, ((0, 0), (0, 0), (0, len(copies)), (0, 0)))
        table = np.pad(table, ((0, 0), (0, len(copies)), (0, 0)))
        for panel, window in zip(*divmod(left, windows)):
            for part, at in enumerate((window, windows + copies.index(window))):
                half = np.arange(ENTRIES // 2 * part, ENTRIES // 2 * (part + 1))
                whole[:, panel, at] = 0
                whole[:, panel, at, ::2] = apart[:, panel * windows + window, half]
                table[panel, at] = half.repeat(2)
    return PairOrder(
        table.reshape(panels, -1),
        whole.transpose(1, 0, 2, 3).reshape(units, -1),
        added.T.reshape(units),
        copies,
    )


def _orders(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The order of each window of [block, windows, 16], which of its inputs are turned, and the windows without one.

    Inputs i and i ^ mask are tried for each mask, which leaves a few windows in a hundred for a search.
    """
    count = weights.shape[1]
    order, turned = np.zeros((count, ENTRIES), np.uint8), np.zeros((count, ENTRIES), bool)
    left = np.arange(count)
    for mask in range(1, ENTRIES):
        first = [i for i in range(ENTRIES) if i < i ^ mask]
        tried = np.array([i for j in first for i in (j, j ^ mask)])
        turned[left], fits = _turned(weights[:, left][..., tried])
        order[left] = tried
        left = left[~fits]
    rng = np.random.default_rng(0)
    neighbours = _neighbours(weights[:, left])
    for _ in range(_ATTEMPTS if left.size <= _FEW * count else 0):
        order[left] = tries = _matched(neighbours, rng)
        turned[left], fits = _turned(np.take_along_axis(weights[:, left], tries[None].astype(np.int64), axis=2))
        left, neighbours = left[~fits], neighbours[~fits]
    turned[left] = False
    return order, turned, left


def _turned(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inputs of windows [block, windows, 16] to turn, and the windows whose pairs of neighbours fit then."""
    first, second = weights[..., ::2], weights[..., 1::2]
    plain, opposite = (np.abs(both).max(axis=0) <= _MOST for both in (first + second, first - second))
    may = weights.min(axis=0) > np.iinfo(np.int8).min  # 128 is no int8
    turned = np.zeros(weights.shape[1:], bool)
    turned[:, 1::2] = ~plain & opposite & may[:, 1::2]
    turned[:, ::2] = ~plain & opposite & may[:, ::2] & ~may[:, 1::2]
    return turned, (plain | turned[:, 1::2] | turned[:, ::2]).all(axis=1)


def _neighbours(weights: np.ndarray) -> np.ndarray:
    """True for two inputs of a window that can be neighbours: [windows, 16, 16]."""
    fits = np.zeros((weights.shape[1], ENTRIES, ENTRIES), bool)
    may = weights.min(axis=0) > np.iinfo(np.int8).min
    for i in range(ENTRIES):
        one = weights[..., i : i + 1]
        plain, opposite = (np.abs(both).max(axis=0) <= _MOST for both in (one + weights, one - weights))
        fits[:, i] = plain | opposite & (may | may[:, i : i + 1])
        fits[:, i, i] = False
    return fits


def _matched(neighbours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The inputs of each window in pairs, those with the fewest neighbours left first, of equals any."""
    count = len(neighbours)
    every, free, order = np.arange(count), np.ones((count, ENTRIES), bool), np.zeros((count, ENTRIES), np.uint8)
    for position in range(0, ENTRIES, 2):
        chance = rng.random((count, ENTRIES))
        degree = (neighbours & free[:, None]).sum(axis=2) + chance
        one = np.where(free, degree, np.inf).argmin(axis=1)
        free[every, one] = False
        beside = neighbours[every, one] & free
        other = np.where(beside, degree, np.where(free, 2 * ENTRIES, np.inf)).argmin(axis=1)
        free[every, other] = False
        order[:, position], order[:, position + 1] = one, other
    return order
