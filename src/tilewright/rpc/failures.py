"""Recent failures: jobs that did not end well, for the people who look after a fleet.

A lease may end by the tracker (nobody renewed it, its device was lost), by its user with the device's fault, or well,
with a user who says that the job failed; the last may come before or after the device says that its session is over.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from tilewright.rpc.scheduler import Lease

#: Failures that are kept, and leases of which a user may still report one.
_KEPT = 200
#: Characters of a reason.
_MOST_CHARACTERS = 300


class Failures:
    """The last of them. Not thread-safe: the tracker holds a lock around it."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Lease, str]] = deque(maxlen=_KEPT)
        self._over: OrderedDict[str, Lease] = OrderedDict()

    def ended(self, lease: Lease, how: str, now: float) -> None:
        """A lease has ended; `how` is "done" or what went wrong."""
        self._over[lease.lease] = lease
        while len(self._over) > _KEPT:
            self._over.popitem(last=False)
        if how != "done":
            self._kept.append((now, lease, how[:_MOST_CHARACTERS]))

    def reported(self, lease: str, user: str, text: str, now: float) -> None:
        """A user says why a job of theirs failed; once for each lease that has ended lately."""
        found = self._over.get(lease)
        if found is not None and found.user == user and text:
            del self._over[lease]
            self._kept.append((now, found, text[:_MOST_CHARACTERS]))

    def listed(self, now: float) -> list[dict[str, Any]]:
        """All of them, the last one first."""
        return [
            {"job": lease.job, "user": lease.user, "device": lease.device, "reason": reason,
             "seconds_ago": round(now - when, 1), "lasted": round(when - lease.begun, 1)}
            for when, lease, reason in reversed(self._kept)
        ]  # fmt: skip
