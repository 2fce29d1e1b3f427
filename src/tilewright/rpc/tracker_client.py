"""Ask a tracker for devices.

    tracker = connect_tracker("127.0.0.1", 9190, bundle="fleet/user-anna")
    with tracker.request("rpi4", priority=1) as remote:        # waits until one is free; then a `Session`
        remote.load_module(remote.upload("model.tw"))
    tracker.run("rpi4", jobs, work=lambda remote, job: …)      # each job once, over all devices that are free

While a session is open, a thread tells the tracker that its holder is alive. A device that vanishes ends the session
with a `ConnectionLost`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeVar

from tilewright.errors import RpcError
from tilewright.rpc.client import Session, connect, dial
from tilewright.rpc.frames import Channel, ConnectionLost, spelled
from tilewright.rpc.messages import VERSION, Refused, result_of

T = TypeVar("T")

#: Seconds that a lease lasts when its holder says nothing; it is renewed three times in each.
LEASE_SECONDS = 30.0
#: Seconds within which a tracker that is being restarted must be back.
_RETRY_SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: its result, or the error, the device it ran on, and the number of attempts."""

    job: str
    result: Any = None
    error: Exception | None = None
    device: str = ""
    tries: int = 1


def connect_tracker(
    host: str, port: int, *, bundle: str | os.PathLike[str] | None = None, user: str = ""
) -> TrackerSession:
    """The tracker at an address. `user` is the name of the user where there are no certificates. Raises `RpcError`."""
    return TrackerSession(host, port, bundle, user)


class TrackerSession:
    """Client of a tracker; each request has a connection of its own, so that one object serves many threads."""

    def __init__(self, host: str, port: int, bundle: str | os.PathLike[str] | None = None, user: str = "") -> None:
        self.address, self.bundle, self.user = (host, port), bundle, user
        with self._visit():
            pass

    def status(self) -> dict[str, Any]:
        """All devices, users and counts."""
        with self._visit() as visit:
            return visit.ask("status")

    def failures(self) -> list[dict[str, Any]]:
        """Jobs that did not end well lately, the last one first: whose, on which device, and the reason."""
        with self._visit() as visit:
            return list(visit.ask("failures")["failures"])

    def drain(self, device: str, on: bool = True) -> None:
        """Lease a device no more once its lease has ended; `on` False does again."""
        with self._visit() as visit:
            visit.ask("drain", device=device, on=on)

    def request(
        self,
        key: str = "",
        priority: int = 0,
        *,
        wait: float = 60.0,
        job: str = "",
        lease_seconds: float = LEASE_SECONDS,
        answer_seconds: float | None = None,
        **need: Any,
    ) -> Session:
        """A session with a free device of the kind `key`, or as `need` says (name, architecture, features, memory…).

        Waits up to `wait` seconds for it. `job` names what it is for: asking again for the same job, after a broken
        connection, returns the same device. `answer_seconds` is the longest that an answer of the device may take.
        Raises `RpcError` where none was free, no device is like that, or the one given does not answer.
        """
        wanted = {"job": job or secrets.token_hex(8), "need": ({"key": key} if key else {}) | need}
        fields = {"priority": priority, "wait": wait, "seconds": lease_seconds}
        with self._visit() as visit:
            found = visit.ask("request", answer_seconds=wait + 15.0, **wanted, **fields)
        lease = found["lease"]
        try:
            host, port = found["address"]
            session = connect(
                host, port, bundle=self.bundle, lease=lease, device=found["device"], seconds=answer_seconds
            )
        except ConnectionLost as error:
            self._release(lease, f"it does not answer: {error}")
            raise
        except Refused as error:  # it was restarted since, and knows nothing of the lease
            self._release(lease)
            raise ConnectionLost(f"device {found['device']} does not take us: {error}") from None
        return _Leased(session, self, lease, found["device"], lease_seconds)

    def run(
        self,
        key: str,
        jobs: Sequence[T],
        work: Callable[[Session, T], Any],
        *,
        at_once: int = 16,
        tries: int = 3,
        **options: Any,
    ) -> Iterator[Outcome]:
        """Do `work(session, job)` once for each job, each in a session of its own; the outcomes as they come.

        A job whose device is lost is begun again elsewhere, up to `tries` times; one whose work raises for another
        reason is over with that error. `options` are those of `request`.
        """
        with ThreadPoolExecutor(min(at_once, max(len(jobs), 1))) as pool:
            pending = [pool.submit(self._one, key, job, work, tries, options) for job in jobs]
            for future in as_completed(pending):
                yield future.result()

    def _one(
        self, key: str, job: T, work: Callable[[Session, T], Any], tries: int, options: Mapping[str, Any]
    ) -> Outcome:
        name, device = secrets.token_hex(8), ""
        for attempt in itertools.count(1):
            try:
                with self.request(key, job=f"{name}-{attempt}", **options) as remote:
                    device = remote.name
                    return Outcome(str(job), work(remote, job), None, device, attempt)
            except ConnectionLost as error:
                if attempt >= tries:
                    return Outcome(str(job), None, error, device, attempt)
            except Exception as error:
                return Outcome(str(job), None, error, device, attempt)
        raise AssertionError

    def _release(self, lease: str, fault: str = "", reason: str = "") -> None:
        """Release a lease; one that has ended, or a tracker that is away, is as good."""
        with contextlib.suppress(RpcError), self._visit() as visit:
            visit.ask("release", lease=lease, **_given(fault=fault[:500], reason=reason[:500]))

    @contextlib.contextmanager
    def _visit(self) -> Iterator[_Visit]:
        connection, peer = _dialled(*self.address, self.bundle)
        channel = Channel(connection, str(peer))
        try:
            visit = _Visit(channel)
            visit.ask("hello", version=VERSION, **_given(user=self.user if self.bundle is None else ""))
            yield visit
        finally:
            channel.close()


