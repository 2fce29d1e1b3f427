"""Who gets which device when: the tracker's decisions, as plain data and functions of a time that is handed in.

Users share devices by weighted fair queueing (Demers, Keshav and Shenker 1989): each has a virtual time that grows with
the device seconds it used, halved with every step of priority. Served next is the user who will have the least when the
leases in force end, if these last as that user's usually do. What they did last counts in the end: who took more at
first, or was guessed wrong, returns it. So nobody starves, a user with a thousand requests takes no more than one
with ten at a time, and who comes new starts level with the others. Within a user, priority counts, plus a step for
every `AGEING_SECONDS` of waiting, and then who came first.

Nothing here knows of sockets or clocks: the tracker calls it with `time.monotonic()`, a test with a time of its own.
"""

from __future__ import annotations

import heapq
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import InputError
from tilewright.rpc.capability import check_need, satisfies
from tilewright.rpc.messages import Refused

#: How a job ended whose lease nobody renewed.
VANISHED = "its holder vanished"
#: Waiting so long raises a request by one step of priority among those of its user.
AGEING_SECONDS = 60.0
#: The highest priority; a device second of one costs its user 2**-priority.
MOST_PRIORITY = 10
#: Faults in a row after which a device is set aside, and for how long: doubled each time up to the second figure.
FAULTS_IN_A_ROW, QUARANTINE_SECONDS = 3, (60.0, 3600.0)
#: How many of a user's leases count in what they usually last.
_USUAL = 64
#: Jobs whose end is remembered, so that a repeated request of one is recognized.
_REMEMBERED = 100_000


@dataclass
class Device:
    """One device as the tracker sees it. `lease` is the id of the one that has it."""

    name: str
    address: tuple[str, int]
    capability: Mapping[str, Any]
    kind: str
    lease: str = ""
    drained: bool = False
    away: bool = False
    faults: int = 0
    quarantines: int = 0
    set_aside_until: float = 0.0
    used_seconds: float = 0.0
    jobs: int = 0

    def free(self, now: float) -> bool:
        """True if the device may be leased."""
        return not (self.lease or self.drained or self.away) and now >= self.set_aside_until

    def state(self, now: float) -> str:
        """One word for people."""
        if self.away:
            return "away"
        if self.lease:
            return "draining" if self.drained else "busy"
        return "drained" if self.drained else "free" if now >= self.set_aside_until else "quarantined"


@dataclass
class Request:
    """A device is wanted for a job."""

    job: str
    user: str
    need: Mapping[str, Any]
    priority: int
    seconds: float
    asked: float
    kind: str = ""
    withdrawn: bool = False

    def __lt__(self, other: Request) -> bool:
        """The order in which a user's requests are served: as all age alike, it never changes."""
        return self._position() < other._position()

    def _position(self) -> tuple[float, float, str]:
        return self.asked - self.priority * AGEING_SECONDS, self.asked, self.job


@dataclass(frozen=True)
class Lease:
    """A device is granted to a job until a time, which its holder may move."""

    lease: str
    job: str
    user: str
    device: str
    seconds: float
    begun: float
    until: float
    priority: int = 0

    @property
    def weight(self) -> float:
        """The cost of a second of the device to its user."""
        return 2.0**-self.priority


