"""A device of a tracker's fleet for one job: borrowed by the worker, and reached by the job's process through it.

The process has neither a network nor a certificate. Before it confines itself it opens one connection to the worker,
which passes the bytes of the device's session both ways, renews its lease, and ends it with the job.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from tilewright.errors import InputError, UserError
from tilewright.rpc.client import Session
from tilewright.rpc.frames import Channel
from tilewright.rpc.tracker_client import TrackerSession, connect_tracker
from tilewright.service.jobs.settings import Settings

#: Seconds between two looks at a request for a device.
_LOOK = 1.0
_CHUNK = 1 << 16


class Lent(Session):
    """The session of a job's process; the worker ends it."""

    def close(self) -> None:
        """Nothing: whoever uses the device next in this process has the same session."""


def fleet_of(settings: Settings) -> TrackerSession:
    """The tracker of the service's fleet. Raises `InputError` where it has none, `RpcError` where nobody answers."""
    if settings.tracker is None:
        raise InputError("this service has no fleet of devices: start it, and its workers, with --tracker HOST:PORT")
    return connect_tracker(*settings.tracker, bundle=settings.bundle)


@contextmanager
def borrowed(settings: Settings, key: str, alive: Callable[[], None]) -> Iterator[dict[str, str]]:
    """A device of a key while the enclosed code runs: what `reached` needs in the job's process.

    `alive` is called while none is free, and may raise. Raises `RpcError` where no device is like that or free in time.
    """
    asked: Future[Session] = Future()
    threading.Thread(target=_ask, args=(settings, key, asked), daemon=True).start()
    try:
        session = _answer(asked, alive)
    except BaseException:
        asked.add_done_callback(_return_device)
        raise
    at = f"tilewright-{secrets.token_hex(16)}"
    with session, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{at}")
        listener.listen(1)
        threading.Thread(target=_pass_on, args=(listener, session), daemon=True).start()
        yield {"at": at, "name": session.name}
        with suppress(OSError):  # wakes the thread where no process came
            listener.shutdown(socket.SHUT_RDWR)


def reached(lent: Mapping[str, str]) -> Lent:
    """The session with a device that the worker has `borrowed`; to be called before the process is confined."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"\0{lent['at']}")
    return Lent(Channel(connection, f"device {lent['name']}"), name=lent["name"])


def _ask(settings: Settings, key: str, asked: Future[Session]) -> None:
    try:
        asked.set_result(fleet_of(settings).request(key, wait=settings.device_seconds))
    except Exception as error:
        asked.set_exception(error)


def _answer(asked: Future[Session], alive: Callable[[], None]) -> Session:
    while True:
        with suppress(TimeoutError):
            return asked.result(_LOOK)
        alive()


def _return_device(asked: Future[Session]) -> None:
    """A device that came when nobody waited any more."""
    if asked.exception() is None:
        asked.result().close()


def _pass_on(listener: socket.socket, session: Session) -> None:
    """Pass the bytes of a session between the device and the first that connects, if that is a process of ours."""
    with suppress(OSError, UserError):
        near, _ = listener.accept()
        with near:
            _, user, _ = struct.unpack("3i", near.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user == os.getuid():
                _exchange(near, session.channel.socket)


def _exchange(near: socket.socket, far: Any) -> None:
    """Pass bytes both ways until either end has no more; `far` may be encrypted."""
    far.settimeout(None)
    other = {near: far, far: near}
    while True:
        held = getattr(far, "pending", int)()  # bytes that were read and decrypted wake nobody
        for one in [far] if held else select.select([near, far], [], [])[0]:
            part = one.recv(_CHUNK)
            if not part:
                return
            other[one].sendall(part)
