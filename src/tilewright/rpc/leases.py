"""The leases that a device knows of: who may have it until when. Each opens one session, once.

A server without a tracker needs none. One with a tracker learns of each grant from it, and takes no session without
one: a lease that was used, has ended, or was granted to somebody else is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.rpc.identity import Peer
from tilewright.rpc.messages import Refused

#: Seconds in which the tracker's word of a lease comes, if there is one.
_WORD_SECONDS = 2.0


@dataclass
class _Lease:
    user: str
    until: float
    used: bool = False


class Leases:
    """Thread-safe. `ended`, where set, is called with each lease whose session is over.

    It is called with the failure, and whether the lease was over first, as nobody had renewed it.
    """

    def __init__(self, required: bool) -> None:
        self.required = required
        self.ended: Callable[[str, str, bool], None] | None = None
        self._changed = threading.Condition()
        self._known: dict[str, _Lease] = {}

    def grant(self, lease: str, user: str, seconds: float) -> None:
        """From now on `user` may open a session with `lease`, and have it for `seconds` unless that is renewed.

        The clock is the monotonic one, which nobody sets.
        """
        with self._changed:
            self._known[lease] = _Lease(user, time.monotonic() + seconds)
            self._changed.notify_all()

    def renew(self, lease: str, seconds: float) -> None:
        """The lease now ends `seconds` from now."""
        with self._changed:
            if lease in self._known:
                self._known[lease].until = time.monotonic() + seconds

    def withdraw(self, lease: str) -> None:
        """The lease has ended; a session that has it is closed at its next request."""
        with self._changed:
            self._known.pop(lease, None)

    def withdraw_all(self) -> None:
        """No lease holds any more: of a tracker that was restarted without remembering them."""
        with self._changed:
            self._known.clear()

    def begin(self, lease: str, peer: Peer) -> None:
        """A session begins. Raises `Refused` unless its lease is good, unused and that of the peer."""
        if not lease and not self.required:
            return
        with self._changed:
            # the user may be faster than the tracker's word to us
            self._changed.wait_for(lambda: lease in self._known, _WORD_SECONDS)
            found = self._known.get(lease)
            if found is None or found.until < time.monotonic():
                raise Refused("this device is given out by its tracker, and this lease has ended or never was one")
            if found.used:
                raise Refused("this lease has opened a session already; each opens one")
            if peer.name and found.user != peer.name:
                raise Refused(f"this lease was granted to another user than {peer.name}")
            found.used = True

    def holds(self, lease: str) -> bool:
        """True if a session may go on."""
        with self._changed:
            found = self._known.get(lease)
            return found is not None and found.until >= time.monotonic()

    def in_use(self) -> list[str]:
        """The leases with a session."""
        with self._changed:
            return [lease for lease, found in self._known.items() if found.used]

    def end(self, lease: str, fault: str = "") -> None:
        """A session is over, and with it its lease; `fault` is what went wrong with the device."""
        with self._changed:
            found = self._known.pop(lease, None)
        if self.ended is not None:
            self.ended(lease, fault, found is not None and found.until < time.monotonic())
