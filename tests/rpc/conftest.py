"""A fleet for tests: certificates, a module to upload, servers that are closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright import te
from tilewright.backend import build
from tilewright.rpc.identity import Bundle, make_authority, make_bundle
from tilewright.rpc.leases import Leases
from tilewright.rpc.registration import Registration
from tilewright.rpc.sandbox import Limits
from tilewright.rpc.server import Server, Settings
from tilewright.rpc.tracker import Tracker, TrackerSettings

SIZE = 1024


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority and bundles: tracker-t, device-pi, device-nano, user-anna, user-bert."""
    pytest.importorskip("cryptography", reason="certificates are made by cryptography, which is not installed")
    folder = tmp_path_factory.mktemp("fleet")
    make_authority(folder)
    for role, name in (("tracker", "t"), ("device", "pi"), ("device", "nano"), ("user", "anna"), ("user", "bert")):
        make_bundle(folder, role, name)
    return folder


@pytest.fixture(scope="session")
def library() -> Any:
    """A module with `double`, which doubles 1,024 floats, and `spin`, which takes for ever."""
    a = te.placeholder((SIZE,), name="a")
    b = te.compute((SIZE,), lambda i: a(i) * 2.0, name="b")
    schedule = te.create_schedule(b.op)
    x = te.placeholder((2,), name="x")
    k, l = te.reduce_axis((0, 1 << 30), name="k"), te.reduce_axis((0, 1 << 30), name="l")
    y = te.compute((2,), lambda i: te.sum(x(i) + (k + l).astype("float32"), axis=[k, l]), name="y")
    endless = te.create_schedule(y.op)
    made = [te.lower(schedule, [a, b], name="double"), te.lower(endless, [x, y], name="spin")]
    return build(made, "cpu")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """A function that starts a server, with or without a bundle; all are closed at the end."""
    running: list[Server] = []

    def begin(bundle: Path | None = None, required: bool = False, limits: Limits | None = None, **more: Any) -> Server:
        folder = more.pop("folder", tmp_path / f"device{len(running)}")
        settings = Settings(folder, bundle=Bundle(bundle) if bundle else None, limits=limits or Limits(4 << 30), **more)
        running.append(Server(settings, Leases(required)))
        return running[-1]

    yield begin
    for server in running:
        server.close()


@pytest.fixture
def fleet_of(tmp_path, start):
    """A function that makes (tracker, servers, registrations), the devices `d0`, `d1`… of key "pi"."""
    made = []

    def make(count, **settings):
        beats = {
            "heartbeat_seconds": 0.2,
            "silence_seconds": 6.0,
        }  # a busy machine may keep a device silent for a while
        tracker = Tracker(TrackerSettings(tmp_path / "tracker", **{**beats, **settings}))
        servers = [start(required=True, name=f"d{i}", key="pi") for i in range(count)]
        registrations = [Registration(server, *tracker.address) for server in servers]
        made.append((tracker, registrations))
        for registration in registrations:
            assert registration.registered.wait(60), registration.problem
        return tracker, servers, registrations

    yield make
    for tracker, registrations in made:
        for registration in registrations:
            registration.close()
        tracker.close()
