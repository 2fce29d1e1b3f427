"""Signed artifacts: what was signed loads, whatever was changed since does not, before anything else in it is read."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tilewright as tw
from tests.onnx_models import perceptron
from tilewright.cli.main import cli, guarded
from tilewright.errors import ArtifactError, EnvironmentError_, InputError
from tilewright.runtime import signing


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    path = tmp_path / "model.tw"
    tw.compile(perceptron(2), threads=1).save(path)
    return path


def test_without_the_package_there_is_one_message(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for action in (
        lambda: signing.make_keys(artifact.with_name("k")),
        lambda: signing.sign(artifact, b""),
        lambda: tw.load(artifact, verify=b""),
    ):
        with pytest.raises(EnvironmentError_, match=r"pip install 'tilewright\[sign\]'"):
            action()


class TestWithThePackage:
    @pytest.fixture(autouse=True)
    def needs_the_package(self) -> None:
        pytest.importorskip("cryptography", reason="signatures need the package cryptography")

    def test_what_was_signed_loads_and_computes(self, artifact: Path, tmp_path: Path) -> None:
        private, public = signing.make_keys(tmp_path / "mine")
        assert signing.sign(artifact, private) == tmp_path / "model.tw.sig"
        x = np.ones((2, 8), np.float32)
        for key in (public, str(public), public.read_bytes()):
            assert np.array_equal(tw.load(artifact, verify=key)(x), tw.load(artifact)(x))
        if sys.platform != "win32":
            assert private.stat().st_mode & 0o077 == 0

    def test_what_was_not_signed_does_not_load(self, artifact: Path, tmp_path: Path) -> None:
        _, public = signing.make_keys(tmp_path / "mine")
        with pytest.raises(ArtifactError, match=r"model\.tw is not signed: there is no .*model\.tw\.sig"):
            tw.load(artifact, verify=public)

    def test_any_change_is_noticed_before_the_file_is_read(self, artifact: Path, tmp_path: Path) -> None:
        private, public = signing.make_keys(tmp_path / "mine")
        signing.sign(artifact, private)
        data = artifact.read_bytes()
        for at in (0, 16, 100, 200, len(data) // 2, len(data) - 1):
            artifact.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            with pytest.raises(ArtifactError, match=r"was not signed with the key of .*, or was changed since"):
                tw.load(artifact, verify=public)
        for damaged in (data[:-1], data + b"\0", b""):
            artifact.write_bytes(damaged)
            with pytest.raises(ArtifactError):
                tw.load(artifact, verify=public)

    def test_another_key_or_signature_does_not_do(self, artifact: Path, tmp_path: Path) -> None:
        private, public = signing.make_keys(tmp_path / "mine")
        other, _ = signing.make_keys(tmp_path / "other")
        made = signing.sign(artifact, other)
        with pytest.raises(ArtifactError, match="was not signed with the key of"):
            tw.load(artifact, verify=public)
        for text in ("", "nonsense", "tilewright-signature-1 ???", "tilewright-signature-9 AAAA", "é"):
            made.write_text(text)
            with pytest.raises(ArtifactError, match=r"model\.tw was not loaded|not signed with"):
                tw.load(artifact, verify=public)
        signing.sign(artifact, private)
        with pytest.raises(InputError, match="is no public key in PEM form"):
            tw.load(artifact, verify=private)
        with pytest.raises(InputError, match=r"cannot read the key .*absent"):
            tw.load(artifact, verify=tmp_path / "absent")
        with pytest.raises(InputError, match="is no private key"):
            signing.sign(artifact, public)

    def test_keys_are_not_replaced(self, tmp_path: Path) -> None:
        signing.make_keys(tmp_path / "mine")
        with pytest.raises(InputError, match="is there already"):
            signing.make_keys(tmp_path / "mine")

    def test_the_command_line_makes_keys_and_signs(self, artifact: Path, tmp_path: Path) -> None:
        run = CliRunner().invoke
        assert run(cli, ["keygen", str(tmp_path / "mine")]).exit_code == 0
        assert run(cli, ["sign", str(artifact), "--key", str(tmp_path / "mine.pem")]).exit_code == 0
        assert tw.load(artifact, verify=tmp_path / "mine.pub.pem").inputs[0].name == "x"
        (tmp_path / "text").write_text("no artifact")
        arguments = ["sign", str(tmp_path / "text"), "--key", str(tmp_path / "mine.pem")]
        assert guarded(lambda: cli.main(arguments, standalone_mode=False)) == 2
