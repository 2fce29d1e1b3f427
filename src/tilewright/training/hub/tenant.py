"""A training on the hub: its parameters and state by chunks, and the workers that take part."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tilewright.errors import InputError, RpcError
from tilewright.runtime.memory import Array
from tilewright.training.hub.kernel import Kernel
from tilewright.training.hub.layout import Layout
from tilewright.training.hub.shared import Shared


class Broken(RpcError):
    """A training that cannot go on, as a worker has left it or is silent."""


class _Chunk:
    """Parameters and state of one chunk, before and after a step in turns, and the gradients that came for the next."""

    def __init__(self, first: list[Array], workers: int) -> None:
        self.values = [first, [np.copy(value) for value in first]]
        self.step = 0
        self.gradients: list[Array | None] = [None] * workers

    @property
    def now(self) -> list[Array]:
        """Parameters, then state."""
        return self.values[self.step % 2]


class Tenant:
    """One training. Its chunks are shared out among threads, which have a lock and a kernel each.

    `owner` is the user whose certificate the first worker had.
    """

    def __init__(self, name: str, owner: str, layout: Layout, kernel: Kernel, workers: int, timeout: float) -> None:
        self.name, self.owner, self.layout, self.workers, self.timeout = name, owner, layout, workers, timeout
        self._kernels = [kernel, *[kernel.copy() for _ in range(layout.shards - 1)]]
        self._turns = [threading.Condition() for _ in range(layout.shards)]
        self._first = kernel.first
        self._chunks: list[_Chunk] = []
        self._ready = threading.Condition()
        self.members: set[int] = set()
        self.broken = ""
        self.optimizer: dict[str, Any] = {}
        self.shared: Shared | None = None

    @property
    def step(self) -> int:
        """The steps that are done."""
        return min((chunk.step for chunk in self._chunks), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes of parameters and state, twice, of a chunk for each worker and thread, and of memory that is shared."""
        layout = self.layout
        arrays = 2 * (1 + sum(np.shape(value) == (layout.elements,) for value in self._first.values()))
        if self.shared is not None:
            arrays += 1 + self.workers
        return layout.elements * 4 * (arrays * layout.chunks + self.workers * layout.shards)

    def begin(self, flat: Array) -> None:
        """Set the first parameters, [chunks, elements]."""
        state = [*self._first.values()]
        if self.shared is not None:
            np.copyto(self.shared.parameters, flat)
        chunks = [_Chunk([part, *[value.copy() for value in state]], self.workers) for part in flat]
        with self._ready:
            self._chunks = chunks
            self._ready.notify_all()

    def wait_begun(self) -> None:
        """Wait until worker 0 has sent the first parameters. Raises `Broken`."""
        with self._ready:
            if not self._ready.wait_for(lambda: self._chunks or self.broken, self.timeout) or self.broken:
                raise Broken(self.broken or f"worker 0 of {self.name!r} did not come within {self.timeout:g} s")

    def parameters(self) -> list[Array]:
        """The parameters of all chunks as they are."""
        return [chunk.now[0] for chunk in self._chunks]

    def step_chunk(self, number: int, step: int, rank: int, gradient: Array) -> Array:
        """The parameters of a chunk after `step`, by the gradients of all workers, for which it waits.

        Raises `InputError` for a step that is not the next one, `Broken`.
        """
        shard, chunk = number % self.layout.shards, self._chunks[number]
        turn = self._turns[shard]
        with turn:
            if step != chunk.step or chunk.gradients[rank] is not None:
                raise InputError(f"gradients of step {step} came for {self.name!r}, which is at step {chunk.step}")
            chunk.gradients[rank] = gradient
            present = [one for one in chunk.gradients if one is not None]
            if len(present) == self.workers:
                self._kernels[shard](present, chunk.now, chunk.values[(step + 1) % 2])
                if self.shared is not None:
                    np.copyto(self.shared.parameters[number], chunk.values[(step + 1) % 2][0])
                chunk.gradients = [None] * self.workers
                chunk.step = step + 1
                turn.notify_all()
            elif not turn.wait_for(lambda: chunk.step > step or self.broken, self.timeout):
                silent = [r for r, one in enumerate(chunk.gradients) if one is None]
                self.broken = f"worker {silent[0]} of {self.name!r} was silent for {self.timeout:g} s in step {step}"
            if chunk.step == step:
                raise Broken(f"{self.broken}; begin again from a checkpoint")
            return chunk.values[(step + 1) % 2][0]

    def leave(self, rank: int) -> None:
        """A worker is gone: those that wait for it learn it."""
        self.members.discard(rank)
        if self.members and not self.broken:
            self.broken = f"worker {rank} of {self.name!r} has left in step {self.step}"
        for turn in (*self._turns, self._ready):
            with turn:
                turn.notify_all()
