"""The tracker: devices register, users request devices, and it grants leases with an end.

    with Tracker(TrackerSettings(folder=Path("tracker"), bundle=Bundle(Path("fleet/tracker-main")))) as tracker:
        tracker.wait()

Decisions are those of `scheduler.py`; this module is their clock, their lock and their connections, one thread each. A
device keeps its connection: it reports that it is alive, and learns of the leases on it. A user may come and go: a
lease belongs to a job, not to a connection, and ends when nobody renews it. All times are of the monotonic clock.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.rpc.failures import Failures
from tilewright.rpc.frames import BadFrame, Channel, ConnectionLost
from tilewright.rpc.held_folder import HeldFolder
from tilewright.rpc.identity import Bundle, Peer
from tilewright.rpc.journal import Journal
from tilewright.rpc.listener import Listener
from tilewright.rpc.messages import TRACKER_VERBS, VERSION, Refused, answer, check_request, failure
from tilewright.rpc.scheduler import VANISHED, Lease, Request, Scheduler

#: Seconds between two signs of life of a device, and after how many of them missed it is taken for lost.
HEARTBEAT_SECONDS, MISSED = 2.0, 4
#: Seconds between two looks at what has expired.
_LOOK_SECONDS = 0.25
_MOST_CONNECTIONS = 2048
#: The longest lease that a user may ask for without renewing it.
_LONGEST_LEASE = 3600.0

_DEVICE_VERBS = frozenset({"hello", "register", "heartbeat", "ended", "bye"})


@dataclass(frozen=True)
class TrackerSettings:
    """Settings of the tracker: the path of its journal, its addresses, admitted users, devices per user.

    A device tells every `heartbeat_seconds` that it is alive, and is lost after `silence_seconds` without a word (0:
    after four heartbeats).
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    bundle: Bundle | None = None
    quota: int = 0
    quotas: Mapping[str, int] = field(default_factory=dict)
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    silence_seconds: float = 0.0

    @property
    def longest_silence(self) -> float:
        """Seconds without a word after which a device is lost."""
        return self.silence_seconds or self.heartbeat_seconds * MISSED


