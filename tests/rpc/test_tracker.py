"""A fleet on this machine: devices register, users get them, and whoever dies holds nothing up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from tests.rpc.conftest import SIZE
from tests.rpc.test_server import until
from tilewright.errors import InputError, RpcError
from tilewright.rpc import connect
from tilewright.rpc.identity import Bundle
from tilewright.rpc.messages import Refused
from tilewright.rpc.page import metrics_text, serve_page
from tilewright.rpc.registration import Registration
from tilewright.rpc.tracker import Tracker, TrackerSettings
from tilewright.rpc.tracker_client import connect_tracker, devices


def doubled(remote, library, value):
    loaded = remote.load_module(remote.upload(library))
    a, b = remote.array(np.full(SIZE, value, np.float32)), remote.empty((SIZE,))
    loaded["double"](a, b)
    return float(b.numpy()[0])


def states(tracker):
    return {device["name"]: device["state"] for device in tracker.status()["devices"]}


def test_a_device_is_requested_used_and_given_back(fleet_of, library):
    tracker, _, _ = fleet_of(2)
    fleet = connect_tracker(*tracker.address)
    with fleet.request("pi") as remote:
        assert doubled(remote, library, 3.0) == 6.0
        assert sorted(states(tracker).values()) == ["busy", "free"]
    until(lambda: list(states(tracker).values()) == ["free", "free"])
    with fleet.request(name="d1") as remote:
        assert remote.name == "d1"


def test_all_jobs_are_done_once_over_all_devices(fleet_of, library):
    tracker, _, _ = fleet_of(2)
    begun = []

    def work(remote, job):
        begun.append(job)
        return doubled(remote, library, job)

    outcomes = list(connect_tracker(*tracker.address).run("pi", range(8), work))
    assert {int(o.job): o.result for o in outcomes} == {i: 2.0 * i for i in range(8)}
    assert sorted(begun) == list(range(8)) and {o.device for o in outcomes} == {"d0", "d1"}
    until(lambda: set(states(tracker).values()) == {"free"})


def test_a_job_that_raises_is_over_with_its_error(fleet_of):
    tracker, _, _ = fleet_of(1)

    def work(remote, job):
        raise ZeroDivisionError(job)

    (outcome,) = connect_tracker(*tracker.address).run("pi", ["a"], work)
    assert isinstance(outcome.error, ZeroDivisionError) and outcome.tries == 1


def test_a_device_with_a_tracker_takes_no_session_without_a_lease(fleet_of):
    _, servers, _ = fleet_of(1)
    with pytest.raises(Refused, match="given out by its tracker"):
        connect(*servers[0].address)
    with pytest.raises(Refused, match="given out by its tracker"):
        connect(*servers[0].address, lease="0" * 32)


def test_a_lease_opens_one_session(fleet_of):
    tracker, servers, _ = fleet_of(1)
    with connect_tracker(*tracker.address).request("pi") as remote, pytest.raises(Refused, match="already"):
        connect(*servers[0].address, lease=remote.lease)


def test_a_replayed_lease_opens_nothing(fleet_of):
    tracker, servers, _ = fleet_of(1)
    with connect_tracker(*tracker.address).request("pi") as remote:
        lease = remote.lease
    until(lambda: states(tracker) == {"d0": "free"})
    with pytest.raises(Refused, match=r"has ended|has opened a session already"):  # the device may not know the end yet
        connect(*servers[0].address, lease=lease)


def test_a_vanished_holder_frees_its_device(fleet_of, library):
    """Half-open: the connection stays, nobody renews."""
    tracker, servers, _ = fleet_of(1)
    remote = connect_tracker(*tracker.address).request("pi", lease_seconds=2.5)
    doubled(remote, library, 1.0)
    remote._over.set()  # its machine is gone: no renewal, and no word
    until(lambda: states(tracker) == {"d0": "free"})
    until(lambda: not servers[0]._sessions)
    assert tracker.status()["expired"] == 1
    with connect_tracker(*tracker.address).request("pi", wait=60) as other:
        assert doubled(other, library, 2.0) == 4.0


def test_a_device_that_ends_a_lease_first_says_that_nobody_renewed_it(fleet_of):
    """Its clock may be ahead of the tracker's next look: the job is not done for that."""
    tracker, servers, _ = fleet_of(1)
    fleet = connect_tracker(*tracker.address)
    for late in (True, False):
        with fleet.request("pi", wait=60) as remote:
            leases = servers[0].leases
            until(lambda name=remote.lease, known=leases: name in known.in_use())
            if late:
                leases.renew(remote.lease, -1.0)
            leases.end(remote.lease)
            until(lambda name=remote.lease: name not in tracker.scheduler.leases)
        assert [one["reason"] for one in fleet.failures()] == ["its holder vanished"]  # of the first
        assert tracker.status()["expired"] == 1


