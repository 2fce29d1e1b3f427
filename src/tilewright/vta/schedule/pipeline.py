"""Latency hiding: work in virtual threads, each with its part of the memories on the chip, and the tokens between.

A *tile* of outputs is made in *steps*: each loads inputs and weights and adds products of them to accumulators. With
two virtual threads the load unit fills one half of the memories while compute works on the other, and compute begins
the next tile in the other half of the accumulators while the last one is stored.

    load     1 2 1 2 1 2 …        (threads in turns; a number waits until compute is done with that half)
    compute    1 2 1 2 1 2 …
    store          1       2 …
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
class Tile:
    """A tile: `begin` of compute, its steps, `end` of compute, and what is stored.

    Where there is an `early` beginning, compute does that in place of `begin`, before the last step of the tile before.
    `more` are further ends, each of the same accumulators once what was before is stored, and what is stored then.
    """

    begin: Record
    steps: tuple[Step, ...]
    end: Record
    store: Record
    more: tuple[tuple[Record, Record], ...] = ()
    early: Record | None = None


def run_tiles(commands: Commands, tiles: Iterable[Tile], threads: int) -> None:
    """Record tiles in `threads` virtual threads (1 or 2); at the end, all that they wrote can be loaded."""
    steps = stored = 0  # `stored`: tokens of store that compute has not taken
    begun = False
    for number, (tile, following) in enumerate(itertools.pairwise([*tiles, None])):
        assert tile is not None, "there is nothing behind the last one"
        thread = number % threads
        if not begun:
            stored = _taken(commands, stored, threads - 1)
            tile.begin(thread)
        begun = False
        for index, step in enumerate(tile.steps):
            if index == len(tile.steps) - 1 and threads > 1 and following is not None and following.early is not None:
                stored = _taken(commands, stored, threads - 2)
                following.early((number + 1) % threads)
                begun = True
            turn = steps % threads
            if steps >= threads:
                commands.wait("load", "compute")
            step.load(turn)
            commands.signal("load", "compute")
            commands.wait("compute", "load")
            step.compute(thread, turn)
            commands.signal("compute", "load")
            steps += 1
        for index, (end, store) in enumerate(((tile.end, tile.store), *tile.more)):
            if index:
                stored = _taken(commands, stored, 0)
            end(thread)
            commands.signal("compute", "store")
            commands.wait("store", "compute")
            store(thread)
            commands.signal("store", "compute")
            stored += 1
    _barrier(commands, min(steps, threads), stored)


def _taken(commands: Commands, tokens: int, left: int) -> int:
    """Let compute take tokens of store until so many are left: how many are."""
    for _ in range(left, tokens):
        commands.wait("compute", "store")
    return min(tokens, left)


def _barrier(commands: Commands, from_compute: int, from_store: int) -> None:
    """Take the tokens that are left, and let load wait until all is stored."""
    for _ in range(from_store):
        commands.wait("compute", "store")
    commands.signal("compute", "load")
    for _ in range(from_compute + 1):
        commands.wait("load", "compute")
