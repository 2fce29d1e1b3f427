"""The system behind one interface: Linux as it is; macOS and Windows by stand-ins that pass the calls on to Linux."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.codegen.native.pool_code import compile_text
from tilewright.errors import EnvironmentError_
from tilewright.runtime import loader, system
from tilewright.runtime.processor import host_architecture
from tilewright.runtime.system import Linux, MacOS, System, Windows

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="the stand-ins pass calls on to Linux")

ANSWER = """
declare double @cos(double)
@count = internal global i32 41
@table = constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
define i32 @answer() {
  %old = load i32, ptr @count
  %new = add i32 %old, 1
  store i32 %new, ptr @count
  ret i32 %new
}
define double @one() {
  %x = call double @cos(double 0.0)
  ret double %x
}
"""


class Library:
    """A library whose functions are given as Python functions; every call is noted. Symbols are those of libm."""

    def __init__(self, calls: list[str], **functions: Callable[..., Any]) -> None:
        self.calls = calls
        for name, function in functions.items():
            setattr(self, name, self._noting(name, function))

    def _noting(self, name: str, function: Callable[..., Any]) -> Any:
        def noted(*arguments: Any) -> Any:
            self.calls.append(name)
            return function(*arguments)

        return noted  # a function takes attributes such as `restype`

    def __getitem__(self, name: str) -> Any:
        return system.open_library("libm.so.6")[name]


def macos(calls: list[str]) -> System:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library = Library(
        calls, mmap=libc.mmap, mprotect=libc.mprotect, munmap=libc.munmap, sys_icache_invalidate=lambda *_: None
    )
    return MacOS(lambda name: library)


def windows(calls: list[str]) -> System:
    linux, sizes = Linux(), {}

    def allocate(_: Any, size: int, kind: int, protection: int) -> int:
        assert (kind, protection) == (0x3000, 0x04)
        address = linux.reserve(size)
        sizes[address] = size
        return address

    def protect(address: int, size: int, wanted: int, before: Any) -> int:
        linux.protect(address, size, execute={0x02: False, 0x20: True}[wanted])
        return 1

    def free(address: int, size: int, kind: int) -> int:
        assert (size, kind) == (0, 0x8000)
        linux.release(address, sizes.pop(address))
        return 1

    library = Library(
        calls, VirtualAlloc=allocate, VirtualProtect=protect, VirtualFree=free, GetCurrentProcess=lambda: -1,
        FlushInstructionCache=lambda *_: 1, GetLastError=lambda: 8,
    )  # fmt: skip
    return Windows(lambda name: library)


@only_linux
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda calls: Linux(), []),
        (macos, ["mmap", "mprotect", "sys_icache_invalidate", "mprotect"]),
        (
            windows,
            ["VirtualAlloc", "VirtualProtect", "GetCurrentProcess", "FlushInstructionCache", "VirtualProtect"],
        ),
    ],
    ids=["Linux", "macOS", "Windows"],
)
def test_code_is_loaded_and_run_by_every_system(
    made: Callable[[list[str]], System], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    chosen = made(calls)
    monkeypatch.setattr(loader, "host_system", lambda: chosen)
    code = loader.load_objects([compile_text(ANSWER)], {}, host_architecture())
    answer = ctypes.CFUNCTYPE(ctypes.c_int32)(code.symbols["answer"])
    assert (answer(), answer()) == (42, 43)
    assert ctypes.CFUNCTYPE(ctypes.c_double)(code.symbols["one"])() == 1.0
    assert calls == expected
    del code, answer
    assert not expected or calls[-1] in ("munmap", "VirtualFree")


@only_linux
@pytest.mark.parametrize("made", [macos, windows], ids=["macOS", "Windows"])
def test_a_refusal_is_one_message(made: Callable[[list[str]], System], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = made([])
    library = chosen._find("")
    for name, value in (("mmap", None), ("VirtualAlloc", None), ("mprotect", -1), ("VirtualProtect", 0)):
        monkeypatch.setattr(library, name, lambda *_, value=value: value, raising=False)
    with pytest.raises(EnvironmentError_, match="cannot allocate 4096 bytes for compiled code"):
        chosen.reserve(4096)
    with pytest.raises(EnvironmentError_, match="does not let this process run compiled code"):
        chosen.protect(0, 4096, execute=True)


def test_symbols_are_found_or_not() -> None:
    here = system.host_system()
    assert here.symbol("cos") and here.symbol("memcpy")
    assert here.symbol("no_such_function_anywhere") is None and here.symbol("") is None
    assert 1 <= here.processors() <= (os.cpu_count() or 1)


def test_other_systems_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "plan9")
    with pytest.raises(EnvironmentError_, match="cannot be loaded on plan9; this version knows Linux, macOS, Windows"):
        system.host_system.__wrapped__()


def test_a_library_that_is_not_there_is_none() -> None:
    assert system.open_library("libnothing_of_this_name.so.7") is None
