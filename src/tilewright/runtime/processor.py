"""The processor: its architecture and its features by LLVM's names, as the kernel reports them."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

from tilewright.errors import EnvironmentError_

# Where LLVM's name of a feature is not the kernel's. The kernel lists only what it lets programs use.
_X86_NAMES = {
    "3dnowprefetch": "prfchw", "abm": "lzcnt", "bmi1": "bmi", "lahf_lm": "sahf", "lm": "64bit", "pclmulqdq": "pclmul",
    "pni": "sse3", "rdrand": "rdrnd", "sha_ni": "sha", "sse4_1": "sse4.1", "sse4_2": "sse4.2", "user_shstk": "shstk",
}  # fmt: skip
_ARM_NAMES = {
    "asimd": "neon", "asimddp": "dotprod", "asimdrdm": "rdm", "atomics": "lse", "crc32": "crc", "fp": "fp-armv8",
    "asimdhp": "fullfp16", "lrcpc": "rcpc",
}  # fmt: skip


#: Number of the system call arch_prctl on x86-64, its ARCH_REQ_XCOMP_PERM, and the state component of AMX's registers.
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18


@functools.cache
def host_architecture() -> str:
    """``"x86_64"`` or ``"aarch64"``; raises `EnvironmentError_` where compiled models cannot run."""
    # Not the module platform, which takes 5 ms to import.
    system, machine = (os.uname().sysname, os.uname().machine) if os.name == "posix" else (sys.platform, "this machine")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())
    if system != "Linux" or machine not in ("x86_64", "aarch64"):
        raise EnvironmentError_(f"compiled models run on Linux on x86-64 or AArch64; this is {system} on {machine}")
    return machine


@functools.cache
def host_features() -> frozenset[str]:
    """The processor features of this machine that programs may use, by LLVM's names (``"avx2"``, ``"avx512f"``...)."""
    found = features_of(Path("/proc/cpuinfo"), host_architecture())
    return found if may_use_tiles() else frozenset(name for name in found if not name.startswith("amx-"))


@functools.cache
def may_use_tiles() -> bool:
    """True if the kernel grants this process, all its threads, the matrix registers of AMX; it is asked once.

    A kernel before 5.16 grants none, nor does one whose sandbox refuses the call.
    """
    if host_architecture() != "x86_64":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0)


def features_of(cpuinfo: Path, machine: str) -> frozenset[str]:
    """The features in a file like /proc/cpuinfo, those of the first processor. Raises `EnvironmentError_` without."""
    key = "flags" if machine == "x86_64" else "Features"
    try:
        with cpuinfo.open(encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    words = value.split()
                    return frozenset(_x86_name(word) if machine == "x86_64" else _arm_name(word) for word in words)
    except OSError as error:
        raise EnvironmentError_(f"cannot read {cpuinfo}: {error.strerror or error}") from None
    raise EnvironmentError_(f"{cpuinfo} does not tell the processor's features")


def _x86_name(flag: str) -> str:
    """LLVM's name of a flag: ``avx512_vnni`` is ``avx512vnni``, ``amx_tile`` is ``amx-tile``."""
    if flag.startswith("avx"):
        return flag.replace("_", "")
    return _X86_NAMES.get(flag) or flag.replace("amx_", "amx-")


def _arm_name(flag: str) -> str:
    return _ARM_NAMES.get(flag, flag)
