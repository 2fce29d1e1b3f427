"""Work in forked processes: LLVM holds one lock per process, so only processes compile side by side.

The children inherit the parent's memory (models, weights, tasks) by copy on write; only indices go in and only results
come back, pickled. Where forking is not possible, or one job is all there is, the work is done in this process; so it
is in a daemonic process (a worker of `multiprocessing.Pool` or of a DataLoader), which may have no children.

A child looks every half second whether its parent is still there, and ends with it: a parent that is killed has no time
to end its children, and a pool of them would otherwise wait for work for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.support.forks import fork_lock

T = TypeVar("T")

#: What the children that are being forked shall do; set while `fork_lock` is held.
_work: Callable[[int], Any] | None = None


#: Seconds between two looks of a child at whether its parent is there.
_LOOK_SECONDS = 0.5


def _run(index: int) -> tuple[int, Any]:
    assert _work is not None
    return index, _work(index)


def is_daemonic() -> bool:
    """True if this is a process that `multiprocessing` lets have no children."""
    return multiprocessing.current_process().daemon


def refuse_daemonic(what: str) -> None:
    """Raise `EnvironmentError_` where `what` needs a process of its own and this one may have no children."""
    if is_daemonic():
        raise EnvironmentError_(
            f"{what} needs a process of its own, and this one is daemonic (a worker of multiprocessing.Pool or of a "
            "DataLoader), which may start none; do it in the process that started this one"
        )


def fork_map(
    work: Callable[[int], T], order: Iterable[int], jobs: int, label: Callable[[int], str]
) -> Iterator[tuple[int, T]]:
    """`(i, work(i))` for each index of `order`, started in that order in `jobs` processes, given as each is done.

    `label(i)` names the item in the internal error raised when a process dies (LLVM aborts on code it cannot compile).
    Exceptions of `work` are raised here as they are.
    """
    global _work
    indices = list(order)
    if jobs <= 1 or len(indices) <= 1 or not hasattr(os, "fork") or is_daemonic() or not _has_semaphores():
        for index in indices:
            yield index, work(index)
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(
        min(jobs, len(indices)), context, initializer=begin_child, initargs=(os.getpid(),)
    ) as pool:
        with fork_lock:  # all processes start with the first job; each begins by giving back its copy of the lock
            _work = work
            pending = {pool.submit(_run, index): index for index in indices}
            _work = None
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


def _has_semaphores() -> bool:
    """True unless this process is confined and may not make the semaphores that a pool takes its turns by."""
    try:
        multiprocessing.get_context("fork").Lock()
    except OSError:
        return False
    return True


def run_apart(work: Callable[[], None], label: str) -> None:
    """Run `work` in a forked process of the lowest priority and wait for it; its exceptions are raised here.

    The process ends with this one. `label` names the work in the internal error raised when the process dies. Raises
    `EnvironmentError_` in a daemonic process.
    """
    refuse_daemonic(f"compiling {label} in the background")
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_apart, args=(work, sender, os.getpid()), daemon=True)
    with fork_lock:
        process.start()
    sender.close()
    try:
        failure = receiver.recv()
    except EOFError:
        failure = InternalError(f"the process that was compiling {label} died")
    process.join()
    if failure is not None:
        raise failure


def begin_child(parent: int) -> None:
    """Set up a forked child process: release the lock taken before the fork, and end with `parent`."""
    fork_lock.release()
    end_with(parent)


def end_with(parent: int) -> None:
    """End this process when `parent` has ended.

    Looking costs nothing and works on every system; a signal on the parent's death (prctl) would come already when the
    thread ends that forked.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _apart(work: Callable[[], None], sender: Any, parent: int) -> None:
    begin_child(parent)
    os.nice(19)
    failure: Exception | None = None
    try:
        work()
    except Exception as error:
        failure = error
    try:
        sender.send(failure)
    except (TypeError, AttributeError, pickle.PicklingError):  # an exception that cannot be sent
        sender.send(InternalError(repr(failure)))