def test_a_renewed_lease_lasts(fleet_of, library):
    tracker, (server,), _ = fleet_of(1)
    with connect_tracker(*tracker.address).request("pi", lease_seconds=6.0) as remote:
        leases, there = tracker.scheduler.leases, server.leases._known
        until(lambda: remote.lease in there)
        first, first_there = leases[remote.lease].until, there[remote.lease].until
        until(lambda: leases[remote.lease].until > first and there[remote.lease].until > first_there)
        assert doubled(remote, library, 2.0) == 4.0


def test_a_device_that_falls_silent_is_lost_and_may_come_back(fleet_of):
    tracker, servers, registrations = fleet_of(1)
    registrations[0].close()
    until(lambda: not tracker.status()["devices"])
    assert tracker.status()["lost"] == 1
    back = Registration(servers[0], *tracker.address)
    until(lambda: states(tracker) == {"d0": "free"})
    back.close()


def test_a_device_whose_connection_ends_is_not_given_out_meanwhile(fleet_of, library):
    """It is known at once that it is gone: no job goes to it, and none is counted as its fault."""
    tracker, servers, registrations = fleet_of(2)
    registrations[0].close()
    servers[0].close()
    until(lambda: states(tracker).get("d0", "away") == "away")
    fleet = connect_tracker(*tracker.address)
    outcomes = list(fleet.run("pi", range(4), lambda remote, job: doubled(remote, library, job)))
    assert {(o.device, o.error) for o in outcomes} == {("d1", None)}
    assert all(device["faults"] == 0 for device in tracker.status()["devices"])


def test_a_restarted_tracker_goes_on_with_its_leases(fleet_of, library, start, tmp_path):
    tracker, _, _ = fleet_of(2)
    fleet = connect_tracker(*tracker.address)
    with fleet.request("pi", job="mine", lease_seconds=20.0) as remote:
        tracker.close()
        assert doubled(remote, library, 1.0) == 2.0  # sessions do not need it
        host, port = tracker.address
        again = Tracker(TrackerSettings(tmp_path / "tracker", host, port, heartbeat_seconds=0.2, silence_seconds=6.0))
        try:
            until(lambda: sorted(states(again).values()) == ["busy", "free"])
            assert doubled(remote, library, 4.0) == 8.0
            remote.close()
            until(lambda: set(states(again).values()) == {"free"})
            with pytest.raises(RpcError, match="is over"):
                fleet.request("pi", job="mine", wait=1)
        finally:
            again.close()


@pytest.mark.parametrize(
    "need, said", [({"key": "x86"}, "no device of this fleet"), ({"colour": "red"}, "not chosen by")]
)
def test_a_need_that_nobody_meets_is_one_error(fleet_of, need, said):
    tracker, _, _ = fleet_of(1)
    with pytest.raises((RpcError, InputError), match=said):
        connect_tracker(*tracker.address).request(wait=0.3, **need)


def test_waiting_ends_with_what_the_devices_are_at(fleet_of):
    tracker, _, _ = fleet_of(1)
    fleet = connect_tracker(*tracker.address)
    with fleet.request("pi"), pytest.raises(Refused, match=r"none of the 1 devices .* within 0.3 s \(busy\)"):
        fleet.request("pi", wait=0.3)
    assert tracker.status()["waiting"] == 0


def test_a_quota_bounds_a_user(fleet_of):
    tracker, _, _ = fleet_of(2, quota=1)
    anna, bert = (connect_tracker(*tracker.address, user=name) for name in ("anna", "bert"))
    with anna.request("pi"), pytest.raises(Refused, match="busy, free"):
        anna.request("pi", wait=0.3)
    with anna.request("pi"), bert.request("pi"):
        assert {device["user"] for device in tracker.status()["devices"]} == {"anna", "bert"}


def test_draining_by_name(fleet_of):
    tracker, _, _ = fleet_of(1)
    fleet = connect_tracker(*tracker.address)
    fleet.drain("d0")
    with pytest.raises(Refused, match="drained"):
        fleet.request("pi", wait=0.2)
    fleet.drain("d0", on=False)
    fleet.request("pi", wait=5).close()
    with pytest.raises(InputError, match="there is no device 'x'"):
        fleet.drain("x")


