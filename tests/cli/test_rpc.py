"""`tilewright rpc …` and tuning over a fleet, on a tracker and servers in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.onnx_models import convolution, saved
from tests.rpc.board.test_board import HERE, board, programs
from tests.rpc.conftest import fleet_of, library, start
from tests.rpc.test_server import until
from tilewright.rpc.registration import Registration

__all__ = ["board", "fleet_of", "library", "programs", "start"]  # fixtures


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))


def at(tracker) -> str:
    return f"127.0.0.1:{tracker.address[1]}"


def with_board(tracker, board):
    """A device of key "bare" that runs no Python."""
    server = board(HERE, name="bare", key="bare", required=True)
    registration = Registration(server, *tracker.address)
    assert registration.registered.wait(60)
    return registration


def test_a_model_runs_on_devices_of_both_kinds(tilewright: Command, model: Path, fleet_of, board) -> None:
    tracker, _, _ = fleet_of(1)
    registration = with_board(tracker, board)
    shown = []
    for key in ("pi", "bare"):
        outcome = tilewright("rpc", "run", model, "--tracker", at(tracker), "--key", key, "--repeat", 3, "--seed", 1)
        assert outcome.status == 0, outcome.err
        shown.append([line for line in outcome.out.splitlines() if " ms" not in line])
        assert "ms of 3 runs" in outcome.out.splitlines()[-1]
    assert shown[0] == shown[1]
    outcome = tilewright("rpc", "query", "--tracker", at(tracker))
    assert outcome.status == 0 and "d0" in outcome.out and "bare" in outcome.out
    registration.close()


@pytest.mark.parametrize("key", ["pi", "bare"])
@pytest.mark.sample(1)
def test_a_model_is_tuned_on_devices_of_both_kinds(tilewright: Command, tmp_path: Path, fleet_of, board, key) -> None:
    tracker, _, _ = fleet_of(2)
    registration = with_board(tracker, board)
    model = saved(convolution(), tmp_path / "model.onnx")
    records, figures = tmp_path / "r.jsonl", tmp_path / "figures.json"
    outcome = tilewright(
        *("tune", model, "--trials", 6, "--explorer", "grid", "--records", records, "--json", figures),
        *("--tracker", at(tracker), "--key", key, "--devices", 2),
    )
    assert outcome.status == 0, outcome.err
    told = json.loads(figures.read_text())
    assert told["trials"] >= 6 and 0 < told["tuned_ms"] <= told["default_ms"]
    assert tilewright("compile", model, "-o", tmp_path / "m.tw", "--records", records).status == 0
    jobs = {device["name"]: device["jobs"] for device in tracker.status()["devices"]}
    assert all((count > 0) == (name.startswith("d") == (key == "pi")) or name == "d1" for name, count in jobs.items())
    until(lambda: tracker.status()["leases"] == 0)
    registration.close()


def test_what_went_wrong_is_listed(tilewright: Command, model: Path, fleet_of) -> None:
    tracker, _, _ = fleet_of(1)
    wrong = Path(str(model) + ".tw")
    tilewright("compile", model, "-o", wrong)
    wrong.write_bytes(wrong.read_bytes()[:-10])
    common = ("--tracker", at(tracker))
    assert tilewright("rpc", "run", wrong, *common, "--key", "pi", "--priority", 3).status != 0
    until(lambda: tracker.recent_failures())
    outcome = tilewright("rpc", "query", *common, "--failed")
    assert outcome.status == 0 and "d0" in outcome.out and "ArtifactError" in outcome.out
    told = json.loads(tilewright("rpc", "query", *common, "--failed", "--json").out)
    assert [one["device"] for one in told if one["reason"].startswith("ArtifactError")] == ["d0"]
    status = json.loads(tilewright("rpc", "query", *common, "--json").out)
    assert status["granted"] >= 1 and {user["name"] for user in status["users"]} == {"local"}


def test_what_is_missing_for_tuning_elsewhere_is_said(refused, model: Path, fleet_of) -> None:
    tracker, _, _ = fleet_of(1)
    common = ("tune", model, "--trials", 1)
    assert "add --tracker" in refused(*common, "--key", "pi")
    assert "add --key" in refused(*common, "--tracker", at(tracker))
    assert "is no address" in refused(*common, "--tracker", "nowhere", "--key", "pi")
    riscv = "llvm -mtriple=riscv64-linux-gnu"
    said = refused(*common, "--tracker", at(tracker), "--key", "pi", "--target", riscv)
    assert "devices of key 'pi' are" in said


def test_a_launcher_without_a_worker_is_refused(refused) -> None:
    said = refused("rpc", "server", "--plaintext", "--port", 0, "--launcher", "qemu-aarch64")
    assert "add --worker FILE" in said


def test_the_worker_of_a_board_is_written(tilewright: Command, tmp_path: Path, programs) -> None:
    programs(HERE)  # skips without a compiler
    outcome = tilewright("rpc", "board", "cpu", "-o", tmp_path / "worker")
    assert outcome.status == 0 and (tmp_path / "worker").stat().st_mode & 0o111
