"""Comparisons with frameworks in portions: what a log has is not run again, and a process that ended is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.frontends.compared import compare_networks, options


def test_portions_go_on_where_the_one_before_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    called: list[str] = []

    def compare(name: str, folder: Path, compiled: bool) -> float:
        assert folder.is_dir() and not compiled
        called.append(name)
        if name == "raises":
            raise ValueError("no such layer")
        if name == "ends":
            raise KeyboardInterrupt  # as a converter that takes the process along
        return {"near": 1e-6, "far": 1e-2}[name]

    names = ("near", "raises", "ends", "far")
    args = options("A bench.").parse_args(["--log", str(log)])
    with pytest.raises(KeyboardInterrupt):
        compare_networks(names, args, compare)
    compare_networks(names, args, compare)
    assert called == ["near", "raises", "ends", "far"]
    kinds = [line.partition(" (")[0] for line in log.read_text().splitlines()]
    assert kinds == [
        "near: agrees, difference 1.0e-06", "raises: ValueError: no such layer", "ends: the process ended",
        "far: DIFFERS, difference 1.0e-02",
    ]  # fmt: skip
    assert capsys.readouterr().out.splitlines()[-1] == "agree: 1 of 4"


def test_no_network_is_begun_when_the_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    args = options("A bench.").parse_args(["--seconds", "-1"])
    compare_networks(["near"], args, lambda *_: 0.0)
    assert capsys.readouterr().out.splitlines() == ["the time is over; the same call goes on", "agree: 0 of 0"]
