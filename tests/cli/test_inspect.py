"""`tilewright inspect`: every stage of the compiler can be printed, under the model's own node names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.onnx_models import perceptron, saved, unknown_operator
from tilewright.cli.inspect import stage_names

#: What the text of a stage holds at least.
MARKS = {
    "relay": "nn.conv2d(",
    "fuse_ops": "Primitive",
    "fused": "Primitive",
    "choice": "bound by",
    "plan": "arena: ",
    "te": "def fused_",
    "tir": "def fused_",
    "oblivious": "oblivious",
    "llvm": "define ",
    "asm": ".text",
}


@pytest.mark.sample(40)
@pytest.mark.parametrize("stage", dict.fromkeys(stage_names()))
def test_every_stage_prints(stage: str, tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", image_model, "--stage", stage)
    assert outcome.status == 0 and outcome.err == ""
    assert MARKS.get(stage, "%") in outcome.out or "def fused_" in outcome.out


def test_kernels_of_a_gpu_that_is_not_here(tilewright: Command, image_model: Path) -> None:
    options = ("--stage", "kernels", "--target", "cuda -arch=sm_80")
    outcome = tilewright("inspect", image_model, *options)
    assert outcome.status == 0 and outcome.err == ""
    counts, moved, times, heads, *rows = outcome.out.splitlines()
    assert re.match(r"\d+ kernels, \d+ launches, 0 copies; \d+\.\d+ GFLOP", counts)
    assert "one arena of " in moved and times.startswith("by rooflines: h200 ") and heads.startswith("launches ")
    assert int(counts.split()[0]) == len(rows)
    assert "there is no stage 'kernels'" in tilewright("inspect", image_model, *options[:2]).err


def test_the_summary_of_a_model(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", image_model)
    assert outcome.status == 0 and outcome.err == ""
    first, *lines = outcome.out.splitlines()
    assert first == f"{image_model}: 1.9 KiB, opsets ai.onnx 17"
    assert lines == [
        "inputs         image: float32[1, 3, 12, 12]",
        "outputs        features: float32[1, 16, 1, 1]",
        "operators      3 nodes of 3 kinds",
        "               Conv 1, Relu 1, GlobalAveragePool 1",
        "parameters     432 float32; 1.7 KiB",
        f"operations     {(2 * 27 * 16 * 144 + 2 * 16 * 144) / 1e3:.3g} k a run (two for a multiply-add; "
        "bodies of loops and branches count once)",
        "runs on        the graph executor: one native call",
        "not supported  nothing",
    ]


def test_the_summary_of_what_cannot_be_compiled_or_has_open_sizes(tilewright: Command, tmp_path: Path) -> None:
    outcome = tilewright("inspect", saved(unknown_operator(), tmp_path / "odd.onnx"))
    assert outcome.status == 0 and "Relu 1, Frobnicate 1" in outcome.out
    assert "the_odd_one" in outcome.out[outcome.out.index("not supported") :]
    path = saved(perceptron(rows="batch"), tmp_path / "open.onnx")
    assert "x: float32[batch, 8]" in tilewright("inspect", path).out
    assert "operations     depend on symbolic dimensions" in tilewright("inspect", path).out
    fixed = tilewright("inspect", path, "--input-shapes", "x:[2,8]").out
    assert f"operations     {2 * 2 * 8 * 4 + 2 * 4 * 2} a run" in fixed


@pytest.mark.parametrize("stage", ["plan", "tir"])
def test_a_kernel_is_chosen_by_its_source_node(stage: str, tilewright: Command, image_model: Path) -> None:
    every = tilewright("inspect", image_model, "--stage", stage).out
    one = tilewright("inspect", image_model, "--stage", stage, "--kernel", "first_conv").out
    assert "first_conv" in one and len(one) < len(every)


def test_the_loop_nest_comes_with_the_lines_its_operations_are_written_on(
    tilewright: Command, image_model: Path
) -> None:
    out = tilewright("inspect", image_model, "--stage", "te", "--kernel", "first_conv").out
    positions = re.findall(r"^# \S+ is computed at (.+\.py):(\d+) \(first_conv\)$", out, re.MULTILINE)
    assert positions
    for file, line in positions:
        assert "compute(" in Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1]


def test_two_runs_print_the_same(tilewright: Command, image_model: Path) -> None:
    assert tilewright("inspect", image_model, "--stage", "tir") == tilewright("inspect", image_model, "--stage", "tir")


def test_the_manifest_of_an_artifact(tilewright: Command, artifact: Path) -> None:
    manifest = json.loads(tilewright("inspect", artifact).out)
    assert manifest["format"] == "tilewright-artifact"
    assert manifest["inputs"] == [{"name": "x", "shape": [1, 8], "dtype": "float32"}]


def test_choices_say_what_else_there_was_and_what_was_measured(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", image_model, "--measure")
    assert outcome.status == 0
    lines = [line.strip() for line in outcome.out.splitlines()]
    chosen = next(at for at, line in enumerate(lines) if line.startswith("chose "))
    assert re.match(r"predicted \d+\.\d+ µs, bound by \w+( \w+)?; alone: ", lines[chosen + 1])
    assert re.match(r"of \d+ configurations", lines[chosen + 2]) and "predicted" in lines[chosen + 3]
    measured = [line for line in outcome.out.splitlines() if "measured " in line]
    assert len(measured) == outcome.out.count("\n# ") + 1
    assert all("ms" in line and "% of the multiply-add peak" in line for line in measured)


def test_measuring_needs_the_stage_and_this_machine(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("inspect", image_model, "--measure", "--stage", "te")
    assert outcome.status != 0 and "--measure goes with --stage choice" in outcome.err
    outcome = tilewright("inspect", image_model, "--measure", "--target", "llvm -mtriple=aarch64-linux-gnu")
    assert outcome.status != 0 and "cannot run code for" in outcome.err


@pytest.mark.parametrize("stage", ["te", "simplify", "tir", "asm"])
def test_code_beside_the_lines_it_was_made_of(stage: str, tilewright: Command, image_model: Path) -> None:
    out = tilewright("inspect", image_model, "--stage", stage, "--kernel", "first_conv", "--source").out
    if stage == "asm":
        assert re.search(r"^# conv2d\w*\.py:\d+: .*te\.compute\(", out, re.MULTILINE)
    else:
        assert re.search(r"# conv2d\w*\.py:\d+ \(first_conv\)$", out, re.MULTILINE)


def test_lines_are_for_stages_of_code(tilewright: Command, image_model: Path) -> None:
    ended = tilewright("inspect", image_model, "--stage", "fused", "--source")
    assert ended.status != 0 and "--source goes with stages of loops and code" in ended.err


def test_inspect_takes_the_options_of_all_verbs(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    plain = tilewright("inspect", image_model, "--stage", "choice", "--threads", 1, "--no-cache")
    assert plain.status == 0 and "tile" in plain.out
    with_records = tilewright("inspect", image_model, "--stage", "choice", "--records", "tophub")
    assert with_records.status == 0
    missing = tilewright("inspect", image_model, "--stage", "choice", "--records", tmp_path / "none.jsonl")
    assert missing.status == 2 and "none.jsonl" in missing.err
