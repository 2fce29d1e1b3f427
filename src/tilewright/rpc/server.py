"""The server of a device: uploads, and one session at a time, whose code runs in a process of its own.

    with Server(Settings(folder=Path("state"), bundle=Bundle(Path("fleet/device-pi-4")))) as server:
        server.wait()

A connection is a thread. It may upload and ask at any time; what runs code waits for the session's turn. A session ends
with its connection or its lease, and then nothing of it is left: its process group is killed and its folder removed.
The server itself never loads what was uploaded.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.errors import EnvironmentError_, UserError
from tilewright.rpc.capability import capability
from tilewright.rpc.frames import BadFrame, Channel, ConnectionLost
from tilewright.rpc.functions import Functions, Offered
from tilewright.rpc.held_folder import HeldFolder
from tilewright.rpc.identity import Bundle, Peer
from tilewright.rpc.leases import Leases
from tilewright.rpc.listener import Listener
from tilewright.rpc.messages import (
    CANCELLED,
    CRASHED,
    DEVICE_VERBS,
    ENDED,
    LATE,
    VERSION,
    WORKER_VERBS,
    Refused,
    WorkerLost,
    answer,
    check_request,
    failure,
)
from tilewright.rpc.sandbox import Limits
from tilewright.rpc.store import Store
from tilewright.rpc.worker_process import Board, WorkerProcess
from tilewright.support.memory_limit import physical_bytes

#: Connections at a time; further ones are closed at once.
_MOST_CONNECTIONS = 64
#: Seconds in which a session that says nothing ends; a client that only waits sends `describe`.
IDLE_SECONDS = 600.0
#: Seconds between two looks at the leases of sessions.
_LOOK_SECONDS = 0.25
#: Numbers that the modules and arrays of one worker may take.
_NUMBERS = 1 << 32


@dataclass(frozen=True)
class Settings:
    """Settings of a server: its folder, its addresses, admitted users, limits of a session.

    `devices` are the kinds of device of this machine, beside its processor, that sessions may use; their drivers leave
    a session's process unconfined. `functions` finds the functions of this process that sessions may call by name;
    without it there are none.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    bundle: Bundle | None = None
    name: str = "device"
    key: str = ""
    store_bytes: int = 8 << 30
    limits: Limits = field(default_factory=lambda: Limits(memory_bytes=physical_bytes() // 2))
    board: Board | None = None
    devices: tuple[str, ...] = ()
    functions: Offered | None = None
    idle_seconds: float = IDLE_SECONDS


class Server:
    """Listens from the moment it is made; `address` is where."""

    def __init__(self, settings: Settings, leases: Leases | None = None) -> None:
        # workers have folders of their own as working directories, and receive paths
        self.settings = settings = replace(settings, folder=settings.folder.absolute())
        self.leases = leases or Leases(required=False)
        self._held = HeldFolder(settings.folder)
        settings.folder.chmod(0o755)
        self.store = Store(settings.folder / "store", settings.store_bytes)
        self._sessions_folder = settings.folder / "sessions"
        self._sessions_folder.mkdir(exist_ok=True)
        for left in self._sessions_folder.glob("worker-*"):  # of a server that was killed
            shutil.rmtree(left, ignore_errors=True)
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        self._generation = 0
        self._spare: WorkerProcess | None = None
        if settings.board is not None:  # its machine is not this one: its worker tells what it is
            self._spare = self._start_worker()
        stated = {**(self._spare.capability if self._spare is not None else {}), "devices": list(settings.devices)}
        self.capability = capability(settings.name, settings.key or str(stated.get("architecture", "")), stated)
        position = settings.host, settings.port
        self._listener = Listener(position, settings.bundle, ("user", "tracker"), _MOST_CONNECTIONS, self._serve)
        self.address = self._listener.address
        threading.Thread(target=self._watch_leases, name="leases", daemon=True).start()

    def wait(self) -> None:
        """Until `close` is called."""
        self._listener.closed.wait()

    def close(self) -> None:
        """End all sessions and stop listening."""
        self._listener.close()
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()
        self._held.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _serve(self, channel: Channel, peer: Peer) -> None:
        """One connection, until its peer leaves."""
        session = Session(self, channel, peer)
        with self._lock:
            self._sessions.add(session)
        try:
            session.run()
        finally:
            with self._lock:
                self._sessions.discard(session)
            channel.close()
            session.end()

    def _watch_leases(self) -> None:
        """Close the connections of sessions whose lease has ended, also of those that say nothing."""
        while not self._listener.closed.wait(_LOOK_SECONDS):
            with self._lock:
                sessions = list(self._sessions)
            for session in sessions:
                if session.lease and not self.leases.holds(session.lease):
                    session.channel.close()

    def confinement(self) -> dict[str, str]:
        """The confinement of the workers of sessions: by measure, "on" or the reason why not."""
        with self._lock:
            spare = self._spare
        if spare is None:
            spare = self._start_worker()
            with self._lock:
                self._spare = spare
        return dict(spare.measures)

    def take_worker(self) -> WorkerProcess:
        """A fresh worker: the one that was started ahead, if there is one."""
        with self._lock:
            spare, self._spare = self._spare, None
        return spare if spare is not None and spare.process.poll() is None else self._start_worker()

    def prepare_worker(self) -> None:
        """Start a worker ahead, so that the next session need not wait for it."""

        def prepare() -> None:
            with contextlib.suppress(EnvironmentError_):
                made = self._start_worker()
                with self._lock:
                    if self._spare is None and not self._listener.closed.is_set():
                        self._spare = made
                        return
                made.close()

        threading.Thread(target=prepare, daemon=True).start()

    def _start_worker(self) -> WorkerProcess:
        with self._lock:
            self._generation += 1
            first = self._generation * _NUMBERS
        settings, store = self.settings, self.store.folder
        return WorkerProcess(self._sessions_folder, store, settings.limits, first, settings.board, settings.devices)

    @property
    def turn(self) -> threading.Lock:
        """Held by the session that may run code."""
        return self._turn


class Session:
    """One connection: its requests in order, and its worker."""

    def __init__(self, server: Server, channel: Channel, peer: Peer) -> None:
        self.server, self.channel, self.peer = server, channel, peer
        self._worker: WorkerProcess | None = None
        self._functions = Functions(server.settings.functions)
        self._has_turn = False
        self.lease = ""
        self._greeted = False

    def run(self) -> None:
        """Answer requests until the peer leaves or its lease ends."""
        while True:
            message, size = self.channel.receive_head(self.server.settings.idle_seconds)
            try:
                verb = check_request(message, DEVICE_VERBS)
                if not self._greeted and verb != "hello":
                    raise Refused(f"a session begins with 'hello', not with {verb!r}")
                if self.lease and not self.server.leases.holds(self.lease):
                    raise Refused("the lease of this session has ended; request the device again")
                if verb in WORKER_VERBS:
                    self._pass_on(message, size)
                    continue
                if verb == "get":
                    self._send_back(message)
                    continue
                reply = answer(message, getattr(self, f"_{verb}")(message))
            except (ConnectionLost, BadFrame):
                raise
            except Exception as error:
                reply = failure(message, error)
            self.channel.drop()
            self.channel.send(reply)
            if message.get("verb") == "bye" or (not self._greeted and "error" in reply):
                return

    def end(self) -> None:
        """Kill the session's worker and pass the turn to the next."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._has_turn:
            self._has_turn = False
            self.server.turn.release()
        if self.lease:
            self.server.leases.end(self.lease)

    def _hello(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["version"] != VERSION:
            raise Refused(f"this device speaks version {VERSION} of the protocol, not {message['version']}")
        self.server.leases.begin(message.get("lease", ""), self.peer)
        self.lease, self._greeted = message.get("lease", ""), True
        return {"version": VERSION, "name": self.server.settings.name}

    def _describe(self, message: dict[str, Any]) -> dict[str, Any]:
        measures = self._worker.measures if self._worker is not None else {}
        return {**self.server.capability, "measures": measures, "busy": self.server.turn.locked()}

    def _have(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"have": self.server.store.has(message["digest"], message["bytes"])}

    def _put(self, message: dict[str, Any]) -> dict[str, Any]:
        self.server.store.has(message["digest"], self.channel.left)
        self.server.store.receive(self.channel, message["digest"])
        return {}

    def _send_back(self, message: dict[str, Any]) -> None:
        """An upload, to whoever knows its digest, as `load` is for these too."""
        with open(self.server.store.path(message["digest"]), "rb") as file:
            self.channel.drop()
            self.channel.send_file(answer(message), file)

    def _function(self, message: dict[str, Any]) -> dict[str, Any]:
        return self._functions.find(message["name"])

    def _invoke(self, message: dict[str, Any]) -> dict[str, Any]:
        """A function of this process; the session's own process is where its arrays are."""
        worker = self._ready_worker(message)
        return self._functions.call(message["function"], message["args"], worker.channel)

    def _cancel(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"cancelled": False}  # nothing runs: while something does, `_answer_of` reads the connection

    def _bye(self, message: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _pass_on(self, message: dict[str, Any], size: int) -> None:
        """A worker's verb: to the worker, and its answer back."""
        try:
            worker = self._ready_worker(message)
        except UserError as error:
            self.channel.drop()
            self.channel.send(failure(message, error))
            return
        try:
            if message["verb"] == "load" and self.server.settings.board is not None:
                self._send_file(message, worker)
            else:
                worker.channel.send_head(message, size)
                self.channel.forward(worker.channel)
            reply = self._answer_of(worker, message)
        except ConnectionLost as error:
            if error.channel is not worker.channel:
                raise
            self._stop_worker(message, f"its process {worker.last_words()}", CRASHED)
            return
        if reply is not None:
            self.channel.send_head(reply, worker.channel.left)
            worker.channel.forward(self.channel)

    def _send_file(self, message: dict[str, Any], worker: WorkerProcess) -> None:
        """Send the file to be loaded along with the request: the worker may be on another machine."""
        self.channel.drop()
        with open(self.server.store.path(message["digest"]), "rb") as file:
            worker.channel.send_file(message, file)

    def _ready_worker(self, message: dict[str, Any]) -> WorkerProcess:
        """The session's worker; at its first use the session waits for its turn and then has it to its end."""
        if message["verb"] == "load":
            self.server.store.path(message["digest"])
        if not self._has_turn:
            self._wait_for_turn()
        if self._worker is None:
            self._worker = self.server.take_worker()
            self.server.prepare_worker()
        return self._worker

    def _wait_for_turn(self) -> None:
        while not self.server.turn.acquire(timeout=0.25):
            if self.channel.ready(0):
                raise Refused("the request was given up while another session had the device")
        self._has_turn = True

    def _answer_of(self, worker: WorkerProcess, message: dict[str, Any]) -> dict[str, Any] | None:
        """Wait for the worker's answer, while the peer may leave or cancel; None where that was answered already."""
        deadline = time.monotonic() + self.server.settings.limits.request_seconds
        while not _either(worker.channel, self.channel, 0.25):
            if worker.process.poll() is not None:
                break
            if time.monotonic() > deadline:
                seconds = self.server.settings.limits.request_seconds
                self._stop_worker(message, f"the request took longer than the {seconds:g} s that it may", LATE)
                return None
            if self.lease and not self.server.leases.holds(self.lease):
                self._stop_worker(message, "the lease of this session has ended", ENDED)
                return None
        if not worker.channel.ready(0) and self.channel.ready(0):
            other, _ = self.channel.receive_head(self.server.settings.idle_seconds)
            self.channel.drop()
            meant = other.get("verb") != "cancel" or other.get("request", message["id"]) == message["id"]
            if meant:
                self._stop_worker(message, "it was cancelled", CANCELLED)
            if other.get("verb") == "cancel":
                self.channel.send(answer(other, {"cancelled": meant}))
            return None if meant else self._answer_of(worker, message)
        return worker.channel.receive_head(5.0)[0]

    def _stop_worker(self, message: dict[str, Any], why: str, how: str) -> None:
        """Kill the worker, and report to the peer what was lost with it."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self.channel.drop()
        text = f"{message['verb']!r} was not done: {why}. Modules and arrays of this session are gone; load them again"
        self.channel.send(failure(message, WorkerLost(text, how)))


def _either(first: Channel, second: Channel, seconds: float) -> bool:
    """True if one of two channels has something to read within `seconds`."""
    if getattr(second.socket, "pending", lambda: 0)():
        return True
    return bool(select.select([first.socket, second.socket], [], [], seconds)[0])
