"""Whoever is killed, stopped or hostile: every job is done once or reported, devices are free, no process stays."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from bench.fleet.server import hostile
from tests.rpc.conftest import SIZE
from tests.rpc.test_server import alive, until, workers
from tests.rpc.test_tracker import children, doubled, states, zombie
from tilewright.errors import EnvironmentError_
from tilewright.rpc import connect
from tilewright.rpc.frames import Channel, ConnectionLost
from tilewright.rpc.journal import Journal
from tilewright.rpc.messages import DEVICE_VERBS, TRACKER_VERBS, VERSION
from tilewright.rpc.registration import Registration
from tilewright.rpc.tracker import Tracker, TrackerSettings
from tilewright.rpc.tracker_client import connect_tracker

TILEWRIGHT = (sys.executable, "-m", "tilewright.cli.main", "rpc")


@contextlib.contextmanager
def process(*words):
    """A verb of `tilewright rpc` as a process, and the address that it says."""
    running = subprocess.Popen([*TILEWRIGHT, *words, "--plaintext"], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        yield running, running.stdout.readline().split()[-1]
    finally:
        running.kill()
        running.wait()


def gone(pid):
    return not os.path.exists(f"/proc/{pid}") or zombie(pid)


def test_a_killed_tracker_comes_back_and_every_job_is_done_once(start, library, tmp_path):
    words = ("tracker", "--folder", str(tmp_path / "t"))
    begun = []

    def work(remote, job):
        begun.append(job)
        time.sleep(0.1)
        return doubled(remote, library, job)

    with process(*words, "--port", "0") as (tracker, address):
        host, port = address.split(":")
        servers = [start(required=True, name=f"d{i}", key="pi") for i in range(2)]
        registrations = [Registration(server, host, int(port)) for server in servers]
        fleet, outcomes = connect_tracker(host, int(port)), []
        runs = threading.Thread(target=lambda: outcomes.extend(fleet.run("pi", range(12), work, at_once=4)))
        runs.start()
        until(lambda: len(begun) >= 3)
        tracker.send_signal(signal.SIGKILL)
        tracker.wait()
        with process(*words, "--port", port):
            runs.join(120)
            until(lambda: fleet.status()["leases"] == 0 and len(fleet.status()["devices"]) == 2, 60)
    for registration in registrations:
        registration.close()
    assert sorted((int(o.job), o.result) for o in outcomes if o.error is None) == [(i, 2.0 * i) for i in range(12)]


CLIENT = """
import sys, numpy as np
from tilewright.rpc import connect_tracker
remote = connect_tracker("127.0.0.1", int(sys.argv[1])).request("pi", lease_seconds=4.0)
library = remote.load_module(remote.upload(sys.argv[2]))
x, y = remote.empty((2,)), remote.empty((2,))
print("spins", flush=True)
library["spin"](x, y)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_client_that_is_killed_or_stopped_frees_its_device(fleet_of, library, tmp_path, how):
    tracker, (server,), _ = fleet_of(1)
    library.save(tmp_path / "m")
    words = [sys.executable, "-c", CLIENT, str(tracker.address[1]), str(tmp_path / "m")]
    client = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout is not None and client.stdout.readline() == "spins\n"
        (pid,) = workers(server)
        client.send_signal(how)
        until(lambda: states(tracker) == {"d0": "free"})
        until(lambda: not alive(pid))
        with connect_tracker(*tracker.address).request("pi", wait=60) as remote:
            assert doubled(remote, library, 2.0) == 4.0
    finally:
        client.kill()
        client.wait()


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_job_of_a_server_that_is_killed_or_stopped_is_done_elsewhere(fleet_of, start, library, tmp_path, how):
    tracker, _, registrations = fleet_of(0)
    words = ("server", "--port", "0", "--name", "flaky", "--key", "pi", "--folder", str(tmp_path / "flaky"))
    at, hit, devices = threading.Event(), threading.Event(), []

    def work(remote, job):
        devices.append(remote.name)
        at.set()
        assert hit.wait(60)
        return doubled(remote, library, job)

    with process(*words, "--tracker", f"127.0.0.1:{tracker.address[1]}") as (flaky, _):
        until(lambda: states(tracker) == {"flaky": "free"})
        fleet, outcomes = connect_tracker(*tracker.address), []
        runs = threading.Thread(
            target=lambda: outcomes.extend(fleet.run("pi", [3.0], work, lease_seconds=6.0, wait=60))
        )
        runs.start()
        assert at.wait(60)
        left = children(flaky.pid)
        flaky.send_signal(how)
        hit.set()
        registrations.append(Registration(start(required=True, name="steady", key="pi"), *tracker.address))
        runs.join(60)
        (outcome,) = outcomes
        assert outcome.result == 6.0 and devices == ["flaky", "steady"] and outcome.tries == 2
        until(lambda: set(states(tracker)) == {"steady"} and tracker.status()["leases"] == 0)
        if how == signal.SIGSTOP:  # it comes back with a lease that has ended long since, and forgets it
            flaky.send_signal(signal.SIGCONT)
            until(lambda: states(tracker) == {"flaky": "free", "steady": "free"})
            fleet.drain("steady")
            with fleet.request("pi", wait=60) as remote:
                assert doubled(remote, library, 2.0) == 4.0
    until(lambda: all(map(gone, left)))


