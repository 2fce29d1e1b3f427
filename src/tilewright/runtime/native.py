"""The native runtime of this process: the pool and barrier of `native_ir`, compiled once, and how Python calls them.

`native()` gives the one instance. Its object code comes from the artifact that is being loaded, where that holds it
(`PoolCode`), else from the disk cache, where it is kept under its text; else it is compiled: 50 ms, half of them for
importing llvmlite.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.errors import EnvironmentError_
from tilewright.runtime import packed
from tilewright.runtime.link import compile_text, link
from tilewright.runtime.native_ir import EXPORTS, pool_text
from tilewright.runtime.processor import host_architecture
from tilewright.support.cache import DiskCache, digest, open_cache


@dataclass(frozen=True)
class PoolCode:
    """The native runtime as object code. `key` stands for its architecture and text: another runtime has another."""

    key: str
    code: bytes


class Native:
    """Addresses and callables of the native runtime.

    `parallel_run(entry, args, workers) -> int` takes addresses as plain integers and releases the interpreter lock.
    """

    def __init__(self, pool: PoolCode) -> None:
        self.pool = pool
        self._linked = link(pool.code, EXPORTS)
        self.addresses = self._linked.addresses
        run_type = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)
        self.parallel_run: Callable[[int, int, int], int] = run_type(self.addresses["tilewright_parallel_run"])
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
        pool = {name: self.addresses[name] for name in ("tilewright_barrier", "tilewright_parallel_run")}
        return pool | packed.imports()


_native: Native | None = None
_lock = threading.Lock()


def native(offered: PoolCode | None = None) -> Native:
    """The process's native runtime, made on first use: of `offered` code when that is of this runtime's own text."""
    global _native
    if _native is None:
        with _lock:
            if _native is None:
                made = Native(_pool_code(offered))
                # Threads still spinning when the interpreter is torn down would run in code that is going away.
                atexit.register(made.stop)
                os.register_at_fork(after_in_child=made.forget)
                _native = made
    return _native


def _pool_code(offered: PoolCode | None) -> PoolCode:
    text = pool_text(host_architecture())
    key = digest("native", host_architecture(), text)
    if offered is not None and offered.key == key:
        return offered
    try:
        cache = open_cache()
    except EnvironmentError_:
        # Whoever needs the cache for its own sake reports that; running a model does not.
        cache = DiskCache(None)
    known = cache.get("native", key)
    if known is not None and known[:4] == b"\x7fELF":
        return PoolCode(key, known)
    made = compile_text(text)
    cache.put("native", key, made)
    return PoolCode(key, made)