@dataclass
class User:
    """A user's leases, present and past. `virtual_time` is of leases that are over, `usual` the seconds that these
    lasted.
    """

    name: str
    virtual_time: float = 0.0
    usual: float = 0.0
    ended: int = 0
    holds: int = 0
    weights: float = 0.0  # of the leases in force: what a second of each adds to the virtual time
    begins: float = 0.0  # when they began, times their weights
    used_seconds: float = 0.0
    queues: dict[str, list[Request]] = field(default_factory=dict)
    waiting: dict[str, Request] = field(default_factory=dict)

    def level(self, now: float) -> float:
        """The virtual time by now."""
        return self.virtual_time + max(now * self.weights - self.begins, 0.0)

    def expected(self, now: float) -> float:
        """The virtual time when the leases in force end, as they usually do."""
        return max(self.level(now), self.virtual_time + self.weights * self.usual)

    def begin(self, lease: Lease) -> None:
        """A lease is granted."""
        self.holds += 1
        self.weights += lease.weight
        self.begins += lease.weight * lease.begun

    def end(self, lease: Lease, used: float) -> None:
        """A lease is over that lasted `used` seconds."""
        self.ended += 1
        self.usual += (used - self.usual) / min(self.ended, _USUAL)
        self.holds -= 1
        self.used_seconds += used
        self.virtual_time += used * lease.weight
        self.weights = self.weights - lease.weight if self.holds else 0.0  # no rounding errors are carried on
        self.begins = self.begins - lease.weight * lease.begun if self.holds else 0.0

    def add(self, request: Request) -> None:
        """A request waits: in the queue of those that need the same."""
        self.waiting[request.job] = request
        heapq.heappush(self.queues.setdefault(request.kind, []), request)

    def remove(self, job: str) -> None:
        """A request waits no more."""
        found = self.waiting.pop(job, None)
        if found is not None:
            found.withdrawn = True

    def first(self) -> list[Request]:
        """The first request of each queue, in the order they are served."""
        for kind, queue in list(self.queues.items()):
            while queue and queue[0].withdrawn:
                heapq.heappop(queue)
            if not queue:
                del self.queues[kind]
        return sorted(queue[0] for queue in self.queues.values())


