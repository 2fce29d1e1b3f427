"""The number of worker threads: as many processors as this process may really use, unless someone says otherwise.

Precedence: an explicit argument, then TILEWRIGHT_NUM_THREADS, then the smallest of OMP_NUM_THREADS, the processors in
the affinity mask, and the cgroup's quota (v2 ``cpu.max`` or v1 ``cpu.cfs_quota_us``, the tightest on the path from this
process's group to the root, rounded up). Containers limit a process by quota while `os.cpu_count()` still reports the
whole host; threads beyond the quota only get each other throttled.
"""

from __future__ import annotations

import math
from pathlib import Path

from tilewright.errors import InputError
from tilewright.runtime.system import host_system
from tilewright.support import knobs

MAX_WORKERS = 256  # that the pool has room for


def default_workers(explicit: int | None = None, root: Path = Path("/")) -> int:
    """The number of workers a compiled model uses. `root` is where /proc and /sys are found (tests pass another).

    Raises `InputError` when `explicit` is not a positive integer.
    """
    if explicit is not None:
        if isinstance(explicit, bool) or not isinstance(explicit, int) or explicit < 1:
            raise InputError(f"threads={explicit!r}: the number of threads must be an integer of at least 1")
        return min(explicit, MAX_WORKERS)
    wanted = knobs.NUM_THREADS.get()
    if wanted is None:
        allowed = available_processors(root)
        openmp = knobs.OMP_NUM_THREADS.get()
        wanted = allowed if openmp is None else min(allowed, openmp)
    return min(wanted, MAX_WORKERS)


def available_processors(root: Path = Path("/")) -> int:
    """The number of processors this process may keep busy: affinity mask and cgroup quota together, at least 1."""
    allowed = _affinity()
    quota = cgroup_quota(root)
    if quota is not None:
        allowed = min(allowed, math.ceil(quota - 0.01))
    return max(1, allowed)


def _affinity() -> int:
    return host_system().processors()


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """The tightest processor quota of this process's cgroup and its ancestors, in processors; None when unlimited."""
    v2_group, v1_group = _own_groups(root)
    quotas = []
    if v2_group is not None:
        quotas += [_v2_quota(group) for group in _ancestors(root / "sys/fs/cgroup", v2_group)]
        quotas += [_v2_quota(group) for group in _ancestors(root / "sys/fs/cgroup/unified", v2_group)]
    if v1_group is not None:
        for mount in ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpuacct,cpu"):
            quotas += [_v1_quota(group) for group in _ancestors(root / mount, v1_group)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _own_groups(root: Path) -> tuple[str | None, str | None]:
    """This process's group in the v2 hierarchy and in the v1 hierarchy of the cpu controller."""
    v2_group = v1_group = None
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            v2_group = group
        elif "cpu" in controllers.split(","):
            v1_group = group
    return v2_group, v1_group


def _ancestors(mount: Path, group: str) -> list[Path]:
    """The group's directory and those above it up to the mount.

    Inside a container the path in /proc may be the host's while the mount shows only this container's part: a directory
    that is not there is skipped, and the mount itself, which then is the container's own group, is always looked at.
    """
    parts = [part for part in group.split("/") if part and part != ".."]
    return [mount.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]


def _v2_quota(group: Path) -> float | None:
    fields = _read(group / "cpu.max").split()
    if len(fields) != 2 or fields[0] == "max":
        return None
    return _ratio(fields[0], fields[1])


def _v1_quota(group: Path) -> float | None:
    return _ratio(_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    """quota / period, None unless both are positive numbers (v1 writes -1 for unlimited)."""
    try:
        numerator, denominator = int(quota), int(period)
    except ValueError:
        return None
    return numerator / denominator if numerator > 0 and denominator > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
