"""The runtime's use of the operating system, in one module: memory for code, symbols of the process, processors.

    memory = host_system().reserve(size)       # an address: fresh pages that can be written
    host_system().write(memory, code); host_system().protect(memory, size, execute=True)

`System` is the interface, and everything else of the runtime is the same everywhere. `Linux` is what runs and is tested
today. `MacOS` and `Windows` make the same calls by the names that they have there, tested against stand-ins of those
libraries; what else these systems need stands in docs/runtime.md. A page is writable or executable, never both.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tilewright.errors import EnvironmentError_

Open = Callable[[str], Any]


@functools.cache
def open_library(name: str) -> Any:
    """The library `name`, "" for what the process has loaded already; None where there is none."""
    try:
        return ctypes.CDLL(name or None, use_errno=True)
    except (OSError, TypeError):
        return None


class System(ABC):
    """One operating system. `find` opens libraries by name; tests pass stand-ins."""

    name: str
    #: Where functions that compiled code may call are looked for, in order.
    libraries: Sequence[str]

    def __init__(self, find: Open = open_library) -> None:
        self._find = find

    @abstractmethod
    def reserve(self, size: int) -> int:
        """The address of `size` bytes of fresh zeroed private memory, to be read and written.

        Private also means that the child of a fork has its own copy. Raises `EnvironmentError_`.
        """

    @abstractmethod
    def protect(self, address: int, size: int, execute: bool) -> None:
        """Let whole pages be read only, or read and executed. Raises `EnvironmentError_`."""

    @abstractmethod
    def release(self, address: int, size: int) -> None:
        """Release what `reserve` returned."""

    def write(self, address: int, contents: bytearray) -> None:
        """Copy `contents` to memory that can be written."""
        ctypes.memmove(address, (ctypes.c_char * len(contents)).from_buffer(contents), len(contents))

    def symbol(self, name: str) -> int | None:
        """The address of a function or variable of the C library or of any library open to all; None without."""
        for library in self.libraries:
            opened = self._find(library)
            with suppress(AttributeError, ValueError):  # no such symbol; no name that a symbol could have
                if opened is not None:
                    return ctypes.cast(opened[name], ctypes.c_void_p).value
        return None

    def processors(self) -> int:
        """The number of processors this process may run on."""
        return os.cpu_count() or 1


class _Posix(System):
    """mmap and mprotect."""

    def __init__(self, find: Open = open_library) -> None:
        super().__init__(find)
        self._libc = find("")
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self._libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def reserve(self, size: int) -> int:
        """By an anonymous private mapping."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        address = self._libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise _no_memory(size, os.strerror(ctypes.get_errno()))
        return int(address)

    def protect(self, address: int, size: int, execute: bool) -> None:
        """The kernel of Linux makes the instruction cache of AArch64 see the code when its pages become executable."""
        if self._libc.mprotect(address, size, mmap.PROT_READ | (mmap.PROT_EXEC if execute else 0)):
            raise _no_code(os.strerror(ctypes.get_errno()))

    def release(self, address: int, size: int) -> None:
        """By munmap."""
        self._libc.munmap(address, size)


class Linux(_Posix):
    """glibc or musl."""

    name = "Linux"
    libraries = ("", "libm.so.6", "libgcc_s.so.1")

    def processors(self) -> int:
        """The processors in the affinity mask."""
        try:
            return len(os.sched_getaffinity(0))
        except (AttributeError, OSError):
            return super().processors()


class MacOS(_Posix):
    """The same calls; libSystem holds what libm holds elsewhere, and the instruction cache is cleared by hand."""

    name = "macOS"
    libraries = ("",)

    def protect(self, address: int, size: int, execute: bool) -> None:
        """As elsewhere, and then Apple's processors are notified of new code."""
        super().protect(address, size, execute)
        if execute:
            self._libc.sys_icache_invalidate(ctypes.c_void_p(address), ctypes.c_size_t(size))


class Windows(System):
    """VirtualAlloc, VirtualProtect and VirtualFree of kernel32."""

    name = "Windows"
    libraries = ("ucrtbase.dll", "msvcrt.dll")

    _COMMIT_RESERVE, _RELEASE = 0x3000, 0x8000
    _READ, _READ_WRITE, _EXECUTE_READ = 0x02, 0x04, 0x20

    def __init__(self, find: Open = open_library) -> None:
        super().__init__(find)
        self._kernel = find("kernel32.dll")
        address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
        self._kernel.VirtualAlloc.restype = self._kernel.GetCurrentProcess.restype = address
        self._kernel.VirtualAlloc.argtypes = [address, size, number, number]
        self._kernel.VirtualProtect.argtypes = [address, size, number, ctypes.c_void_p]
        self._kernel.VirtualFree.argtypes = [address, size, number]
        self._kernel.FlushInstructionCache.argtypes = [address, address, size]

    def reserve(self, size: int) -> int:
        """By committed pages, which nobody else sees."""
        address = self._kernel.VirtualAlloc(None, size, self._COMMIT_RESERVE, self._READ_WRITE)
        if not address:
            raise _no_memory(size, f"error {self._kernel.GetLastError()}")
        return int(address)

    def protect(self, address: int, size: int, execute: bool) -> None:
        """And tell processors that have one of a changed instruction cache."""
        before = ctypes.c_uint32()
        wanted = self._EXECUTE_READ if execute else self._READ
        if not self._kernel.VirtualProtect(address, size, wanted, ctypes.byref(before)):
            raise _no_code(f"error {self._kernel.GetLastError()}")
        if execute:
            self._kernel.FlushInstructionCache(self._kernel.GetCurrentProcess(), address, size)

    def release(self, address: int, size: int) -> None:
        """All of it: Windows knows how much it was."""
        self._kernel.VirtualFree(address, 0, self._RELEASE)


_SYSTEMS: dict[str, type[System]] = {"linux": Linux, "darwin": MacOS, "win32": Windows}


@functools.cache
def host_system() -> System:
    """The system of this process. Raises `EnvironmentError_` where none of them is it."""
    kind = _SYSTEMS.get(sys.platform)
    if kind is None:
        known = ", ".join(one.name for one in _SYSTEMS.values())
        raise EnvironmentError_(f"compiled code cannot be loaded on {sys.platform}; this version knows {known}")
    return kind()


def _no_memory(size: int, reason: str) -> EnvironmentError_:
    return EnvironmentError_(f"cannot allocate {size} bytes for compiled code: {reason}")


def _no_code(reason: str) -> EnvironmentError_:
    return EnvironmentError_(f"the system does not let this process run compiled code: {reason}")