class Scheduler:
    """Devices, users, requests and leases. Not thread-safe: the tracker holds a lock around it."""

    def __init__(self, quota: int = 0, quotas: Mapping[str, int] | None = None) -> None:
        """`quota` is how many devices a user may have at a time (0: any), `quotas` those of single users."""
        self.devices: dict[str, Device] = {}
        self.users: dict[str, User] = {}
        self.leases: dict[str, Lease] = {}
        self.quota, self.quotas = quota, dict(quotas or {})
        self._free: dict[str, OrderedDict[str, None]] = {}  # names of devices that may be free, by their kind
        self._kinds: dict[str, Mapping[str, Any]] = {}  # one capability of each kind of device
        self._needs: dict[str, Mapping[str, Any]] = {}
        self._fits: dict[tuple[str, str], bool] = {}  # (need, kind of device)
        self._finished: OrderedDict[str, str] = OrderedDict()  # jobs, and how they ended
        self._jobs: dict[str, str] = {}  # jobs with a lease
        self._granted = 0

    def add_device(self, name: str, address: tuple[str, int], capability: Mapping[str, Any]) -> Device:
        """Add a device, or one again under a new address: its history is kept."""
        kind = _spelled({key: value for key, value in capability.items() if key != "name"})
        self._kinds.setdefault(kind, capability)
        found = self.devices.get(name)
        if found is None:
            found = self.devices[name] = Device(name, address, dict(capability), kind)
        elif found.kind != kind:
            self._free.get(found.kind, OrderedDict()).pop(name, None)
        found.address, found.capability, found.kind, found.away = address, {**capability, "name": name}, kind, False
        self._offer(found)
        return found

    def miss_device(self, name: str) -> None:
        """A device has ended its connection: it is given out no more until it is added again; its lease goes on."""
        if name in self.devices:
            self.devices[name].away = True
            self._free.get(self.devices[name].kind, OrderedDict()).pop(name, None)

    def lose_device(self, name: str, now: float) -> Lease | None:
        """A device is gone; the lease on it, which ends with it."""
        device = self.devices.pop(name, None)
        if device is None:
            return None
        self._free.get(device.kind, OrderedDict()).pop(name, None)
        lease = self.leases.get(device.lease)
        if lease is not None:
            self._close(lease, now)
            self._remember(lease.job, "device lost")
        return lease

    def ask(self, request: Request) -> Lease | None:
        """A request is made. A job that has a lease gets the same again. Raises `Refused`, `InputError`."""
        wrong = check_need(request.need)
        if wrong or request.priority > MOST_PRIORITY:
            raise InputError(wrong or f"the highest priority is {MOST_PRIORITY}, not {request.priority}")
        if request.job in self._jobs:
            lease = self.leases[self._jobs[request.job]]
            if lease.user != request.user:
                raise Refused(f"job {request.job!r} is another user's")
            return lease
        if request.job in self._finished:
            raise Refused(f"job {request.job!r} is over ({self._finished[request.job]}); a new one needs a new id")
        request.kind = _spelled(request.need)
        self._needs.setdefault(request.kind, request.need)
        user = self._user(request.user, request.asked)
        if request.job not in user.waiting:
            user.add(request)
        return None

    def withdraw(self, job: str, user: str) -> None:
        """A request is withdrawn before it was granted."""
        if user in self.users:
            self.users[user].remove(job)

    def assign(self, now: float, new_id: Any) -> list[Lease]:
        """Grant free devices to those who wait, as long as one fits; the leases, whose ids `new_id()` makes."""
        granted: list[Lease] = []
        while True:
            found = self._next(now)
            if found is None:
                return granted
            granted.append(self._grant(*found, now, new_id()))

    def renew(self, lease: str, now: float) -> Lease:
        """The holder is alive: the lease counts from now again. Raises `Refused` if it has ended."""
        found = self.leases.get(lease)
        if found is None:
            raise Refused("this lease has ended")
        kept = self.leases[lease] = Lease(**{**found.__dict__, "until": now + found.seconds})
        return kept

    def release(self, lease: str, now: float, fault: str = "", how: str = "") -> Lease | None:
        """A lease ends, and its job so (`how`); None if it had ended. A device's `fault` counts towards quarantine."""
        found = self.leases.get(lease)
        if found is None:
            return None
        self._close(found, now)
        self._remember(found.job, how or fault or "done")
        device = self.devices.get(found.device)
        if device is not None:
            self._judge(device, now, fault)
            self._offer(device)
        return found

    def expire(self, now: float) -> list[Lease]:
        """End the leases that nobody renewed; their devices are free."""
        late = [lease for lease in self.leases.values() if lease.until < now]
        for lease in late:
            self._close(lease, now)
            self._remember(lease.job, VANISHED)
            self._offer(self.devices[lease.device])
        for device in self.devices.values():
            if device.set_aside_until and now >= device.set_aside_until:
                device.set_aside_until = 0.0
                self._offer(device)
        return late

    def drain(self, name: str, on: bool) -> None:
        """Lease a device no more once its lease has ended, or do again. Raises `InputError`."""
        if name not in self.devices:
            raise InputError(f"there is no device {name!r}; there are: {', '.join(sorted(self.devices)) or 'none'}")
        device = self.devices[name]
        device.drained = on
        self._free.get(device.kind, OrderedDict()).pop(name, None)
        self._offer(device)

    def restore(self, lease: Lease, now: float) -> None:
        """Take up a lease of before a restart, which counts from now."""
        kept = Lease(**{**lease.__dict__, "begun": now, "until": now + lease.seconds})
        self.leases[lease.lease] = kept
        self._jobs[lease.job] = lease.lease
        user = self._user(lease.user, now)
        user.usual = user.usual or self._usual(lease.seconds)
        user.begin(kept)
        if lease.device in self.devices:
            self.devices[lease.device].lease = lease.lease

    def remember(self, job: str, how: str) -> None:
        """Take up the end of a job of before a restart."""
        self._remember(job, how)

    def lease_of(self, job: str) -> Lease | None:
        """The lease of a job that has one."""
        return self.leases.get(self._jobs.get(job, ""))

    def fitting_devices(self, need: Mapping[str, Any]) -> list[Device]:
        """All devices that would do, free or not."""
        return [device for device in self.devices.values() if satisfies(device.capability, need)]

    def waiting(self) -> int:
        """Requests that are not granted yet."""
        return sum(len(user.waiting) for user in self.users.values())

    def _user(self, name: str, now: float) -> User:
        """A user. Who is new, or was away, has saved nothing up: it starts level with the least of those served."""
        user = self.users.setdefault(name, User(name))
        if not user.waiting and not user.holds:
            others = [other for other in self.users.values() if other.waiting or other.holds]
            served = [other for other in others if other.holds] or others
            user.virtual_time = max(user.virtual_time, min((other.level(now) for other in served), default=0.0))
        return user

    def _usual(self, seconds: float) -> float:
        """The expected length of a lease of a user without history: as those of others, or till they are renewed."""
        known = [user.usual for user in self.users.values() if user.ended]
        return sum(known) / len(known) if known else seconds

    def _next(self, now: float) -> tuple[Request, Device] | None:
        """The request that is served next, and a device for it."""
        if not any(self._free.values()):
            return None
        for user in sorted(self.users.values(), key=lambda user: (user.expected(now), user.name)):
            quota = self.quotas.get(user.name, self.quota)
            if not user.waiting or (quota and user.holds >= quota):
                continue
            for request in user.first():
                device = self._device_for(request, now)
                if device is not None:
                    return request, device
        return None

    def _device_for(self, request: Request, now: float) -> Device | None:
        if request.need.get("name"):
            named = self.devices.get(request.need["name"])
            fits = named is not None and named.free(now) and satisfies(named.capability, request.need)
            return named if fits else None
        for kind, names in self._free.items():
            if not names or not self._fitting(request.kind, kind):
                continue
            for name in names:
                if self.devices[name].free(now):
                    return self.devices[name]
        return None

    def _fitting(self, need: str, kind: str) -> bool:
        key = (need, kind)
        if key not in self._fits:
            self._fits[key] = satisfies(self._kinds[kind], self._needs[need])
        return self._fits[key]

    def _grant(self, request: Request, device: Device, now: float, lease: str) -> Lease:
        user = self.users[request.user]
        user.remove(request.job)
        user.usual = user.usual or self._usual(request.seconds)
        device.lease = lease
        device.jobs += 1
        self._free[device.kind].pop(device.name, None)
        made = Lease(
            lease, request.job, request.user, device.name, request.seconds, now, now + request.seconds, request.priority
        )
        user.begin(made)
        self.leases[lease] = made
        self._jobs[request.job] = lease
        self._granted += 1
        return made

    def _close(self, lease: Lease, now: float) -> None:
        del self.leases[lease.lease]
        self._jobs.pop(lease.job, None)
        used = now - lease.begun
        self.users[lease.user].end(lease, used)
        device = self.devices.get(lease.device)
        if device is not None and device.lease == lease.lease:
            device.lease = ""
            device.used_seconds += used

    def _judge(self, device: Device, now: float, fault: str) -> None:
        """Count faults in a row; a device with too many is set aside, each time longer."""
        if not fault:
            device.faults = device.quarantines = 0
            return
        device.faults += 1
        if device.faults >= FAULTS_IN_A_ROW:
            first, most = QUARANTINE_SECONDS
            device.set_aside_until = now + min(first * 2**device.quarantines, most)
            device.quarantines += 1
            device.faults = 0

    def _offer(self, device: Device) -> None:
        if not (device.lease or device.drained or device.away):
            self._free.setdefault(device.kind, OrderedDict())[device.name] = None

    def _remember(self, job: str, how: str) -> None:
        self._finished[job] = how
        while len(self._finished) > _REMEMBERED:
            self._finished.popitem(last=False)

    @property
    def granted(self) -> int:
        """Leases granted since the beginning."""
        return self._granted


def _spelled(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, default=str)
