"""Artifacts and weights under seal, by the command."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilewright as tw
from tests.cli.conftest import Command
from tests.onnx_models import perceptron, saved

pytest.importorskip("cryptography", reason="needs the package cryptography")


def test_commands(tmp_path: Path, tilewright: Command) -> None:
    saved(perceptron(), tmp_path / "net.onnx")
    assert tilewright("keygen", tmp_path / "mine").status == 0
    made = tilewright("keygen", tmp_path / "new", "--encryption")
    assert made.status == 0 and (tmp_path / "new.key").stat().st_mode & 0o77 == 0
    given = ["--sign", tmp_path / "mine.pem", "--encrypt", tmp_path / "new.key"]
    assert tilewright("compile", tmp_path / "net.onnx", "-o", tmp_path / "net.tw", *given).status == 0
    loaded = tw.load(tmp_path / "net.tw", verify=tmp_path / "mine.pub.pem", decrypt=tmp_path / "new.key")
    assert loaded.outputs
    assert "net.tw is sealed: load it in Python" in tilewright("run", tmp_path / "net.tw").err
    alone = tilewright("compile", tmp_path / "net.onnx", "-o", tmp_path / "b.tw", *given[:2])
    assert "--sign KEY.pem and --encrypt KEY belong together" in alone.err


def test_a_key_that_is_missing_leaves_the_old_artifact(tmp_path: Path, tilewright: Command) -> None:
    saved(perceptron(), tmp_path / "net.onnx")
    tilewright("keygen", tmp_path / "mine")
    (tmp_path / "net.tw").write_bytes(b"what was there")
    given = ["--sign", tmp_path / "mine.pem", "--encrypt", tmp_path / "none.key"]
    refused = tilewright("compile", tmp_path / "net.onnx", "-o", tmp_path / "net.tw", *given)
    assert refused.status == 2 and "none.key" in refused.err
    assert (tmp_path / "net.tw").read_bytes() == b"what was there"
    library = tilewright("compile", tmp_path / "net.onnx", "-o", tmp_path / "net.so", *given)
    assert library.status == 2 and "artifacts (.tw) and weights of C source (.c) are sealed" in library.err