class Tracker:
    """Listens from the moment it is made; `address` is where."""

    def __init__(self, settings: TrackerSettings) -> None:
        self.settings = settings
        self.scheduler = Scheduler(settings.quota, settings.quotas)
        self._held = HeldFolder(settings.folder)
        self.journal = Journal(settings.folder / "journal.jsonl")
        self.started = time.monotonic()
        self.expired = self.lost = 0
        self.failures = Failures()
        self._lock = threading.RLock()
        self._granted: dict[str, threading.Condition] = {}  # by job that is waited for
        self._links: dict[str, _DeviceLink] = {}
        for lease in self.journal.leases.values():
            self.scheduler.restore(lease, time.monotonic())
        for job, how in self.journal.finished.items():
            self.scheduler.remember(job, how)
        position = settings.host, settings.port
        self._listener = Listener(position, settings.bundle, ("user", "device"), _MOST_CONNECTIONS, self._serve)
        self.address = self._listener.address
        self.closed = self._listener.closed
        threading.Thread(target=self._look, daemon=True).start()

    def wait(self) -> None:
        """Until `close` is called."""
        self.closed.wait()

    def close(self) -> None:
        """Stop listening and end all connections; leases and jobs stay in the journal."""
        self._listener.close()
        self.journal.close()
        self._held.close()

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def status(self) -> dict[str, Any]:
        """Devices, users and leases, as `tilewright rpc query` and the page show them."""
        now = time.monotonic()
        with self._lock:
            found = self.scheduler
            devices = [
                {
                    "name": device.name,
                    "address": list(device.address),
                    "state": device.state(now),
                    "key": device.capability.get("key", ""),
                    "architecture": device.capability.get("architecture", ""),
                    "user": found.leases[device.lease].user if device.lease in found.leases else "",
                    "jobs": device.jobs,
                    "faults": device.faults,
                    "used_seconds": round(device.used_seconds, 3),
                }
                for device in found.devices.values()
            ]
            users = [
                {
                    "name": user.name,
                    "waiting": len(user.waiting),
                    "holds": user.holds,
                    "used_seconds": round(user.used_seconds, 3),
                }
                for user in found.users.values()
            ]
            counts = {
                "granted": found.granted,
                "expired": self.expired,
                "lost": self.lost,
                "refused": self._listener.refused,
            }
            seconds = round(now - self.started, 1)
            return {
                "devices": devices, "users": users, "waiting": found.waiting(), "leases": len(found.leases),
                **counts, "seconds": seconds, "journal": self.journal.failed,
            }  # fmt: skip

    def _serve(self, channel: Channel, peer: Peer) -> None:
        """One connection, until its visitor leaves."""
        visitor = _Visitor(self, channel, peer)
        try:
            visitor.run()
        finally:
            if visitor.link is not None:
                self.unlink(visitor.link)

    def _look(self) -> None:
        """Periodically end leases that were not renewed, and drop devices without heartbeats."""
        while not self.closed.wait(_LOOK_SECONDS):
            now = time.monotonic()
            silent = self.settings.longest_silence
            with self._lock:
                late = self.scheduler.expire(now)
                self.expired += len(late)
                for lease in late:
                    self._ended(lease, VANISHED)
                for link in [link for link in self._links.values() if now - link.heard > silent]:
                    self._lose(link, now)
            self.assign()

    def assign(self) -> None:
        """Lease what is free, and notify devices and users."""
        with self._lock:
            granted = self.scheduler.assign(time.monotonic(), lambda: secrets.token_hex(16))
            for lease in granted:
                self.journal.granted(lease)
                self._tell(lease.device, {"push": "grant", **_fields(lease)})
                if lease.job in self._granted:
                    self._granted[lease.job].notify_all()

    def link(self, link: _DeviceLink, busy: list[Any]) -> None:
        """Add a registered device; leases that it holds but the tracker does not know are withdrawn."""
        with self._lock:
            old = self._links.get(link.name)
            self._links[link.name] = link
            device = self.scheduler.add_device(link.name, link.address, link.capability)
            for lease in self.scheduler.leases.values():
                if lease.device == link.name:
                    device.lease = lease.lease
                    link.send({"push": "grant", "known": True, **_fields(lease)})
            for lease_id in busy:
                if lease_id not in self.scheduler.leases:
                    link.send({"push": "withdraw", "lease": str(lease_id)})
        if old is not None:
            old.channel.close()
        self.assign()

    def unlink(self, link: _DeviceLink) -> None:
        """Handle the end of a device's connection: its lease stays valid for the time in which it may return."""
        link.end()
        with self._lock:
            if self._links.get(link.name) is link:
                self.scheduler.miss_device(link.name)

    def released(self, lease_id: str, fault: str, user: str = "", reason: str = "", late: bool = False) -> None:
        """A lease is released, by its user or by the device. Raises `Refused` for another user's.

        `reason` is why the user's job failed, for which the device can do nothing; `late`, that nobody had renewed it.
        """
        with self._lock:
            known = self.scheduler.leases.get(lease_id)
            if known is not None:
                if user and known.user != user:
                    raise Refused("this lease is another user's")
                how = VANISHED if late else fault or "done"
                self.scheduler.release(lease_id, time.monotonic(), fault, how)
                self.expired += late
                self._ended(known, how)
            self.failures.reported(lease_id, user, reason, time.monotonic())
        if known is not None:
            self.assign()

    def wanted(self, request: Request, wait: float, gone: Any) -> Lease:
        """Queue a request until it is granted. Raises `Refused` after `wait` seconds, or when its user is `gone()`."""
        deadline = time.monotonic() + wait
        with self._lock:
            found = self.scheduler.ask(request)
            if found is not None:
                return found
            granted = self._granted.setdefault(request.job, threading.Condition(self._lock))
            try:
                self.assign()
                while (found := self.scheduler.lease_of(request.job)) is None:
                    if time.monotonic() >= deadline or gone() or self.closed.is_set():
                        self.scheduler.withdraw(request.job, request.user)
                        raise Refused(self._why_none(request, wait))
                    granted.wait(min(_LOOK_SECONDS, max(deadline - time.monotonic(), 1e-3)))
                return found
            finally:
                self._granted.pop(request.job, None)

    def _why_none(self, request: Request, wait: float) -> str:
        fitting = self.scheduler.fitting_devices(request.need)
        if not fitting:
            return f"no device of this fleet is as needed ({dict(request.need)}); `tilewright rpc query` lists them"
        states = ", ".join(sorted({device.state(time.monotonic()) for device in fitting}))
        return f"none of the {len(fitting)} devices that would do was free within {wait:g} s ({states})"

    def renewed(self, lease_id: str, user: str) -> Lease:
        """A user's sign of life. Raises `Refused`."""
        with self._lock:
            known = self.scheduler.leases.get(lease_id)
            if known is not None and known.user != user:
                raise Refused("this lease is another user's")
            kept = self.scheduler.renew(lease_id, time.monotonic())
            self._tell(kept.device, {"push": "renew", "lease": lease_id, "seconds": kept.seconds})
            return kept

    def recent_failures(self) -> list[dict[str, Any]]:
        """Jobs that did not end well, the last one first."""
        with self._lock:
            return self.failures.listed(time.monotonic())

    def drained(self, device: str, on: bool) -> None:
        """Stop or resume giving out a device. Raises `InputError`."""
        with self._lock:
            self.scheduler.drain(device, on)
        self.assign()

    def address_of(self, device: str) -> tuple[str, int]:
        """The address on which a device listens."""
        return self.scheduler.devices[device].address

    def _lose(self, link: _DeviceLink, now: float) -> None:
        self.lost += 1
        del self._links[link.name]
        lease = self.scheduler.lose_device(link.name, now)
        if lease is not None:
            self.journal.ended(lease, "device lost")
            self.failures.ended(lease, "device lost", now)
        link.channel.close()

    def _ended(self, lease: Lease, how: str) -> None:
        self.journal.ended(lease, how)
        self.failures.ended(lease, how, time.monotonic())
        self._tell(lease.device, {"push": "withdraw", "lease": lease.lease})

    def _tell(self, device: str, message: dict[str, Any]) -> None:
        link = self._links.get(device)
        if link is not None:
            link.send(message)


