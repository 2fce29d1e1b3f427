"""Ranks by gloo, of `torch.distributed`: started by torchrun, which restarts them where one dies."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_
from tilewright.support.packages import package
from tilewright.training.distribute.ranks import Message, RankLost
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
            with self.reported("the start"):
                self._start(datetime.timedelta(seconds=timeout))
            atexit.register(self._leave)  # else its threads abort the process at the end
        self.rank: int = group.get_rank()
        self.size: int = group.get_world_size()

    def _start(self, timeout: datetime.timedelta) -> None:
        """Meet the other ranks by addresses of this start: a store of torchrun may have those of the one before too."""
        group = self._torch.distributed
        store, rank, size = next(group.rendezvous("env://", timeout=timeout))
        store = group.PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        group.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)

    def send(self, array: Array, to: int) -> Message:
        """Begin to send `array`."""
        return self._begun(self._torch.distributed.isend, array, to)

    def receive(self, array: Array, source: int) -> Message:
        """Begin to receive into `array`."""
        return self._begun(self._torch.distributed.irecv, array, source)

    def gather(self, own: Array, into: Array) -> None:
        """Collect `own` of every rank r as `into[r]`. Raises `RankLost`.

        All receive before they send: gloo's own collections often begin one direction when the other is over.
        """
        others = [rank for rank in range(self.size) if rank != self.rank]
        messages = [self.receive(into[rank], rank) for rank in others]
        messages += [self.send(own, rank) for rank in others]
        np.copyto(into[self.rank], own.reshape(into[self.rank].shape))
        for message in messages:
            message.wait()

    def broadcast(self, array: Array, root: int) -> None:
        """Overwrite `array` by that of rank `root`. Raises `RankLost`."""
        with self.reported(f"values of rank {root}"):
            self._torch.distributed.broadcast(self._tensor(array), root)

    def _begun(self, begin: Callable[[object, int], Any], array: Array, other: int) -> Message:
        with self.reported("a message"):
            return _Waited(self, begin(self._tensor(array), other))

    def _leave(self) -> None:
        if self._torch.distributed.is_initialized():
            with contextlib.suppress(RuntimeError):
                self._torch.distributed.destroy_process_group()

    def _tensor(self, array: Array) -> object:
        """A tensor of the bytes of an array."""
        return self._torch.from_numpy(array.reshape(-1).view(np.uint8))

    @contextlib.contextmanager
    def reported(self, what: str) -> Iterator[None]:
        """Raise torch's errors as `RankLost`."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise RankLost(
                f"a rank is gone, or was silent for {self._timeout:g} s, in {what} ({reason}); "
                "`torchrun --max-restarts N` begins again from the last checkpoint"
            ) from None


class _Waited:
    """A message whose errors are of this package."""

    def __init__(self, ranks: GlooRanks, work: Any) -> None:
        self._ranks, self._work = ranks, work

    def wait(self) -> None:
        with self._ranks.reported("a message of gradients or values"):
            self._work.wait()
