"""Ranks by MPI, of `mpi4py`: started by mpiexec."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_
from tilewright.support.packages import package
from tilewright.training.distribute.ranks import Message
from tilewright.training.rules.optimizer import Array

#: Seconds between two looks at a message: MPI's own wait keeps a processor busy, which the backward pass needs.
_PAUSE = 50e-6


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
        self._call: tuple[str, float] | None = None  # the one that is made now, and when it must be over
        threading.Thread(target=self._watch, name="watch of ranks", daemon=True).start()

    def send(self, array: Array, to: int) -> Message:
        """Begin to send `array`."""
        return _Waited(self, self._group.Isend(self._buffer(array), to))

    def receive(self, array: Array, source: int) -> Message:
        """Begin to receive into `array`."""
        return _Waited(self, self._group.Irecv(self._buffer(array), source))

    def gather(self, own: Array, into: Array) -> None:
        """Collect `own` of every rank r as `into[r]`."""
        request = self._group.Iallgather(self._buffer(own), self._buffer(into))
        _Waited(self, request, "a collection from all ranks").wait()

    def broadcast(self, array: Array, root: int) -> None:
        """Overwrite `array` by that of rank `root`."""
        _Waited(self, self._group.Ibcast(self._buffer(array), root), f"values of rank {root}").wait()

    def _buffer(self, array: Array) -> list[object]:
        return [array.reshape(-1).view(np.uint8), self._bytes]

    @contextlib.contextmanager
    def watched(self, what: str) -> Iterator[None]:
        """End all ranks, with a message, where a call takes longer than the ranks wait: it cannot be broken off."""
        self._call = (what, time.monotonic() + self._timeout)
        try:
            yield
        finally:
            self._call = None

    def _watch(self) -> None:
        """Look whether a call takes too long, now and again."""
        while True:
            time.sleep(min(1.0, self._timeout / 4))
            call = self._call
            if call is not None and time.monotonic() > call[1]:
                self._abandon(call[0])

    def _abandon(self, what: str) -> None:
        text = (
            f"rank {self.rank}: another rank is gone, or was silent for {self._timeout:g} s, in {what}; all ranks end"
        )
        print(text, file=sys.stderr, flush=True)
        self._group.Abort(1)


class _Waited:
    """A message that the ranks' time is kept for."""

    def __init__(self, ranks: MpiRanks, request: Any, what: str = "a message of gradients or values") -> None:
        self._ranks, self._request, self._what = ranks, request, what

    def wait(self) -> None:
        with self._ranks.watched(self._what):
            while not self._request.Test():
                time.sleep(_PAUSE)