class Wire:
    """Stands between a client and a server; what is `cut` stays connected at both ends and carries nothing more."""

    def __init__(self, position, server):
        self._server, self._cut = server, threading.Event()
        self._listening = socket.create_server(position)
        self._ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, far = self._listening.accept()[0], socket.create_connection(self._server)
                self._ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target, self._cut), daemon=True).start()

    @staticmethod
    def _carry(source, target, cut):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not cut.is_set():
                    target.sendall(data)
            if not cut.is_set():
                target.shutdown(socket.SHUT_WR)

    def cut(self):
        """Present connections carry nothing more; later ones do."""
        self._cut.set()
        self._cut = threading.Event()

    def close(self):
        for end in (self._listening, *self._ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_a_connection_that_is_open_and_carries_nothing_is_given_up_at_both_ends(fleet_of, start, library):
    tracker, _, registrations = fleet_of(0)
    server = start(required=True, name="d0", key="pi")
    wire = Wire(("127.0.0.2", server.address[1]), server.address)
    registrations.append(Registration(server, *tracker.address, reached_at="127.0.0.2"))
    until(lambda: states(tracker) == {"d0": "free"})
    fleet = connect_tracker(*tracker.address)
    with fleet.request("pi") as remote:
        assert doubled(remote, library, 1.0) == 2.0
        (pid,) = workers(server)
        remote.seconds = 1.0
        wire.cut()
        with pytest.raises(ConnectionLost, match="no byte came or went in time"):
            remote.describe()
    until(lambda: states(tracker) == {"d0": "free"} and not server._sessions and not alive(pid))
    with fleet.request("pi", wait=60) as remote:
        assert doubled(remote, library, 2.0) == 4.0
    wire.close()


@pytest.fixture
def small_disk(tmp_path):
    """A function that makes a file system of so many bytes; where mounting one is not allowed, the test is skipped."""
    made = []

    def make(size):
        position = tmp_path / f"disk{len(made)}"
        position.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(position)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"needs a file system of its own, and mounting one is not allowed: {done.stderr.strip()}")
        made.append(position)
        return position

    yield make
    for position in made:
        subprocess.run(["umount", "--lazy", str(position)], check=True)


def test_an_upload_beyond_a_full_disk_is_refused_and_leaves_nothing(start, library, small_disk, tmp_path):
    disk = small_disk(4 << 20)
    server = start(folder=disk / "device")
    (tmp_path / "large").write_bytes(b"x" * (16 << 20))
    with connect(*server.address) as remote:
        assert doubled(remote, library, 1.0) == 2.0
        held = sorted(path.name for path in server.store.folder.iterdir())
        for _ in range(2):
            with pytest.raises(EnvironmentError_, match="No space left"):
                remote.upload(tmp_path / "large")
        assert sorted(path.name for path in server.store.folder.iterdir()) == held
        assert doubled(remote, library, 2.0) == 4.0


def test_a_disk_without_room_for_another_file_is_told(start, library, small_disk, tmp_path):
    """The files of a file system are counted too: neither an upload nor a worker can begin one."""
    disk = small_disk("4m,nr_inodes=24")
    server = start(folder=disk / "device")
    library.save(tmp_path / "m")
    with connect(*server.address) as remote:
        digest = remote.upload(tmp_path / "m")
        fillers = []
        with contextlib.suppress(OSError):
            for number in range(24):
                fillers.append(disk / f"filler{number}")
                fillers[-1].touch()
        (tmp_path / "other").write_bytes(b"other")
        with pytest.raises(EnvironmentError_, match=r"cannot store the upload: No space left"):
            remote.upload(tmp_path / "other")
        with pytest.raises(EnvironmentError_, match=r"folder of a worker process: No space left"):
            remote.load_module(digest)
        for filler in fillers:
            filler.unlink(missing_ok=True)
        assert doubled(remote, library, 2.0) == 4.0


