"""Checkpoints of several ranks, from which they begin again together where one has died.

Each rank writes its own. After a kill they may differ by a step: the last one that counts is the newest that all have.
Where ranks have the same state, as without shards, one of them is enough: the others take it from there, so that a
machine that is replaced, or came with an empty folder, costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import InputError
from tilewright.support.cache import atomic_file
from tilewright.training.checkpoint import Checkpoint, Checkpoints, read_checkpoint
from tilewright.training.distribute.ranks import Alone, Ranks


@dataclass(frozen=True)
class RankCheckpoints(Checkpoints):
    """Checkpoints of this rank in `folder/rank-N`. `alike` says that all ranks have the same state."""

    ranks: Ranks = field(default_factory=Alone)
    alike: bool = False

    def last(self) -> Checkpoint | None:
        """The last checkpoint of all ranks, if there is one; called by all of them. Raises `InputError`."""
        own = np.full(self.keep, -1, np.int64)
        steps = self.steps()[-self.keep :]
        own[: len(steps)] = steps
        every = np.empty((self.ranks.size, self.keep), np.int64)
        self.ranks.gather(own, every)
        found = {int(step) for step in every.ravel() if step >= 0}
        common = found if self.alike else {step for step in found if (every == step).any(axis=1).all()}
        if not found:
            return None
        if not common:
            ends = ", ".join(f"rank {rank} {int(row.max())}" for rank, row in enumerate(every))
            raise InputError(
                f"the ranks have no checkpoint of one step (the last are: {ends}; -1 is none), and each has a part of "
                f"the state; remove {self.folder} on all machines to begin anew"
            )
        step = max(common)
        if self.alike:
            self._take(step, int((every == step).any(axis=1).argmax()))
        return read_checkpoint(self.path(step))

    def _take(self, step: int, root: int) -> None:
        """Take the checkpoint that rank `root` has, where this one has none of that step."""
        path = self.path(step)
        size = np.array([path.stat().st_size if self.ranks.rank == root else 0])
        self.ranks.broadcast(size, root)
        contents = np.empty(int(size[0]), np.uint8)
        if self.ranks.rank == root:
            contents[:] = np.fromfile(path, np.uint8)
        self.ranks.broadcast(contents, root)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as temporary:
                contents.tofile(temporary)
