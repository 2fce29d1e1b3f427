"""Locks and threads at a fork: a child cannot take over locks held by threads that do not exist in it.

    self._lock = own_lock(self, "_lock")       # an object's lock; in the child of any fork it is a fresh one

A child has one thread, the one that forked. Whatever the others were doing is not going on, and a lock that one of them
held would never be released. So every lock of the package that may be held at any time is made here, and `fork_lock`,
which guards what cannot be cut in two (LLVM at work), is taken by whoever forks, until the fork is over.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Held by whoever is in the middle of something that a forked child could not go on with, such as LLVM at work. Every
#: fork of this process waits for it.
fork_lock = threading.RLock()

_owners: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def own_lock(owner: Any, name: str) -> Any:
    """A re-entrant lock for the attribute `name` of `owner`, which gets another, free one in the child of a fork.

    The attribute is replaced rather than the lock released: the forking thread may itself be inside of `with`. It is
    re-entrant because handlers of signals and finalizers run in any thread, between any two steps of what holds it.
    """
    _owners.setdefault(owner, set()).add(name)
    return threading.RLock()


def held_here(lock: Any) -> bool:
    """True if the calling thread holds `lock`, which `own_lock` made."""
    return lock._is_owned()  # what `threading.Condition` asks of any lock that it is given


def between_forks(work: Callable[P, R]) -> Callable[P, R]:
    """A decorator: `work` holds `fork_lock`, and releases it only when its local objects are gone as well.

    LLVM's objects take the lock of their library when they are deleted.
    """

    @functools.wraps(work)
    def held(*args: P.args, **named: P.kwargs) -> R:
        with fork_lock:
            return work(*args, **named)

    return held


def _renew() -> None:
    fork_lock.release()
    if held_here(
        fork_lock
    ):  # a child of this package: multiprocessing closes the input, and a thread may be reading it
        sys.stdin = None
    for owner, names in list(_owners.items()):
        for name in names:
            setattr(owner, name, threading.RLock())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=fork_lock.acquire, after_in_parent=fork_lock.release, after_in_child=_renew)
