"""`tvm.autotvm.tophub` and `GLOBAL_SCOPE`: records that came with the classic stack, and switches of its tuner."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from tilewright.autotvm.classic.record import ApplyHistoryBest


def context(target: Any, extra_files: Iterable[Any] | None = None) -> AbstractContextManager[Any]:
    """The context of the logs `extra_files`. The classic stack's own are not read: the cost model knows as much."""
    made = ApplyHistoryBest(None)
    for path in extra_files or ():
        made.load(path)
    return made


class AutotvmGlobalScope:
    """Switches that programs set; they make no difference."""

    silent = False
    deep_tuning = False
    in_tuning = False


GLOBAL_SCOPE = AutotvmGlobalScope()
