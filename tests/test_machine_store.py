"""Measured figures of a machine: kept, found again under its digest, forgotten where anything is wrong with it."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest

from tilewright import machine_store
from tilewright.errors import TargetError
from tilewright.machine import MACHINES, Bandwidth, Machine
from tilewright.support.cache import DiskCache
from tilewright.target import Target, host_identity

MEASURED = dataclasses.replace(MACHINES["znver4"], name="here", read_l3=Bandwidth(11.5, 23), barrier=123.0)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    """A cache for this test alone, from which calibrations are read."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", "1")
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    return DiskCache(tmp_path)


def test_what_is_stored_is_read_back(own_cache: DiskCache) -> None:
    assert machine_store.stored_key("this one") == ""
    key = machine_store.store(MEASURED, "this one")
    assert machine_store.stored(key) == MEASURED
    assert machine_store.stored_key("this one") == key
    assert machine_store.stored_key("another") == ""
    assert machine_store.stored("0" * len(key)) is None


def test_older_figures_stay_readable(own_cache: DiskCache) -> None:
    old = machine_store.store(MEASURED, "this one")
    new = machine_store.store(dataclasses.replace(MEASURED, barrier=99.0), "this one")
    assert machine_store.stored_key("this one") == new != old
    assert machine_store.stored(old) == MEASURED


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\xfe", b'{"name": "x"}', b"[1, 2]"])
def test_a_damaged_entry_is_none(own_cache: DiskCache, damage: bytes) -> None:
    key = machine_store.store(MEASURED, "this one")
    own_cache.put("machine", key, damage)
    assert machine_store.stored(key) is None
    machine_store._last.clear()
    assert machine_store.stored_key("this one") == ""


def test_figures_that_were_changed_by_hand_are_none(own_cache: DiskCache) -> None:
    key = machine_store.store(MEASURED, "this one")
    data = own_cache.get("machine", key)
    assert data is not None
    own_cache.put("machine", key, data.replace(b"123.0", b"124.0"))
    assert machine_store.stored(key) is None


def test_the_host_has_the_measured_figures(own_cache: DiskCache) -> None:
    before = Target("cpu")
    key = machine_store.store(MEASURED, host_identity())
    target = Target("cpu")
    share = min(before.l3, MEASURED.l3.size)
    assert str(target) == f"{before} -machine={key}".replace(f"-l3={before.l3} ", f"-l3={share} ") and target != before
    assert target.machine.l3.size == target.l3 == share and Target("cpu -l3=123456789").l3 == 123456789
    assert target.machine.read_l3 == Bandwidth(11.5, 23) != before.machine.read_l3
    assert target.machine.l2.size == target.l2
    assert Target(str(target)) == target == pickle.loads(pickle.dumps(target))
    assert Target(str(before)).machine == before.machine
    assert Target("cpu -l2=65536").machine.l2.size == 65536
    assert Target("cpu -l2=65536").measured == key
    assert Target("llvm -mtriple=aarch64-linux-gnu").measured == ""


def test_the_knobs_ignore_a_calibration(own_cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_store.store(MEASURED, host_identity())
    assert Target("cpu").measured
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", "0")
    assert Target("cpu").measured == ""
    monkeypatch.setenv("TILEWRIGHT_CALIBRATION", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    assert Target("cpu").measured == ""


def test_a_digest_of_another_machine_is_refused(own_cache: DiskCache) -> None:
    with pytest.raises(TargetError, match=r"-machine=abc123 are not kept on this machine.*doctor --calibrate"):
        Target("cpu -machine=abc123")


def test_without_a_cache_nothing_is_kept() -> None:
    assert machine_store.store(MEASURED, "this one", DiskCache(None)) == ""


def test_every_field_survives(own_cache: DiskCache) -> None:
    for machine in MACHINES.values():
        assert _through(machine) == machine


def _through(machine: Machine) -> Machine | None:
    return machine_store.stored(machine_store.store(machine, machine.name))
