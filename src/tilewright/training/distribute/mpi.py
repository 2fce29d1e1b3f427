"""Ranks by MPI, of `mpi4py`: started by mpiexec."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

import numpy as np

from tilewright.errors import EnvironmentError_
from tilewright.support.packages import package
from tilewright.training.rules.optimizer import Array


class MpiRanks:
    """The ranks of `MPI.COMM_WORLD`. MPI cannot go on without a rank: all of them end where one does, or is silent."""

    def __init__(self, timeout: float) -> None:
        """Join. Raises `EnvironmentError_` without mpi4py, and for an MPI that threads other than the first cannot use.

        Exchanges run beside the backward pass, one at a time, in a thread of their own.
        """
        mpi = package("mpi4py.MPI", "training on several ranks by MPI", "mpi")
        if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
            raise EnvironmentError_("this MPI cannot be called from several threads; it needs MPI_THREAD_SERIALIZED")
        self._bytes, self._group = mpi.BYTE, mpi.COMM_WORLD.Dup()
        self._timeout = timeout
        self.rank: int = self._group.Get_rank()
        self.size: int = self._group.Get_size()

    def exchange(self, parts: Array, into: Array) -> None:
        """Send `parts[r]` to rank r; `into[r]` is what came from it."""
        with self._watched("an exchange of gradients"):
            self._group.Alltoall(self._buffer(parts), self._buffer(into))

    def gather(self, own: Array, into: Array) -> None:
        """Collect `own` of every rank r as `into[r]`."""
        with self._watched("a collection from all ranks"):
            self._group.Allgather(self._buffer(own), self._buffer(into))

    def broadcast(self, array: Array, root: int) -> None:
        """Overwrite `array` by that of rank `root`."""
        with self._watched(f"values of rank {root}"):
            self._group.Bcast(self._buffer(array), root)

    def _buffer(self, array: Array) -> list[object]:
        return [array.reshape(-1).view(np.uint8), self._bytes]

    @contextlib.contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        """End all ranks, with a message, where a call takes longer than the ranks wait: it cannot be broken off."""
        timer = threading.Timer(self._timeout, self._abandon, (what,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _abandon(self, what: str) -> None:
        text = (
            f"rank {self.rank}: another rank is gone, or was silent for {self._timeout:g} s, in {what}; all ranks end"
        )
        print(text, file=sys.stderr, flush=True)
        self._group.Abort(1)
