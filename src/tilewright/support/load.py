"""Processor time that other programs take meanwhile: what a measurement has to say of the machine it was made on.

with other_load() as load:
    measure()
load.cores   # processors' worth of other programs, on average; None where the system does not tell
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")

#: Processors' worth of other programs from which a machine counts as busy: less than that is what an idle one does.
_BUSY = 0.2


@dataclass
class Load:
    """Processors' worth of time that others took, on average while it was watched; None while, or where, unknown."""

    cores: float | None = None

    @property
    def note(self) -> str:
        """One sentence for whoever reads the figures; "" for a quiet machine, or one that does not tell."""
        if self.cores is None or self.cores < _BUSY:
            return ""
        return f"the machine was busy: other programs took {self.cores:.1f} of its {os.cpu_count()} processors"


@contextmanager
def other_load() -> Iterator[Load]:
    """Watch what other programs take of the processors until the block ends."""
    load = Load()
    begin = _others_seconds(), time.monotonic()
    yield load
    end = _others_seconds(), time.monotonic()
    if begin[0] is not None and end[0] is not None and end[1] > begin[1]:
        load.cores = max(0.0, (end[0] - begin[0]) / (end[1] - begin[1]))


def _others_seconds() -> float | None:
    """Processor seconds since the system started, all processors together, less those of this process and children."""
    try:
        fields = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:]]
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    # user, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen by the hypervisor
    busy = sum(fields[:3]) + sum(fields[5:8])
    own = os.times()
    return busy / ticks - (own.user + own.system + own.children_user + own.children_system)
