"""Shared libraries with the classic packed interface, of any compiler: loaded, their slots filled, and called.

    library = PackedLibrary("add.so")
    library["add"](a, b, c)

A library receives what it needs of its loader through slots, variables of function pointers that are filled here:
errors, functions by name, calls of these, working memory, and workers, which are those of this process's pool.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from tilewright.backend.cpu.packed_abi import CALL_PYTHON, CONTEXT, MAIN
from tilewright.backend.cpu.packed_library import launch_code
from tilewright.compat.runtime.functions import get_global_func
from tilewright.compat.runtime.module_blob import SYMBOL as BLOB
from tilewright.compat.runtime.module_blob import GraphFactory, read_blob
from tilewright.compat.runtime.packed_values import NULL, Arguments, Functions, decoded
from tilewright.errors import ArtifactError, InputError
from tilewright.runtime import packed
from tilewright.runtime.link import link
from tilewright.runtime.native import native
from tilewright.runtime.shared_library import exported_names
from tilewright.runtime.threads import available_processors, default_workers

_P, _I = ctypes.c_void_p, ctypes.c_int32
_PACKED = ctypes.CFUNCTYPE(_I, _P, _P, _I, _P, _P, _P)
_functions = Functions()
_last = threading.local()


class PackedLibrary:
    """A library in this process: `library["name"]` is one of its functions, of arrays, numbers and texts."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self.names = [name for name in exported_names(self.path) if not name.startswith("_")]
        try:
            self._library = ctypes.CDLL(self.path)
        except OSError as error:
            raise ArtifactError(f"{path} cannot be loaded here: {error}") from None
        for name, address in _services().items():
            slot = self._variable(name)
            if slot is not None:
                slot.value = address
        context = self._variable(CONTEXT)
        if context is not None:
            context.value = id(self)

    def _variable(self, name: str, kind: Any = ctypes.c_void_p) -> Any:
        """The variable of the library with this name and kind; None where it has none."""
        try:
            return kind.in_dll(self._library, name)
        except ValueError:
            return None

    @property
    def entry_name(self) -> str:
        """The function that the module is called by. Raises `InputError` where the library names none."""
        first = self._variable(MAIN, ctypes.c_char)
        if first is None:
            raise InputError(f"{self.path} does not say which of its functions is called by default")
        return ctypes.string_at(ctypes.addressof(first)).decode()

    def graph(self) -> GraphFactory | None:
        """The graph over its functions that the library holds, if it does."""
        first = self._variable(BLOB, ctypes.c_uint64)
        return None if first is None else read_blob(ctypes.string_at(ctypes.addressof(first), 8 + first.value))

    def __contains__(self, name: str) -> bool:
        return hasattr(self._library, name)

    def __getitem__(self, name: str) -> PackedFunction:
        if name == MAIN:
            name = self.entry_name
        if name not in self:
            raise InputError(f"the library has no function {name!r}; it has: {', '.join(self.names)}")
        address = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        assert address is not None
        return PackedFunction(name, address, self)


class PackedFunction:
    """One function of a library."""

    def __init__(self, name: str, address: int, library: PackedLibrary) -> None:
        self.name = name
        self._call = _PACKED(address)
        self._library = library  # keeps the code alive

    def __call__(self, *args: Any) -> Any:
        """Its result, mostly None. Raises `InputError` with the function's own words when it fails."""
        given = Arguments(args, _functions)
        result, code = ctypes.c_int64(0), ctypes.c_int32(NULL)
        _last.words, _last.failure = "", None
        status = self._call(
            ctypes.addressof(given.values),
            ctypes.addressof(given.codes),
            given.count,
            ctypes.addressof(result),
            ctypes.addressof(code),
            None,
        )
        packed.raise_failure()
        if _last.failure is not None:
            raise _last.failure
        if status:
            raise InputError(f"{self.name}: {_last.words or f'it failed with status {status}'}")
        return decoded(result.value, code.value, _functions)


@cache
def _services() -> dict[str, int]:
    """The contents of the slots: addresses by the slots' names."""
    workers = link(launch_code(), ["packed_launch", "packed_barrier"], native().imports())
    native().set_processors(available_processors())
    count = workers.find("packed_workers")
    assert count is not None
    ctypes.c_int32.from_address(count).value = default_workers(None)
    made = {name: ctypes.cast(call, ctypes.c_void_p).value or 0 for name, call in _CALLBACKS.items()}
    made["__TVMBackendParallelLaunch"] = workers.addresses["packed_launch"]
    made["__TVMBackendParallelBarrier"] = workers.addresses["packed_barrier"]
    made[CALL_PYTHON] = packed.imports()[packed.SYMBOL]
    _services_alive.append(workers)
    return made


_services_alive: list[Any] = []


def _fails(call: Callable[..., int]) -> Callable[..., int]:
    """A callback whose exceptions become the status -1, kept until the function that it was called from returns."""

    def guarded(*args: Any) -> int:
        try:
            return call(*args)
        except BaseException as failure:  # C code cannot pass it on
            _last.failure = failure
            return -1

    return guarded


def _set_last_error(words: bytes | None) -> None:
    _last.words = (words or b"").decode("utf-8", "replace")


def _function_by_name(_: int, name: bytes, position: int) -> int:
    ctypes.c_void_p.from_address(position).value = _functions.handle(get_global_func(name.decode()))
    return 0


def _call_function(handle: int, values: int, codes: int, count: int, result: int, kind: int) -> int:
    given = (ctypes.c_int64 * count).from_address(values) if count else ()
    kinds = (ctypes.c_int32 * count).from_address(codes) if count else ()
    found = _functions[handle](*[decoded(v, k, _functions) for v, k in zip(given, kinds, strict=True)])
    made = Arguments([found], _functions)
    ctypes.c_int64.from_address(result).value = made.values[0]
    ctypes.c_int32.from_address(kind).value = made.codes[0]
    _last.result = made  # texts stay alive until the next call
    return 0


def _allocate(_kind: int, _number: int, size: int, _code: int, _bits: int) -> int | None:
    address: int | None = _libc().aligned_alloc(64, (size + 127) // 64 * 64)
    return address


def _free(_kind: int, _number: int, address: int | None) -> int:
    _libc().free(address)
    return 0


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.aligned_alloc.restype, library.aligned_alloc.argtypes = _P, [ctypes.c_size_t, ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [_P]
    return library


_CALLBACKS: dict[str, Any] = {
    "__TVMAPISetLastError": ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_set_last_error),
    "__TVMBackendGetFuncFromEnv": ctypes.CFUNCTYPE(_I, _P, ctypes.c_char_p, _P)(_fails(_function_by_name)),
    "__TVMFuncCall": ctypes.CFUNCTYPE(_I, _P, _P, _P, _I, _P, _P)(_fails(_call_function)),
    "__TVMBackendAllocWorkspace": ctypes.CFUNCTYPE(_P, _I, _I, ctypes.c_uint64, _I, _I)(_allocate),
    "__TVMBackendFreeWorkspace": ctypes.CFUNCTYPE(_I, _I, _I, _P)(_free),
}
