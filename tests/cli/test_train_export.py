"""`tilewright train-export`: what it writes and says, and its refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Command
from tests.onnx_models import perceptron, saved
from tilewright.training.trainer import Trainer


def test_an_artifact_lowers_the_loss(tilewright: Command, tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="needs safetensors (PyPI)")
    model = saved(perceptron(rows="N"), tmp_path / "net.onnx")
    outcome = tilewright(
        "train-export", model, "-o", tmp_path / "step.tw", "--input-shapes", "x:[16,8]", "--loss", "mean-squared",
        "--optimizer", "sgd", "--rate", "0.1", "--momentum", "0.9", "--clip-norm", "1",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith(f"{tmp_path / 'step.tw'}, {tmp_path / 'step.safetensors'}: trains ")
    assert "inputs  x, target; what is wanted is target" in outcome.out
    trainer = Trainer.load(tmp_path / "step.tw")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 8)).astype("float32")
    target = np.zeros_like(trainer(x=x, target=np.zeros_like(_result(trainer, x)))[1])
    losses = [float(trainer(x=x, target=target)[0]) for _ in range(30)]
    assert losses[-1] < 0.2 * losses[0]


def _result(trainer: Trainer, x: np.ndarray) -> np.ndarray:
    """Zeros of the shape of the network's result."""
    return np.zeros(next(spec.static_shape for spec in trainer.executable.inputs if spec.name == "target"), "float32")


def test_c_source(tilewright: Command, tmp_path: Path) -> None:
    model = saved(perceptron(), tmp_path / "net.onnx")
    outcome = tilewright(
        "train-export", model, "-o", tmp_path / "step.c", "--loss", "mean-squared", "--trainable", "project",
        "--target", "c -mcpu=cortex-m7", "--freestanding",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert "tilewright_step_step(" in (tmp_path / "step.h").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--optimizer", "lion", "--momentum", "0.9"], "--optimizer lion has no --momentum"),
        (["--trainable", "head"], "no weight has 'head' in its name; there are "),
        (["--loss", "hinge"], "there is no loss 'hinge'; known: cross-entropy"),
    ],
)
def test_refusals(options: list[str], message: str, tilewright: Command, tmp_path: Path) -> None:
    model = saved(perceptron(), tmp_path / "net.onnx")
    outcome = tilewright("train-export", model, "-o", tmp_path / "step.c", *options)
    assert outcome.status == 2 and message in outcome.err and not list(tmp_path.glob("step*"))
