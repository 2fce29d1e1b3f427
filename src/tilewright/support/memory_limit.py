"""Sizes that this machine has no memory for, refused before anything of them is allocated."""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tilewright.errors import EnvironmentError_

#: Bytes of address space that a compile soon takes: LLVM's library, stacks of threads, arenas of the allocator.
_LITTLE = 1 << 30


@functools.cache
def machine_bytes() -> int:
    """Memory and swap of this machine, in bytes."""
    with suppress(OSError, ValueError, IndexError):
        lines = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
        found = {words[0]: int(words[1]) << 10 for words in lines}
        return found["MemTotal:"] + found.get("SwapTotal:", 0)
    return physical_bytes()


def physical_bytes() -> int:
    """Memory of this machine, in bytes, without swap."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_memory(nbytes: int, what: str) -> None:
    """Raise `EnvironmentError_` where `what` takes more bytes than this machine has, or this process may."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    most = machine_bytes() if limit == resource.RLIM_INFINITY else min(machine_bytes(), limit)
    if nbytes > most:
        raise EnvironmentError_(
            f"{what} takes {_spelled(nbytes)} of memory, and this machine has {_spelled(most)}: choose smaller "
            "sizes, or a machine with more memory"
        )


def require_memory_for(parts: Iterable[tuple[str, int]], what: str) -> None:
    """`require_memory` of the sum of named parts, the largest of which the message names."""
    listed = list(parts)
    name, largest = max(listed, key=lambda part: part[1], default=("", 0))
    require_memory(sum(nbytes for _, nbytes in listed), f"{what} ({name}: {_spelled(largest)})")


def address_space_text() -> str:
    """A hint for a failure where a limit of the address space (`ulimit -v`) leaves little; else empty.

    Libraries and threads that cannot be mapped fail in their own words, and processes of the compiler just end.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return ""
    most = 0
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/self/status").read_text().splitlines()
        most = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmPeak:"))
    if limit - most > _LITTLE:
        return ""
    return f"the address space is limited to {_spelled(limit)} (ulimit -v), of which {_spelled(most)} were taken"


def _spelled(nbytes: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024  # type: ignore[assignment]
    return f"{nbytes:.4g} PiB"
