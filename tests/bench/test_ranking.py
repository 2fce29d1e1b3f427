"""The cost model ranks configurations as they were measured: against records of another machine than this one."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.target import Target


@pytest.fixture
def ranking(bench_folder: Path) -> Any:
    return importlib.import_module("ranking")


@pytest.fixture
def ranked(ranking: Any) -> list[Any]:
    if not ranking.RECORDS.exists():
        pytest.skip(f"the measurements of another machine are not beside this repository: {ranking.RECORDS}")
    return list(ranking.recorded(ranking.RECORDS, Target(ranking.RECORDED)))


def test_the_first_of_the_ranking_is_nearly_the_fastest(ranked: list[Any]) -> None:
    """Times of one configuration repeat to a few hundredths, and now and then to a third."""
    mean = importlib.import_module("report").geometric_mean
    assert len(ranked) > 100
    assert mean([one.loss for one in ranked]) < 1.03
    for template in ("conv2d_NCHWc", "conv2d_winograd_NCHWc", "depthwise_conv2d_NCHWc", "conv2d_1x1_nchw"):
        assert mean([one.loss for one in ranked if one.template == template]) < 1.06
    assert sum(one.loss > 1.15 for one in ranked) <= 3


def test_predicted_times_are_near_the_measured_ones(ranked: list[Any]) -> None:
    """Over kernels of 20 µs or more, to which a timer and a call do not add much."""
    mean = importlib.import_module("report").geometric_mean
    long = [one for one in ranked if one.first >= 20]
    assert 0.75 < mean([one.predicted / one.first for one in long]) < 1.25


def test_the_ranking_of_this_machine_is_measured(bench_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(bench_folder / "ranking.py"), "--smoke", "--folder", str(tmp_path)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600).stdout
    assert "first / best" in out and "mlp fused_" in out
