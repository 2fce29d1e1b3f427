"""Ranks: processes that train one model together, and the three exchanges between them that a training needs.

`torchrun --nproc-per-node 4 train.py` starts ranks that speak by gloo, `mpiexec -n 4 python train.py` by MPI. Bytes
move and nothing is added up on the way: sums are taken here, in the order of the ranks, so that both engines, and every
run, have the same bits.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from tilewright.errors import EnvironmentError_
from tilewright.training.rules.optimizer import Array

#: Seconds that a rank waits for the others in one exchange, unless a training says otherwise.
TIMEOUT = 60.0


class RankLost(EnvironmentError_):
    """Another rank did not take part in an exchange in time, or is gone."""


@runtime_checkable
class Ranks(Protocol):
    """The ranks of a training, seen from one. Each call is made by all of them, in the same order; arrays are dense."""

    rank: int
    size: int

    def exchange(self, parts: Array, into: Array) -> None:
        """Send `parts[r]` to rank r; `into[r]` is what came from it. Raises `RankLost`."""

    def gather(self, own: Array, into: Array) -> None:
        """Collect `own` of every rank r as `into[r]`. Raises `RankLost`."""

    def broadcast(self, array: Array, root: int) -> None:
        """Overwrite `array` by that of rank `root`. Raises `RankLost`."""


class Alone:
    """A training of one rank."""

    rank, size = 0, 1

    def exchange(self, parts: Array, into: Array) -> None:
        """Copy the only part."""
        np.copyto(into, parts)

    def gather(self, own: Array, into: Array) -> None:
        """Copy the only part."""
        np.copyto(into[0], own)

    def broadcast(self, array: Array, root: int) -> None:
        """Leave the array."""
