"""Ranks that are threads of this process, for tests without an engine."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np


class _Sent:
    def wait(self) -> None:
        pass


class _Awaited:
    def __init__(self, line: queue.SimpleQueue[np.ndarray], array: np.ndarray) -> None:
        self.line, self.array = line, array

    def wait(self) -> None:
        found = self.line.get(timeout=60)
        assert found.nbytes == self.array.nbytes
        np.copyto(self.array, found)


class ThreadRanks:
    """One of `size` ranks; messages are copies in queues, one for each pair."""

    def __init__(self, rank: int, size: int, lines: dict[tuple[int, int], Any]) -> None:
        self.rank, self.size, self.lines = rank, size, lines

    def send(self, array: np.ndarray, to: int) -> _Sent:
        self.lines[self.rank, to].put(np.array(array))
        return _Sent()

    def receive(self, array: np.ndarray, source: int) -> _Awaited:
        return _Awaited(self.lines[source, self.rank], array)

    def gather(self, own: np.ndarray, into: np.ndarray) -> None:
        for rank in range(self.size):
            self.lines[self.rank, rank].put(np.array(own).reshape(into[0].shape))
        for rank in range(self.size):
            into[rank] = self.lines[rank, self.rank].get(timeout=60)

    def broadcast(self, array: np.ndarray, root: int) -> None:
        if self.rank == root:
            for rank in range(self.size):
                self.lines[root, rank].put(np.array(array))
        array[...] = self.lines[root, self.rank].get(timeout=60)


def in_threads(size: int, work: Callable[[ThreadRanks], Any]) -> list[Any]:
    """The results of `work` of each rank."""
    lines = {(one, other): queue.SimpleQueue() for one in range(size) for other in range(size)}
    with ThreadPoolExecutor(size) as pool:
        ranks = [ThreadRanks(rank, size, lines) for rank in range(size)]
        return [future.result() for future in [pool.submit(work, one) for one in ranks]]
