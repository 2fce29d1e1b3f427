"""Set conflicts of pieces of memory at equal distances in caches of a few ways: the planes of an image, rows of a
matrix.

A cache of W ways puts lines whose addresses differ by a multiple of size / W into one set. The 1024 planes of 64x64
floats lie 16 KiB apart, so a line of each needs 1024 ways of eight sets of a level-2 cache that has 16.
"""

from __future__ import annotations

import math

from tilewright.machine import Machine


def occupied_bytes(count: float, pieces: int, stride: int, machine: Machine) -> float:
    """The bytes of cache that `count` bytes in `pieces` that begin `stride` bytes apart keep others from."""
    shared = math.gcd(stride, machine.l2.size // machine.l2.ways)
    return max(count, float(pieces * shared))


def rows_in_sets(stride: int, machine: Machine) -> int:
    """Rows `stride` bytes apart, at least one, of each of which the first-level cache keeps a line.

    They have half of the ways of the sets that they fall into: what is read beside them passes through the others.
    27 rows of 2 KiB, which fall into two sets of eight ways, make a product take 1.7 times as long as 8 of them.
    """
    way = machine.l1.size // machine.l1.ways
    sets = way // math.gcd(max(stride, 1), way) if stride % machine.line == 0 else way // machine.line
    return max(1, sets * machine.l1.ways // 2)