def test_a_server_whose_disk_is_full_says_so_and_serves_again_when_there_is_room(fleet_of, start, library, small_disk):
    """Not even a session's folder can be made: the job is reported, the device stays free."""
    disk = small_disk(1 << 20)
    tracker, _, registrations = fleet_of(0)
    registrations.append(Registration(start(folder=disk / "device", required=True, key="pi"), *tracker.address))
    until(lambda: set(states(tracker).values()) == {"free"})
    fleet = connect_tracker(*tracker.address)
    filler = disk / "filler"
    with contextlib.suppress(OSError), open(filler, "wb") as file:
        while True:
            file.write(b"x" * 65536)
    with fleet.request("pi") as remote, pytest.raises(EnvironmentError_, match="No space left"):
        doubled(remote, library, 1.0)
    until(lambda: set(states(tracker).values()) == {"free"} and tracker.status()["leases"] == 0)
    filler.unlink()
    with fleet.request("pi") as remote:
        assert doubled(remote, library, 2.0) == 4.0


def test_a_tracker_whose_disk_is_full_goes_on_and_says_so(start, library, small_disk):
    disk = small_disk(64 << 10)
    with Tracker(TrackerSettings(disk / "tracker", heartbeat_seconds=0.2, silence_seconds=6.0)) as tracker:
        registration = Registration(start(required=True, key="pi"), *tracker.address)
        until(lambda: set(states(tracker).values()) == {"free"})
        filler = disk / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 1024)
        fleet = connect_tracker(*tracker.address)
        for _ in range(40):  # until the last page of the journal is full
            with fleet.request("pi", wait=60) as remote:
                remote.describe()
            until(lambda: not tracker.status()["leases"])
            if tracker.status()["journal"]:
                break
        assert "No space left" in tracker.status()["journal"]
        filler.unlink()
        with fleet.request("pi", wait=60) as remote:
            assert doubled(remote, library, 2.0) == 4.0
        until(lambda: not tracker.status()["leases"])
        assert tracker.status()["journal"] == ""
        registration.close()
    assert not Journal(disk / "tracker" / "journal.jsonl").leases  # what was cut is left out, what came after is read


def test_a_clock_that_is_set_changes_nothing(fleet_of, library, monkeypatch):
    tracker, _, _ = fleet_of(1)
    with connect_tracker(*tracker.address).request("pi", lease_seconds=6.0) as remote:
        real, leases = time.time, tracker.scheduler.leases
        for days in (400, -400):
            ends = leases[remote.lease].until
            monkeypatch.setattr(time, "time", lambda days=days: real() + days * 86400)
            until(lambda ends=ends: leases[remote.lease].until > ends)  # it was renewed
            assert doubled(remote, library, 1.0) == 2.0
        assert states(tracker) == {"d0": "busy"} and tracker.status()["expired"] == 0
    monkeypatch.undo()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def pester(position, verbs):
    """The short form of `python -m bench.fleet.server --frames 100000`."""
    generator, before = random.Random(7), resident()
    for _ in range(300):
        channel = Channel(socket.create_connection(position), "whoever is pestered")
        with contextlib.suppress(ConnectionLost, OSError):
            if generator.random() < 0.9:
                channel.send({"verb": "hello", "id": 1, "version": VERSION})
                channel.receive(20.0)
            channel.socket.sendall(hostile(generator, verbs))
            if generator.random() < 0.8:
                channel.socket.shutdown(socket.SHUT_WR)
                while True:
                    channel.receive(20.0)
        channel.close()
    assert resident() - before < 64 << 20


def test_hostile_frames_end_their_session_and_nothing_else(start, library):
    server = start()
    pester(server.address, [*DEVICE_VERBS, "serve", ""])
    until(lambda: not server._sessions)
    with connect(*server.address) as remote:
        assert doubled(remote, library, 1.0) == 2.0


def test_hostile_frames_end_their_visit_and_nothing_else(fleet_of, library):
    tracker, _, _ = fleet_of(1)
    pester(tracker.address, [*TRACKER_VERBS, "serve", ""])
    with connect_tracker(*tracker.address).request(name="d0", wait=60) as remote:
        assert doubled(remote, library, 1.0) == 2.0


@pytest.mark.long
def test_many_sessions_leave_nothing_behind(start, library, tmp_path):
    """The short form of `python -m bench.fleet.server --jobs 10000`."""
    server = start()
    library.save(tmp_path / "m")

    def session(job):
        with connect(*server.address) as remote:
            for value in (job, job + 1):
                loaded = remote.load_module(remote.upload(tmp_path / "m"))
                a, b = remote.array(np.full(SIZE, value, np.float32)), remote.empty((SIZE,))
                loaded["double"](a, b)
                assert b.numpy()[0] == 2.0 * value
        until(lambda: not server._sessions)

    for job in range(3):
        session(job)
    until(lambda: server._spare is not None)
    files, threads, memory = len(os.listdir("/proc/self/fd")), threading.active_count(), resident()
    for job in range(10):
        session(job)
    until(lambda: server._spare is not None)
    until(lambda: len(os.listdir("/proc/self/fd")) <= files and threading.active_count() <= threads)
    assert resident() - memory < 16 << 20
    until(lambda: len(list((server.settings.folder / "sessions").iterdir())) == 1)  # the worker that was started ahead