def test_jobs_that_do_not_end_well_are_told(fleet_of, library):
    tracker, servers, registrations = fleet_of(1)
    anna, bert = (connect_tracker(*tracker.address, user=name) for name in ("anna", "bert"))

    def work(remote, job):
        if job == "bad":
            raise ValueError("the model is upside down " + "x" * 1000)
        return doubled(remote, library, 1.0)

    def said():  # a device that a busy machine keeps from telling that it is alive is another matter
        return [one for one in bert.failures() if one["reason"] != "device lost"]

    list(anna.run("pi", ["good", "bad"], work, wait=60))
    until(lambda: len(said()) == 1)
    (told,) = said()
    assert (told["user"], told["device"]) == ("anna", "d0") and told["reason"].startswith("ValueError: the model is")
    assert len(told["reason"]) == 300
    remote = bert.request("pi", lease_seconds=2.0, wait=60)
    lease = remote.lease
    remote._over.set()
    until(lambda: [one["reason"] for one in said()][:-1] == ["its holder vanished"])
    anna._release(lease, reason="it was mine")  # another user says nothing of it
    assert len(said()) == 2
    with bert.request("pi", wait=60):
        registrations[0].close()
        servers[0].close()
        until(lambda: not tracker.status()["devices"])
    assert anna.failures()[0]["reason"] == "device lost"


@pytest.mark.parametrize("host", ["::1", "::"])
def test_a_fleet_reached_by_ipv6(fleet, library, start, tmp_path, host):
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this system has no IPv6")
    bundle = Bundle(fleet / "tracker-t")
    with Tracker(
        TrackerSettings(tmp_path / "t", host, bundle=bundle, heartbeat_seconds=0.2, silence_seconds=6.0)
    ) as tracker:
        server = start(fleet / "device-pi", required=True, name="pi", key="pi", host=host)
        port = tracker.address[1]
        registration = Registration(server, "::1", port, fleet / "device-pi", reached_at="::1")
        assert registration.registered.wait(60), registration.problem
        for reached in ("::1", "127.0.0.1") if host == "::" else ("::1",):
            with connect_tracker(reached, port, bundle=fleet / "user-anna").request("pi", wait=60) as remote:
                assert doubled(remote, library, 2.0) == 4.0
        assert next(iter(devices(tracker.status())))[-1] == f"[::1]:{server.address[1]}"
        registration.close()


def test_tuners_go_on_while_a_device_dies_again_and_again(fleet_of, library, start):
    """Two users, two devices, one of which ends every second: each job is done exactly once."""
    tracker, servers, _ = fleet_of(1)
    stop = threading.Event()

    def die_and_return():
        while True:
            server = start(required=True, name="flaky", key="pi")
            registration = Registration(server, *tracker.address)
            stop.wait(1.0)
            registration.close()
            server.close()
            if stop.is_set():
                return

    dying = threading.Thread(target=die_and_return)
    dying.start()
    results = {}

    def tune(user):
        fleet = connect_tracker(*tracker.address, user=user)
        outcomes = fleet.run("pi", range(2), lambda remote, job: doubled(remote, library, job), at_once=2, tries=99)
        results[user] = list(outcomes)

    tuners = [threading.Thread(target=tune, args=(user,)) for user in ("anna", "bert")]
    for tuner in tuners:
        tuner.start()
    for tuner in tuners:
        tuner.join(90)
    stop.set()
    dying.join(30)
    for user in ("anna", "bert"):
        assert sorted((int(o.job), o.result) for o in results[user] if o.error is None) == [
            (i, 2.0 * i) for i in range(2)
        ], results[user]
    until(lambda: states(tracker) == {"d0": "free"}, 60)
    assert not servers[0]._sessions and tracker.status()["leases"] == 0


def test_a_killed_server_leaves_no_worker(tmp_path, library):
    words = [sys.executable, "-m", "tilewright.cli.main", "rpc", "server", "--plaintext", "--port", "0"]
    server = subprocess.Popen([*words, "--folder", str(tmp_path / "d")], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        remote = connect("127.0.0.1", port)
        remote.load_module(remote.upload(library))
        until(lambda: len(children(server.pid)) == 2)  # the session's, and the one ahead
        pids = children(server.pid)
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(lambda: not any(os.path.exists(f"/proc/{pid}") and not zombie(pid) for pid in pids))
    finally:
        server.kill()
        server.wait()


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += [int(word) for word in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    return found


def zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split()[2] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_page_and_the_metrics_tell_the_same(fleet_of):
    tracker, _, _ = fleet_of(2)
    page = serve_page(tracker, 0)
    try:
        base = f"http://127.0.0.1:{page.server_address[1]}"

        def get(path):
            with urllib.request.urlopen(base + path, timeout=10) as answer:
                return answer.read().decode()

        with connect_tracker(*tracker.address, user='an"na<b>').request("pi"):
            assert 'tilewright_devices{state="busy"} 1' in get("/metrics")
            assert "an&quot;na&lt;b&gt;" in get("/") and "<b>" not in get("/")
            assert json.loads(get("/status.json"))["leases"] == 1
        with pytest.raises(urllib.error.HTTPError):
            get("/etc/passwd")
        assert metrics_text(tracker.status()).endswith("\n")
    finally:
        page.shutdown()
        page.server_close()
