"""Ranks by gloo, of `torch.distributed`: started by torchrun, which restarts them where one dies."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import os
from collections.abc import Iterator

import numpy as np

from tilewright.errors import EnvironmentError_
from tilewright.support.packages import package
from tilewright.training.distribute.ranks import RankLost
from tilewright.training.rules.optimizer import Array


class GlooRanks:
    """The ranks that torchrun started, or of the process group that the program has made with gloo."""

    def __init__(self, timeout: float) -> None:
        """Join the group. Raises `EnvironmentError_` without torch, and where torchrun did not start this process."""
        self._torch = package("torch", "training on several ranks by gloo", "ranks")
        self._timeout = timeout
        group = self._torch.distributed
        if not group.is_initialized():
            if "RANK" not in os.environ:
                raise EnvironmentError_(
                    "no rank is set for ranks='gloo': start the program by `torchrun --nproc-per-node N program.py`"
                )
            with self._reported("the start"):
                group.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout))
            atexit.register(self._leave)  # else its threads abort the process at the end
        self.rank: int = group.get_rank()
        self.size: int = group.get_world_size()

    def exchange(self, parts: Array, into: Array) -> None:
        """Send `parts[r]` to rank r; `into[r]` is what came from it. Raises `RankLost`."""
        with self._reported("an exchange of gradients"):
            self._torch.distributed.all_to_all_single(self._tensor(into), self._tensor(parts))

    def gather(self, own: Array, into: Array) -> None:
        """Collect `own` of every rank r as `into[r]`. Raises `RankLost`."""
        with self._reported("a collection from all ranks"):
            group = self._torch.distributed
            collect = getattr(group, "all_gather_single", None) or group.all_gather_into_tensor  # as of torch 2.13
            collect(self._tensor(into), self._tensor(own))

    def broadcast(self, array: Array, root: int) -> None:
        """Overwrite `array` by that of rank `root`. Raises `RankLost`."""
        with self._reported(f"values of rank {root}"):
            self._torch.distributed.broadcast(self._tensor(array), root)

    def _leave(self) -> None:
        if self._torch.distributed.is_initialized():
            with contextlib.suppress(RuntimeError):
                self._torch.distributed.destroy_process_group()

    def _tensor(self, array: Array) -> object:
        """A tensor of the bytes of an array."""
        return self._torch.from_numpy(array.reshape(-1).view(np.uint8))

    @contextlib.contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise RankLost(
                f"a rank is gone, or was silent for {self._timeout:g} s, in {what} ({reason}); "
                "`torchrun --max-restarts N` begins again from the last checkpoint"
            ) from None
