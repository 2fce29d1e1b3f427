"""Certificates: only those of the fleet, of the right role and not revoked open anything."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from tests.rpc.test_server import until
from tilewright.errors import EnvironmentError_, InputError, RpcError
from tilewright.rpc import connect
from tilewright.rpc.identity import Bundle, Impostor, make_authority, make_bundle, require_loopback, revoke
from tilewright.rpc.messages import DEVICE_VERBS
from tilewright.rpc.registration import Registration
from tilewright.rpc.tracker import Tracker, TrackerSettings
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


@pytest.mark.parametrize("verb", sorted(DEVICE_VERBS))
def test_plaintext_reaches_no_verb_of_a_server_with_certificates(start, fleet, verb):
    server = start(fleet / "device-pi")
    with pytest.raises(RpcError):
        connect(*server.address)
    until(lambda: not server._listener.channels)


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
def test_loopback_is_told_from_other_addresses(host):
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
