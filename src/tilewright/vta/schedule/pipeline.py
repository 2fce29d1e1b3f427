"""Latency hiding: work in virtual threads, each with its part of the memories on the chip, and the tokens between.

A *tile* of outputs is made in *steps*: each loads inputs and weights and adds products of them to accumulators. With
two virtual threads the load unit fills one half of the memories while compute works on the other, and compute begins
the next tile in the other half of the accumulators while the last one is stored.

    load     1 2 1 2 1 2 …        (threads in turns; a number waits until compute is done with that half)
    compute    1 2 1 2 1 2 …
    store          1       2 …

A tile ends in *pieces*, so that one is stored while the next is rescaled. Compute begins its instructions in the order
of the program, and signals their tokens in that order too. So the pieces stand between the steps of the following tile:
behind its first, which the matrix unit has at hand when it is done with this one, and before its last, during which the
accumulators are stored and set for the tile after that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tilewright.vta.commands import Commands

#: What records instructions for a tile: given the virtual thread whose accumulators it has.
Record = Callable[[int], None]


@dataclass(frozen=True)
class Step:
    """One part of a tile's sum: `load` into the buffers of a turn, `compute` from these for the tile's thread."""

    load: Callable[[int], None]
    compute: Callable[[int, int], None]


@dataclass(frozen=True)
class Piece:
    """Accumulators of a tile from `low` to before `high`: `begin` and `end` of compute, and what is stored.

    `more` are further ends, each of the same accumulators once what was before is stored, and what is stored then.
    """

    begin: Record
    end: Record
    store: Record
    low: int = 0
    high: int = 1
    more: tuple[tuple[Record, Record], ...] = ()


@dataclass(frozen=True)
class Tile:
    """A tile: its pieces and steps. With `early` it begins behind the last step of the tile before."""

    pieces: tuple[Piece, ...]
    steps: tuple[Step, ...] = ()
    early: bool = False


def run_tiles(commands: Commands, tiles: Iterable[Tile], threads: int) -> None:
    """Record tiles in `threads` virtual threads (1 or 2); at the end, all that they wrote can be loaded."""
    run = _Run(commands, threads)
    begun = False
    for number, (tile, following) in enumerate(itertools.pairwise([*tiles, None])):
        assert tile is not None, "there is nothing behind the last one"
        thread = number % threads
        if not begun:
            run.end_pieces()
            run.begin(tile, thread)
        last = len(tile.steps) - 1
        waiting = len(run.pending)
        for index, step in enumerate(tile.steps):
            run.step(step, thread)
            run.end_pieces(waiting - waiting * (index + 2) // (last + 1))
        begun = threads > 1 and following is not None and following.early and bool(tile.steps)
        if begun and following is not None:
            run.begin(following, (number + 1) % threads)
        run.pending = [(piece, thread) for piece in tile.pieces]
        if not begun or following is None or len(following.steps) == 1:
            run.end_pieces()
    run.end_pieces()
    run.barrier()


class _Run:
    """The recorded program: steps, and pieces by thread with the number of the token that signals their storing."""

    def __init__(self, commands: Commands, threads: int) -> None:
        self.commands, self.threads = commands, threads
        self.steps = self.stored = self.taken = 0
        self.pending: list[tuple[Piece, int]] = []
        self.left: list[list[tuple[Piece, int]]] = [[] for _ in range(threads)]

    def begin(self, tile: Tile, thread: int) -> None:
        """Begin each piece once what lay there is stored."""
        for piece in tile.pieces:
            before = [number for old, number in self.left[thread] if old.low < piece.high and piece.low < old.high]
            self._wait_for(max(before, default=0))
            piece.begin(thread)
        self._wait_for(max((number for _, number in self.left[thread]), default=0))
        self.left[thread].clear()

    def step(self, step: Step, thread: int) -> None:
        """Load, and compute from it."""
        commands, turn = self.commands, self.steps % self.threads
        if self.steps >= self.threads:
            commands.wait("load", "compute")
        step.load(turn)
        commands.signal("load", "compute")
        commands.wait("compute", "load")
        step.compute(thread, turn)
        commands.signal("compute", "load")
        self.steps += 1

    def end_pieces(self, left: int = 0) -> None:
        """End and store the pieces that wait for it, but for the last `left`."""
        count = max(0, len(self.pending) - max(0, left))
        for piece, thread in self.pending[:count]:
            for index, (end, store) in enumerate(((piece.end, piece.store), *piece.more)):
                if index:
                    self._wait_for(self.stored)
                end(thread)
                self.commands.signal("compute", "store")
                self.commands.wait("store", "compute")
                store(thread)
                self.commands.signal("store", "compute")
                self.stored += 1
            self.left[thread].append((piece, self.stored))
        del self.pending[:count]

    def _wait_for(self, stored: int) -> None:
        """Let compute take tokens of store until it has so many."""
        for _ in range(self.taken, stored):
            self.commands.wait("compute", "store")
        self.taken = max(self.taken, stored)

    def barrier(self) -> None:
        """Take the tokens that are left, and let load wait until all is stored."""
        self._wait_for(self.stored)
        self.commands.signal("compute", "load")
        for _ in range(min(self.steps, self.threads) + 1):
            self.commands.wait("load", "compute")
