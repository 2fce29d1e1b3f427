"""Sizes that this machine has no memory for, refused before anything of them is allocated."""

from __future__ import annotations

import functools
import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tilewright.errors import EnvironmentError_


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
            f"{what} takes {_spelled(nbytes)} of memory, and this machine has {_spelled(most)}: give the model smaller "
            "sizes, or a machine with more memory"
        )


def require_memory_for(parts: Iterable[tuple[str, int]], what: str) -> None:
    """`require_memory` of the sum of named parts, the largest of which the message names."""
    listed = list(parts)
    name, largest = max(listed, key=lambda part: part[1], default=("", 0))
    require_memory(sum(nbytes for _, nbytes in listed), f"{what} ({name}: {_spelled(largest)})")


def _spelled(nbytes: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024  # type: ignore[assignment]
    return f"{nbytes:.4g} PiB"
