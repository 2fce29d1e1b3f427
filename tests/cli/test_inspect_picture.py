"""`tilewright inspect --picture`: the schedules of kernels as SVG, or as a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from tests.cli.conftest import Command


def test_one_kernel_as_svg(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "conv.svg"
    outcome = tilewright("inspect", image_model, "--kernel", "first_conv", "--picture", file)
    assert outcome.status == 0 and outcome.out == ""
    text = [t.text or "" for t in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text")]
    assert "Stages" in text and "Loop nest" in text and "Buffers" in text
    assert any(": at the root" in line for line in text) and any(line.startswith("loops ") for line in text)
    assert any(line.startswith("for ") and "in vectorized(" in line for line in text)


def test_all_kernels_as_a_page(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.html"
    assert tilewright("inspect", image_model, "--picture", file).status == 0
    kernels = tilewright("inspect", image_model, "--stage", "choice").out.count("# fused_")
    assert file.read_text(encoding="utf-8").count("<svg ") == kernels > 1


def test_what_cannot_be_drawn(refused: Callable[..., str], image_model: Path, artifact: Path) -> None:
    assert "writes .svg or .html; got x.png" in refused("inspect", image_model, "--picture", "x.png")
    assert "an .svg holds one kernel; choose it by --kernel" in refused("inspect", image_model, "--picture", "x.svg")
    assert "without --stage, --measure and --source" in refused(
        "inspect", image_model, "--stage", "te", "--picture", "x.svg"
    )
    assert "holds no schedules" in refused("inspect", artifact, "--picture", "x.svg")
    message = refused("inspect", image_model, "--kernel", "nowhere", "--picture", "x.svg")
    assert "no kernel or source node is called 'nowhere'" in message