def _dialled(host: str, port: int, bundle: Any) -> tuple[Any, Any]:
    """A connection to the tracker, which may just be restarting."""
    deadline = time.monotonic() + _RETRY_SECONDS
    for pause in itertools.chain((0.1, 0.3, 1.0), itertools.repeat(2.0)):
        try:
            return dial(host, port, bundle, ("tracker",))
        except ConnectionLost:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
    raise AssertionError


def _given(**fields: str) -> dict[str, Any]:
    """The fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


class _Visit:
    """One connection to a tracker."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._requests = 0

    def ask(self, verb: str, *, answer_seconds: float = 10.0, **fields: Any) -> dict[str, Any]:
        self._requests += 1
        self.channel.send({"verb": verb, "id": self._requests, **fields})
        return result_of(self.channel.receive(answer_seconds)[0], self._requests, self.channel.peer)


class _Leased(Session):
    """A session whose lease is renewed while it is open, and released when it is closed."""

    def __init__(self, opened: Session, tracker: TrackerSession, lease: str, device: str, seconds: float) -> None:
        self.__dict__.update(opened.__dict__)
        self.name = device
        self._tracker, self._lease_seconds = tracker, seconds
        self._over = threading.Event()
        threading.Thread(target=self._renew, name="lease", daemon=True).start()

    def close(self, reason: str = "") -> None:
        """End the session and release the device. `reason` is why the job failed, which the tracker keeps a while."""
        if not self._over.is_set():
            self._over.set()
            super().close()
            self._tracker._release(self.lease, reason=reason)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.close("" if error is None else f"{type(error).__name__}: {error}")

    def _renew(self) -> None:
        while not self._over.wait(self._lease_seconds / 3):
            try:
                with self._tracker._visit() as visit:
                    visit.ask("renew", lease=self.lease)
            except Refused:
                self.channel.close()  # whoever waits for an answer learns it at once
                return
            except RpcError:
                continue  # the tracker is away; it knows the lease when it is back


def devices(status: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """The devices of a status as rows of text."""
    for device in status["devices"]:
        address = spelled(*device["address"])
        yield device["name"], device["key"], device["architecture"], device["state"], device["user"], address
