"""Certificates: only those of the fleet, of the right role and not revoked open anything."""

from __future__ import annotations

import contextlib
import socket
import ssl
from pathlib import Path

import pytest

from tests.rpc.test_server import until
from tilewright.errors import EnvironmentError_, InputError, RpcError
from tilewright.rpc import connect
from tilewright.rpc.client import dial
from tilewright.rpc.frames import Channel
from tilewright.rpc.identity import Bundle, Impostor, make_authority, make_bundle, require_loopback, revoke
from tilewright.rpc.listener import _MOST_HANDSHAKES
from tilewright.rpc.messages import DEVICE_VERBS, TRACKER_VERBS, VERSION
from tilewright.rpc.registration import Registration
from tilewright.rpc.tracker import _DEVICE_VERBS, Tracker, TrackerSettings
from tilewright.rpc.tracker_client import connect_tracker


@pytest.fixture
def foreign(tmp_path: Path, fleet: Path) -> Path:
    """The bundle of a user of another fleet."""
    make_authority(tmp_path / "foreign")
    return make_bundle(tmp_path / "foreign", "user", "eve")


def refused(server, bundle):
    """A connection with `bundle` does nothing: not even its first request is answered."""
    with pytest.raises(RpcError):
        connect(*server.address, bundle=bundle)
    until(lambda: not server._sessions)
    assert not server._listener.channels


def test_another_authority_s_certificate_opens_nothing(start, fleet, foreign):
    refused(start(fleet / "device-pi"), foreign)


def test_a_device_s_certificate_is_none_of_a_user(start, fleet):
    refused(start(fleet / "device-pi"), fleet / "device-nano")


def test_an_expired_certificate_opens_nothing(start, tmp_path):
    make_authority(tmp_path / "fleet")
    server = start(make_bundle(tmp_path / "fleet", "device", "pi"))
    refused(server, make_bundle(tmp_path / "fleet", "user", "late", days=0))


def test_a_revoked_certificate_opens_nothing_from_the_next_connection_on(start, tmp_path):
    make_authority(tmp_path / "fleet")
    server = start(make_bundle(tmp_path / "fleet", "device", "pi"))
    user = make_bundle(tmp_path / "fleet", "user", "gone")
    with connect(*server.address, bundle=user) as remote:
        assert remote.describe()
    revoke(tmp_path / "fleet", "user", "gone")
    refused(server, user)


def test_a_listener_without_a_usable_bundle_does_not_start(start, tmp_path):
    with pytest.raises(EnvironmentError_, match="is no usable bundle of certificates"):
        start(tmp_path / "nowhere")
    with pytest.raises(EnvironmentError_, match="is no usable bundle of certificates"):
        Tracker(TrackerSettings(tmp_path / "tracker", bundle=Bundle(tmp_path / "nowhere")))


def test_connections_that_show_no_certificate_hold_up_nobody(start, fleet):
    server = start(fleet / "device-pi")
    idle = [socket.create_connection(server.address) for _ in range(200)]
    try:
        until(lambda: len(server._listener._handshakes) <= _MOST_HANDSHAKES)
        with connect(*server.address, bundle=fleet / "user-anna") as remote:
            assert remote.describe()
        ended = 0
        for one in idle:
            one.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                ended += one.recv(1) == b""
        assert ended >= len(idle) - _MOST_HANDSHAKES
    finally:
        for one in idle:
            one.close()


#: What a request of each verb may look like; hello comes before each.
FIELDS = {
    "hello": {"version": VERSION}, "have": {"digest": "0" * 64, "bytes": 1}, "put": {"digest": "0" * 64},
    "get": {"digest": "0" * 64},
    "load": {"digest": "0" * 64}, "unload": {"module": 1}, "allocate": {"shape": [4], "dtype": "float32"},
    "write": {"array": 1}, "read": {"array": 1}, "copy": {"source": 1, "target": 1}, "free": {"array": 1},
    "call": {"module": 1, "function": "f", "args": []}, "turns": {"runs": [], "rounds": 1},
    "time": {"module": 1, "function": "f", "args": [], "number": 1, "repeat": 1, "min_repeat_ms": 0},
    "run": {"module": 1, "inputs": []}, "time_model": {"module": 1, "inputs": [], "repeat": 1, "warmup": 0},
    "profile": {"module": 1, "inputs": [], "repeat": 1},
    "register": {"name": "pi", "address": ["h", 1], "capability": {}, "busy": []}, "ended": {"lease": "x"},
    "request": {"job": "j", "need": {}, "priority": 0, "wait": 0, "seconds": 1}, "renew": {"lease": "x"},
    "release": {"lease": "x"}, "failures": {}, "drain": {"device": "pi", "on": True},
}  # fmt: skip


