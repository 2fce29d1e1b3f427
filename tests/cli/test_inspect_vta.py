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


def test_programs_are_calls_of_the_plan(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", str(image_model), "--target", "vta", "--stage", "plan")
    (line,) = [line for line in outcome.out.splitlines() if "vta_launch" in line]
    assert "(arena[" in line and ", constant[" in line


def test_what_the_processor_runs_has_the_stages_of_loops(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", str(image_model), "--target", "vta", "--stage", "tir")
    assert "no loops: see integers, partition, schedule, instructions" in outcome.out
    assert "def fused_multiply_clip_round_cast_cast(" in outcome.out


def test_unknown_stages_and_layers_are_refused(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", str(image_model), "--target", "vta", "--stage", "nowhere")
    assert outcome.status and "known: relay, integers, partition, schedule, instructions, " in outcome.err
    outcome = tilewright(
        "inspect", str(image_model), "--target", "vta", "--stage", "instructions", "--kernel", "nowhere"
    )
    assert outcome.status and "no layer on the accelerator is called 'nowhere'" in outcome.err
