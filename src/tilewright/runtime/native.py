"""The native runtime of this process: the worker pool with its barrier, and how Python calls them.

`native()` returns the one instance. Its object code comes from the artifact that is being loaded, where that holds it
(`PoolCode`), else from the compiler (`codegen/native/pool_code.py`), which registers itself with `provide_pool`.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tilewright.errors import ArtifactError
from tilewright.runtime import packed
from tilewright.runtime.link import link
from tilewright.runtime.processor import host_architecture
from tilewright.support.forks import own_lock

#: The version of what the pool exports and of how it is called. Pools of one version may stand for each other.
INTERFACE = 5

Kind = Literal["shared", "meeting", "alone", "fixed"]

#: The kinds of regions by their numbers in the worker pool: shares that do not wait for each other; workers that meet
#: within, however many there are; work for one; shares that wait for each other and are as many as requested.
KINDS: dict[Kind, int] = {"shared": 0, "meeting": 1, "alone": 2, "fixed": 3}

EXPORTS = (
    "tilewright_barrier",
    "tilewright_parallel_run",
    "tilewright_run_task",
    "tilewright_run",
    "tilewright_regions",
    "tilewright_call_with_worker_memory",
    "tilewright_repeat",
    "tilewright_steps",
    "tilewright_set_processors",
    "tilewright_pool_threads",
    "tilewright_pool_stop",
    "tilewright_pool_forget",
)


@dataclass(frozen=True)
class PoolCode:
    """The native runtime as object code. `key` says for which version of its interface and architecture."""

    key: str
    code: bytes


class Native:
    """Addresses and callables of the native runtime.

    `parallel_run(entry, args, workers) -> int` takes addresses as plain integers and releases the interpreter lock; it
    is done by just so many workers. `run_task(task, workers)` takes the address of what `tilewright_run_task` reads,
    and lets whoever waits do shares that nobody has begun.
    """

    def __init__(self, pool: PoolCode) -> None:
        self.pool = pool
        self._linked = link(pool.code, EXPORTS)
        self.addresses = self._linked.addresses
        run_type = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
        self.parallel_run: Callable[[int, int, int], int] = run_type(self.addresses["tilewright_parallel_run"])
        task_type = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)
        self.run_task: Callable[[int, int], int] = task_type(self.addresses["tilewright_run_task"])
        self.repeat: Callable[[int, int], int] = task_type(self.addresses["tilewright_repeat"])
        steps_type = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
        self.steps: Callable[[int], int] = steps_type(self.addresses["tilewright_steps"])
        self.call_with_worker_memory = self.addresses["tilewright_call_with_worker_memory"]
        self._set_processors = ctypes.CFUNCTYPE(None, ctypes.c_int32)(self.addresses["tilewright_set_processors"])
        self.threads: Callable[[], int] = ctypes.CFUNCTYPE(ctypes.c_int32)(self.addresses["tilewright_pool_threads"])
        self.stop: Callable[[], None] = ctypes.CFUNCTYPE(None)(self.addresses["tilewright_pool_stop"])
        self.forget: Callable[[], None] = ctypes.CFUNCTYPE(None)(self.addresses["tilewright_pool_forget"])

    def set_processors(self, count: int) -> None:
        """Tell the pool how many processors it may use: with more workers than that it yields rather than spins."""
        self._set_processors(count)

    def imports(self) -> dict[str, int]:
        """The symbols that compiled models may leave undefined, with their addresses."""
        called = ("tilewright_barrier", "tilewright_parallel_run", "tilewright_run", "tilewright_regions")
        pool = {name: self.addresses[name] for name in called}
        return pool | packed.imports()


_native: Native | None = None
_build: Callable[[], bytes] | None = None
_lock = own_lock(sys.modules[__name__], "_lock")


def native(offered: PoolCode | None = None) -> Native:
    """The process's native runtime, made on first use, of `offered` code when that fits. Raises `ArtifactError`."""
    global _native
    if _native is None:
        with _lock:
            if _native is None:
                made = Native(_chosen(offered))
                if _native is not None:  # a finalizer that ran in between has made it
                    return _native
                # Threads still spinning when the interpreter is torn down would run in code that is going away.
                atexit.register(made.stop)
                os.register_at_fork(after_in_child=made.forget)
                _native = made
    return _native


def provide_pool(build: Callable[[], bytes]) -> None:
    """Take the pool's object code from `build` where no artifact brings it: by the compiler, when it is there."""
    global _build
    _build = build


def pool_key(architecture: str = "") -> str:
    """The key of the pool for this machine, or for another architecture."""
    return f"{INTERFACE}-{architecture or host_architecture()}"


def _chosen(offered: PoolCode | None) -> PoolCode:
    if offered is not None and offered.key == pool_key():
        return offered
    if _build is None:
        made = "no worker pool" if offered is None else f"a worker pool for another runtime ({offered.key})"
        raise ArtifactError(
            f"the artifact holds {made}; this runtime needs {pool_key()}, and this process has no compiler to make it. "
            "Compile the model again, or import tilewright.codegen first"
        )
    return PoolCode(pool_key(), _build())