def knock(address, bundle, verbs):
    """Say hello and each verb, on a connection of its own, by whatever `bundle` is; nothing may be answered."""
    for verb in sorted(verbs):
        with socket.create_connection(address, 5) as connection, contextlib.suppress(OSError, RpcError):
            if bundle is not None:
                if isinstance(bundle, Path):
                    context = Bundle(bundle).context(listening=False)
                else:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                connection = context.wrap_socket(connection)
            channel = Channel(connection, "whoever is there")
            channel.send({"verb": "hello", "id": 1, "version": VERSION})
            channel.send({"verb": verb, "id": 2, **FIELDS.get(verb, {})})
            message, _ = channel.receive(5.0)
            pytest.fail(f"{verb} was answered with {message}")


@pytest.mark.parametrize("impostor", ["plaintext", "no certificate", "another authority", "a device"])
def test_an_impostor_reaches_no_verb(start, fleet, foreign, tmp_path, impostor):
    bundles = {"plaintext": None, "no certificate": "", "another authority": foreign, "a device": fleet / "device-nano"}
    server = start(fleet / "device-pi")
    knock(server.address, bundles[impostor], DEVICE_VERBS)
    assert not server._listener.channels and not server._sessions and not list(server.store.folder.iterdir())
    if impostor != "a device":  # which may register under its own name: the next test
        with Tracker(TrackerSettings(tmp_path / "t", bundle=Bundle(fleet / "tracker-t"))) as tracker:
            knock(tracker.address, bundles[impostor], TRACKER_VERBS)
            assert not tracker._listener.channels and not tracker.status()["devices"]


@pytest.mark.parametrize("verb", sorted(TRACKER_VERBS.keys() - _DEVICE_VERBS))
def test_a_device_asks_the_tracker_nothing_that_users_may(fleet, tmp_path, verb):
    with Tracker(TrackerSettings(tmp_path / "t", bundle=Bundle(fleet / "tracker-t"))) as tracker:
        connection, _ = dial(*tracker.address, fleet / "device-pi", ("tracker",))
        channel = Channel(connection, "tracker")
        channel.send({"verb": "hello", "id": 1, "version": VERSION})
        channel.receive(5.0)
        channel.send({"verb": verb, "id": 2, **FIELDS.get(verb, {})})
        assert f"may not '{verb}'" in channel.receive(5.0)[0]["error"]["text"]
        channel.close()


def test_a_server_of_another_fleet_is_not_talked_to(start, fleet, tmp_path):
    make_authority(tmp_path / "other")
    server = start(make_bundle(tmp_path / "other", "device", "pi"))
    with pytest.raises(Impostor, match="not of this fleet"):
        connect(*server.address, bundle=fleet / "user-anna")


def test_another_device_than_the_one_meant_is_not_talked_to(start, fleet):
    server = start(fleet / "device-nano")
    with pytest.raises(RpcError, match="not device pi"):
        connect(*server.address, bundle=fleet / "user-anna", device="pi")


def test_tls_older_than_1_3_is_not_spoken(start, fleet):
    server = start(fleet / "device-pi")
    context = Bundle(fleet / "user-anna").context(listening=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(server.address) as connection, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(connection).recv(1)


def test_the_tracker_lets_each_role_do_its_own(fleet, tmp_path, start, foreign):
    with Tracker(TrackerSettings(tmp_path / "t", bundle=Bundle(fleet / "tracker-t"))) as tracker:
        with pytest.raises(RpcError, match="may not 'status'"):
            connect_tracker(*tracker.address, bundle=fleet / "device-pi").status()
        with pytest.raises(RpcError):
            connect_tracker(*tracker.address, bundle=foreign)
        for bundle in (fleet / "user-anna", fleet / "device-nano"):
            # a user registers no device, and a device none of another name
            impostor = Registration(start(fleet / "device-pi", name="pi"), *tracker.address, bundle)
            until(lambda registration=impostor: registration.problem)
            assert "may not 'register'" in impostor.problem or "not of 'pi'" in impostor.problem
            impostor.close()
        assert not connect_tracker(*tracker.address, bundle=fleet / "user-anna").status()["devices"]


def test_keys_are_for_their_owner_alone(fleet):
    for path in (fleet / "authority.key", fleet / "device-pi" / "key.pem"):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_plaintext_is_allowed_on_loopback(host):
    require_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "2001:db8::1"])
def test_plaintext_is_refused_on_other_addresses(host):
    with pytest.raises(InputError, match="without certificates only this machine itself may connect"):
        require_loopback(host)


@pytest.mark.parametrize("role, name", [("king", "pi"), ("device", "../pi"), ("device", "")])
def test_roles_and_names_are_checked(fleet, role, name):
    with pytest.raises(InputError, match="a role is one of"):
        make_bundle(fleet, role, name)


def test_what_is_there_is_not_replaced(fleet):
    with pytest.raises(InputError, match="there already"):
        make_authority(fleet)
    with pytest.raises(InputError, match="there already"):
        make_bundle(fleet, "device", "pi")


def test_folders_that_hold_no_fleet_are_told(tmp_path):
    with pytest.raises(InputError, match="holds no authority"):
        make_bundle(tmp_path, "device", "pi")
    with pytest.raises(InputError, match="no bundle of this fleet"):
        revoke(tmp_path, "user", "x")
    with pytest.raises(EnvironmentError_, match="no usable bundle"):
        Bundle(tmp_path).context(listening=True)
