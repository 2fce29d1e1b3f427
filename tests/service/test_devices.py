"""Jobs on devices of a fleet: a tracker and a server of this machine, with certificates, behind a service."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("jsonschema", reason="the extra [serve] is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("cryptography", reason="certificates are made by cryptography, which is not installed")

from tests.service.client import Client
from tests.service.conftest import serving
from tests.service.test_api import model_bytes
from tilewright.rpc.identity import Bundle, make_authority, make_bundle
from tilewright.rpc.leases import Leases
from tilewright.rpc.registration import Registration
from tilewright.rpc.sandbox import Limits
from tilewright.rpc.server import Server, Settings
from tilewright.rpc.tracker import Tracker, TrackerSettings
from tilewright.rpc.tracker_client import connect_tracker

if TYPE_CHECKING:
    from tests.service.conftest import Service


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificates of a tracker, a device and a user."""
    folder = tmp_path_factory.mktemp("fleet")
    make_authority(folder)
    for role, name in (("tracker", "t"), ("device", "desk"), ("user", "service")):
        make_bundle(folder, role, name)
    return folder


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory, bundles: Path) -> Iterator[Tracker]:
    """A tracker with one device, of key "desktop"."""
    folder = tmp_path_factory.mktemp("tracker")
    settings = TrackerSettings(folder / "tracker", bundle=Bundle(bundles / "tracker-t"), silence_seconds=20.0)
    of_device = Settings(folder / "desk", name="desk", key="desktop", bundle=Bundle(bundles / "device-desk"),
                         limits=Limits(4 << 30))  # fmt: skip
    with Tracker(settings) as found, Server(of_device, Leases(required=True)) as server:
        registration = Registration(server, *found.address, bundles / "device-desk")
        assert registration.registered.wait(60), registration.problem
        yield found
        registration.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, tracker: Tracker, bundles: Path) -> Iterator[Service]:
    """A service of that fleet."""
    folder = tmp_path_factory.mktemp("service")
    with serving(folder, tracker=tracker.address, bundle=bundles / "user-service", device_seconds=60.0) as found:
        yield found


@pytest.fixture(scope="module")
def dan(fleet: Service) -> Client:
    """A client of it."""
    return Client.of(fleet, "dan")


def _artifact(client: Client, job: str, name: str) -> bytes:
    reply = client.call("GET", f"/v1/jobs/{job}/artifacts/{name}")
    assert reply.status == 200
    return reply.body


def test_devices_are_listed_by_key(dan: Client, tracker: Tracker) -> None:
    (row,) = dan.call("GET", "/v1/devices").json
    assert (row["key"], row["devices"], row["free"]) == ("desktop", 1, 1)
    assert row["architecture"] == tracker.status()["devices"][0]["architecture"]


def test_verify_runs_on_the_device(dan: Client) -> None:
    job = dan.run("verify", dan.upload(model_bytes()), device="desktop", options={"seed": 3})
    assert job["status"] == "completed", job["reason"]
    found, (output,) = job["result"], job["result"]["outputs"]
    assert found["passed"] and found["against"] == "onnxruntime" and found["device"] == "desk"
    assert job["device"] == "desktop" and output["error"] < 1e-4 * output["scale"]


def test_verify_on_the_device_says_where_results_differ(dan: Client) -> None:
    options = {"rtol": 0, "atol": 0, "seed": 3}
    job = dan.run("verify", dan.upload(model_bytes(inner=2000)), device="desktop", options=options)
    assert job["status"] == "completed" and job["result"]["passed"] is False, job["reason"]


def test_profile_has_the_times_of_the_device(dan: Client) -> None:
    job = dan.run("profile", dan.upload(model_bytes()), device="desktop", options={"repeat": 3})
    assert job["status"] == "completed", job["reason"]
    profile = json.loads(_artifact(dan, job["id"], "profile.json"))
    assert profile["device"] == "desk" and len(profile["runs"]) == 3
    assert len(profile["kernels"]) == 2 and all(kernel["seconds"] > 0 for kernel in profile["kernels"])
    assert json.loads(_artifact(dan, job["id"], "report.json"))["measured"]


def test_tune_leaves_records_of_the_device(dan: Client) -> None:
    model = dan.upload(model_bytes(inner=64))
    job = dan.run("tune", model, device="desktop", target="x86-64-v2", options={"trials": 4})
    assert job["status"] == "completed", job["reason"]
    assert job["result"]["device"] == "desk" and job["result"]["trials"] >= 1
    assert _artifact(dan, job["id"], "records.jsonl").count(b"\n") >= 1


def test_a_job_waits_for_the_device_and_can_be_stopped_meanwhile(dan: Client, tracker: Tracker, bundles: Path) -> None:
    session = connect_tracker(*tracker.address, bundle=bundles / "user-service")
    body = {"kind": "verify", "model": dan.upload(model_bytes()), "device": "desktop"}
    with session.request("desktop"):
        waits, stopped = (dan.call("POST", "/v1/jobs", body).json["id"] for _ in range(2))
        while dan.call("GET", f"/v1/jobs/{waits}").json["stage"] != "device":
            threading.Event().wait(0.1)
        dan.call("POST", f"/v1/jobs/{waits}/cancel")
        assert dan.ended(waits)["status"] == "stopped"
    assert dan.ended(stopped)["status"] == "completed"


def test_what_is_wrong_with_a_device_is_said(dan: Client, service: Service) -> None:
    model = dan.upload(model_bytes())
    job = dan.run("verify", model, device="toaster")
    assert job["status"] == "failed" and "no device of this fleet is as needed" in job["reason"]
    job = dan.run("profile", model, device="desktop", target="raspberry-pi-4")
    assert job["status"] == "failed" and "devices of key 'desktop' are" in job["reason"]
    refused = dan.call("POST", "/v1/jobs", {"kind": "verify", "model": model, "device": "desktop", "target": "c"})
    assert refused.status == 422 and "does not run on devices of a fleet" in refused.json["detail"]
    refused = dan.call("POST", "/v1/jobs", {"kind": "compile", "model": model, "device": "desktop", "target": "cpu"})
    assert refused.status == 422
    lonely = Client.of(service, "devices-lonely")
    body = {"kind": "verify", "model": lonely.upload(model_bytes()), "device": "desktop"}
    refused = lonely.call("POST", "/v1/jobs", body)
    assert refused.status == 422 and "has no fleet of devices" in refused.json["detail"]
    assert lonely.call("GET", "/v1/devices").json == []
