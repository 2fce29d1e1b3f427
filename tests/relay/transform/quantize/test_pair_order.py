"""An order of the depth keeps sums of neighbouring products within 16 bits, and the products what they are."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.relay.op.nn.dot_product import in_order
from tilewright.relay.transform.quantize.pair_order import pair_order

RNG = np.random.default_rng(5)
WEIGHTS = {
    "spread over 8 bits": lambda *shape: np.clip(RNG.normal(0, 30, shape).round(), -128, 127),
    "uniform": lambda *shape: RNG.integers(-128, 128, shape),
    "127": lambda *shape: np.full(shape, 127),
    "-128": lambda *shape: np.full(shape, -128),
    "-128 and 127": lambda *shape: RNG.choice([-128, 127], shape),
    "small": lambda *shape: RNG.integers(-64, 65, shape),
}


@pytest.mark.parametrize("block", [8, 16, 32])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_the_product_in_order_is_the_product(kind: str, block: int) -> None:
    weights = WEIGHTS[kind](64, 96).astype("int8")
    found = pair_order(weights, block)
    pairs = found.weights.reshape(64, -1, 2).astype(int)
    assert (255 * pairs.clip(min=0).sum(axis=2)).max() < 2**15 and (255 * pairs.clip(max=0).sum(axis=2)).min() >= -(
        2**15
    )
    data = np.concatenate([RNG.integers(0, 256, (3, 96)), np.full((1, 96), 255), np.zeros((1, 96), int)])
    copies = [data[:, 16 * window : 16 * window + 16] for window in found.copies]
    whole = np.concatenate([data, *copies], axis=1)
    sums = [
        in_order(whole, order) @ found.weights[block * panel : block * (panel + 1)].T.astype(int)
        for panel, order in enumerate(found.order)
    ]
    np.testing.assert_array_equal(np.concatenate(sums, axis=1) + found.added, data @ weights.T.astype(int))


@pytest.mark.parametrize(("kind", "copied"), [("127", False), ("-128", True), ("-128 and 127", True), ("small", False)])
def test_which_weights_take_copies_of_the_data(kind: str, copied: bool) -> None:
    weights = WEIGHTS[kind](64, 96).astype("int8")
    assert bool(pair_order(weights, 16).copies) is copied


def test_windows_that_chance_would_not_find() -> None:
    """Each input fits with one other alone, and none of them is at the distance of a mask from it."""
    partners = RNG.permutation(16).reshape(8, 2)
    weights = np.full((120, 16), 0)
    others = [(i, j) for i in range(16) for j in range(i) if not (partners == [i, j]).all(1).any()]
    others = [pair for pair in others if not (partners[:, ::-1] == pair).all(1).any()]
    for unit, (i, j) in enumerate(others):
        weights[unit, [i, j]] = -128, -128
    found = pair_order(np.tile(weights, (1, 5)).astype("int8"), 120)
    assert len(found.copies) == 8  # five windows that no pairing solves, in whole vectors
