"""Offsets of buffers that may share bytes: no two that must not, and chains that take little more than the largest."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.relay.transform.memory.shared_offsets import Piece, shared_offsets


def _size(pieces: list[Piece], offsets: dict[object, int]) -> int:
    return max(offsets[piece.key] + piece.nbytes for piece in pieces)


def test_a_chain_of_results_over_inputs_takes_the_largest_and_what_they_are_apart() -> None:
    pieces = [Piece("a", 1000, 0, 1), Piece("b", 1000, 1, 2), Piece("c", 2000, 2, 3), Piece("d", 500, 3, 4)]
    distances = {("a", "b"): 104, ("b", "c"): 1000, ("c", "d"): 16}
    offsets = shared_offsets(pieces, distances, 8)
    assert _size(pieces, offsets) <= 2000 + 104 + 16
    assert _size(pieces, shared_offsets(pieces, {}, 8)) == 3000


@pytest.mark.parametrize("seed", range(30))
def test_no_two_buffers_share_bytes_that_may_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pieces = []
    for key in range(int(rng.integers(2, 14))):
        first = int(rng.integers(0, 10))
        pieces.append(Piece(key, int(rng.integers(1, 300)), first, first + int(rng.integers(0, 4))))
    distances = {
        (a.key, b.key): int(rng.integers(-a.nbytes, b.nbytes))
        for a in pieces
        for b in pieces
        if a is not b and a.last == b.first and rng.integers(2)
    }
    offsets = shared_offsets(pieces, distances, 8)
    assert min(offsets.values()) == 0 and all(offset % 8 == 0 for offset in offsets.values())
    for a in pieces:
        for b in pieces:
            if a.key == b.key or a.first > b.last or b.first > a.last:
                continue
            p, q = offsets[a.key], offsets[b.key]
            apart = p + a.nbytes <= q or q + b.nbytes <= p
            over = (a.key, b.key) in distances and p - q >= distances[a.key, b.key]
            under = (b.key, a.key) in distances and q - p >= distances[b.key, a.key]
            assert apart or over or under, (a, b, p, q)
