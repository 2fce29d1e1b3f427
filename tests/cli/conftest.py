"""The command run in this process through its real entry, and tiny models to run it on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.onnx_models import convolution, perceptron, saved
from tilewright.cli.main import cli, guarded


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command: its exit status and the text of both streams."""

    status: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests run at the same time; what a verb says of a busy machine is the subject of its own tests."""
    monkeypatch.setattr("tilewright.support.load._others_seconds", lambda: None)


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str]) -> Command:
    """`tilewright("run", model, ...)`: the command's `Outcome`."""

    def run(*args: object) -> Outcome:
        capsys.readouterr()
        status = guarded(lambda: cli.main([str(arg) for arg in args], prog_name="tilewright", standalone_mode=False))
        return Outcome(status, *capsys.readouterr())

    return run


def files_below(folder: Path) -> set[Path]:
    """Every file and directory below `folder`."""
    return set(folder.rglob("*"))


@pytest.fixture
def refused(tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`refused("run", model, ...)`: the one message of a command that fails for a reason its user can mend.

    The status is 2, nothing is printed but the message, and no file is left: neither the output nor a temporary one.
    """

    def run(*args: object) -> str:
        work = tmp_path / "work"
        for name in ("temp", "cache"):
            (work / name).mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(work / "temp"))
        before = files_below(tmp_path)
        outcome = tilewright(*args)
        assert outcome.status == 2
        assert outcome.out == ""
        assert outcome.err.startswith("error: ") and outcome.err.count("error: ") == 1
        assert "Traceback" not in outcome.err
        assert files_below(tmp_path) == before
        return outcome.err.removeprefix("error: ").strip()

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model file: relu(x w + b), x float32 [1, 8]."""
    return saved(perceptron(), tmp_path / "perceptron.onnx")


@pytest.fixture
def image_model(tmp_path: Path) -> Path:
    """A model file of several kernels: convolution, activation, pool."""
    return saved(convolution(), tmp_path / "convolution.onnx")


@pytest.fixture
def artifact(model: Path, tilewright: Command) -> Path:
    """The compiled artifact of `model`."""
    path = model.with_suffix(".tw")
    assert tilewright("compile", model, "-o", path).status == 0
    return path
