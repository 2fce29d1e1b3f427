"""`inspect --target vta`: each stage prints, by layer, and unknown names are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

MARKS = {
    "integers": "right_shift",
    "partition": 'Compiler="vta"',
    "schedule": "Tiling(rows=",
    "instructions": "<- load            GEMM",
}


@pytest.mark.parametrize("stage", MARKS)
def test_every_stage_prints(stage: str, tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", str(image_model), "--target", "vta", "--stage", stage)
    assert outcome.status == 0 and MARKS[stage] in outcome.out


def test_without_a_stage_it_is_the_schedule(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", str(image_model), "--target", "vta -threads=1")
    assert "by 1 virtual threads" in outcome.out and "threads=1," in outcome.out


def test_unknown_stages_and_layers_are_refused(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", str(image_model), "--target", "vta", "--stage", "llvm")
    assert (
        outcome.status and "no stage 'llvm' for VTA; known: integers, partition, schedule, instructions" in outcome.err
    )
    outcome = tilewright(
        "inspect", str(image_model), "--target", "vta", "--stage", "instructions", "--kernel", "nowhere"
    )
    assert outcome.status and "no layer on the accelerator is called 'nowhere'" in outcome.err
