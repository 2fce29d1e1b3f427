"""`tilewright inspect --stage choice`: what the schedule of a kernel chose, and why."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Command


def test_a_convolution_tells_its_configuration_and_what_it_should_take(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", image_model, "--stage", "choice", "--kernel", "first_conv")
    heading, template, chose, predicted, ranked, *others = outcome.out.splitlines()
    assert "first_conv" in heading and template.startswith("  template conv2d_NCHWc")
    knobs = re.fullmatch(r"  chose ((?:\w+=\d+ ?)+)", chose)
    assert knobs and "tile_columns=" in knobs.group(1)
    assert re.match(r"  predicted \d+\.\d+ µs, bound by (arithmetic|load ports|l2|l3|memory|fixed)", predicted)
    assert ranked.startswith("  of ") and "configurations" in ranked
    assert others and all(line.startswith("    next tile_rows=") for line in others)


def test_a_kernel_without_a_tile_tells_its_template(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", image_model, "--stage", "choice", "--kernel", "pool")
    heading, template = outcome.out.splitlines()[:2]
    assert "pool" in heading and template.startswith("  template ")
