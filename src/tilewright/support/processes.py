"""Work in forked processes: LLVM holds one lock per process, so only processes compile side by side.

The children inherit the parent's memory (models, weights, tasks) by copy on write; only indices go in and only results
come back, pickled. Where forking is not possible, or one job is all there is, the work is done in this process.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from tilewright.errors import InternalError

T = TypeVar("T")

_work: Callable[[int], Any] | None = None


def _run(index: int) -> tuple[int, Any]:
    assert _work is not None
    return index, _work(index)


def fork_map(
    work: Callable[[int], T], order: Iterable[int], jobs: int, label: Callable[[int], str]
) -> Iterator[tuple[int, T]]:
    """`(i, work(i))` for each index of `order`, started in that order in `jobs` processes, given as each is done.

    `label(i)` names the item in the internal error raised when a process dies (LLVM aborts on code it cannot compile).
    Exceptions of `work` are raised here as they are.
    """
    global _work
    indices = list(order)
    if jobs <= 1 or len(indices) <= 1 or not hasattr(os, "fork"):
        for index in indices:
            yield index, work(index)
        return
    _work = work
    try:
        with ProcessPoolExecutor(min(jobs, len(indices)), multiprocessing.get_context("fork")) as pool:
            pending = {pool.submit(_run, index): index for index in indices}
            try:
                for future in as_completed(pending):
                    yield future.result()
            except BrokenProcessPool:
                left = [label(index) for future, index in pending.items() if not future.done() or future.exception()]
                raise InternalError(
                    f"a compiling process died while these were being compiled: {', '.join(left[:8])}"
                ) from None
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        _work = None
