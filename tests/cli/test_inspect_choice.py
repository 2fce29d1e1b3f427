"""`tilewright inspect --stage choice`: what the schedule of a kernel chose, and why."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.conftest import Command


def test_a_convolution_tells_its_tile_and_its_prediction(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", image_model, "--stage", "choice", "--kernel", "first_conv")
    heading, template, tile, predicted, step, chosen, *others = outcome.out.splitlines()
    assert "first_conv" in heading and template.startswith("  template conv2d_NCHWc")
    rows, vectors, used, registers = map(int, re.findall(r"(\d+) by (\d+) x .* (\d+) of (\d+) registers", tile)[0])
    assert rows * vectors < used <= registers
    assert re.fullmatch(r"  predicted \d+\.\d % of the multiply-add peak", predicted)
    assert f"{rows * vectors} multiply-adds" in step
    assert re.match(r"  chose tile_rows=\d+ .*predicted \d+\.\d %, of \d+ configurations", chosen)
    assert others and all(line.startswith("    next tile_rows=") for line in others)


def test_a_kernel_without_a_tile_tells_its_template(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", image_model, "--stage", "choice", "--kernel", "pool")
    heading, template = outcome.out.splitlines()[:2]
    assert "pool" in heading and template.startswith("  template ")