def _fields(lease: Lease) -> dict[str, Any]:
    return {"lease": lease.lease, "user": lease.user, "seconds": lease.seconds}


@dataclass(eq=False)
class _DeviceLink:
    """The connection of a device, with a sender thread of its own, so that a slow device delays no other."""

    name: str
    address: tuple[str, int]
    capability: Mapping[str, Any]
    channel: Channel
    heard: float

    def __post_init__(self) -> None:
        self._out: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Tell the device something; returns at once."""
        self._out.put(message)

    def end(self) -> None:
        """Send nothing more."""
        self._out.put(None)

    def _write(self) -> None:
        while (message := self._out.get()) is not None:
            try:
                self.channel.send(message)
            except (ConnectionLost, BadFrame):
                return


class _Visitor:
    """One connection to the tracker: its requests in order."""

    def __init__(self, tracker: Tracker, channel: Channel, peer: Peer) -> None:
        self.tracker, self.channel, self.peer = tracker, channel, peer
        self.user = peer.name or "local"
        self.link: _DeviceLink | None = None
        self._greeted = False

    def run(self) -> None:
        """Answer requests until the visitor leaves."""
        silence = self.tracker.settings.longest_silence if self.peer.role == "device" else 24 * 3600.0
        while True:
            message, _ = self.channel.receive(silence, most=0)
            try:
                verb = check_request(message, TRACKER_VERBS)
                self._check_role(verb)
                result = getattr(self, f"_{verb}")(message)
            except (ConnectionLost, BadFrame):
                raise
            except Exception as error:
                self.channel.send(failure(message, error))
                if not self._greeted:
                    return
                continue
            if self.link is None:
                self.channel.send(answer(message, result))
            elif verb in ("heartbeat", "register"):
                self.link.send(answer(message, result))
            if verb == "bye":
                return

    def _check_role(self, verb: str) -> None:
        if not self._greeted and verb != "hello":
            raise Refused(f"a visit begins with 'hello', not with {verb!r}")
        if self.tracker.settings.bundle is None:
            return
        if (self.peer.role == "device") != (verb in _DEVICE_VERBS) and verb not in ("hello", "bye"):
            raise Refused(f"{self.peer} may not {verb!r}")

    def _hello(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["version"] != VERSION:
            raise Refused(f"this tracker speaks version {VERSION} of the protocol, not {message['version']}")
        if self.tracker.settings.bundle is None:
            self.user = message.get("user") or "local"
        self._greeted = True
        return {"version": VERSION, "heartbeat": self.tracker.settings.heartbeat_seconds}

    def _register(self, message: dict[str, Any]) -> dict[str, Any]:
        name = message["name"]
        if self.tracker.settings.bundle is not None and name != self.peer.name:
            raise Refused(f"the certificate is of device {self.peer.name!r}, not of {name!r}")
        host, port = message["address"]
        if not isinstance(host, str) or type(port) is not int or not 0 < port < 1 << 16:
            raise Refused(f"{message['address']!r:.80} is no address")
        self.link = _DeviceLink(name, (host, port), message["capability"], self.channel, time.monotonic())
        self.tracker.link(self.link, message["busy"])
        return {}

    def _heartbeat(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.link is None:
            raise Refused("a device must register before its heartbeats")
        self.link.heard = time.monotonic()
        return {}

    def _ended(self, message: dict[str, Any]) -> dict[str, Any]:
        self.tracker.released(message["lease"], message.get("fault", ""), late=message.get("late", False))
        return {}

    def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        seconds = min(message["seconds"], _LONGEST_LEASE)
        need, priority = message["need"], message["priority"]
        request = Request(message["job"], self.user, need, priority, seconds, time.monotonic())
        lease = self.tracker.wanted(request, message["wait"], lambda: self.channel.ready(0))
        host, port = self.tracker.address_of(lease.device)
        return {"lease": lease.lease, "device": lease.device, "address": [host, port], "seconds": lease.seconds}

    def _renew(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"seconds": self.tracker.renewed(message["lease"], self.user).seconds}

    def _release(self, message: dict[str, Any]) -> dict[str, Any]:
        self.tracker.released(message["lease"], message.get("fault", ""), self.user, message.get("reason", ""))
        return {}

    def _failures(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"failures": self.tracker.recent_failures()}

    def _status(self, message: dict[str, Any]) -> dict[str, Any]:
        return self.tracker.status()

    def _drain(self, message: dict[str, Any]) -> dict[str, Any]:
        self.tracker.drained(message["device"], message["on"])
        return {}

    def _bye(self, message: dict[str, Any]) -> dict[str, Any]:
        return {}
