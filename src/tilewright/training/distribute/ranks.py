"""Ranks: processes that train one model together, and the messages between them that a training needs.

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


class Message(Protocol):
    """A message on its way; its array is the engine's until `wait` is over."""

    def wait(self) -> object:
        """Return when it is sent, or there. Raises `RankLost`."""


@runtime_checkable
class Ranks(Protocol):
    """The ranks of a training, seen from one. Arrays are dense; `gather` and `broadcast` are calls of all ranks.

    Messages from one rank to another arrive in the order in which they were sent.
    """

    rank: int
    size: int

    def send(self, array: Array, to: int) -> Message:
        """Begin to send `array` to another rank. Raises `RankLost`."""

    def receive(self, array: Array, source: int) -> Message:
        """Begin to receive what another rank sends into `array`, which has its bytes. Raises `RankLost`."""

    def gather(self, own: Array, into: Array) -> None:
        """Collect `own` of every rank r as `into[r]`. Raises `RankLost`."""

    def broadcast(self, array: Array, root: int) -> None:
        """Overwrite `array` by that of rank `root`. Raises `RankLost`."""


class Alone:
    """A training of one rank."""

    rank, size = 0, 1

    def send(self, array: Array, to: int) -> Message:
        """There is nobody to send to."""
        raise RankLost(f"there is no rank {to}")

    receive = send

    def gather(self, own: Array, into: Array) -> None:
        """Copy the only part."""
        np.copyto(into[0], own)

    def broadcast(self, array: Array, root: int) -> None:
        """Leave the array."""
