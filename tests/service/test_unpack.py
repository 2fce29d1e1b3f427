"""Archives of models: what leads elsewhere, is too large or has no model is refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tilewright.errors import InputError
from tilewright.service.jobs.work.unpack import model_in


def _archive(path: Path, members: dict[str, bytes], kind: bytes = tarfile.REGTYPE, link: str = "") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, contents in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(contents), kind, link
            archive.addfile(member, io.BytesIO(contents))
    return path


def test_the_model_among_its_files(tmp_path: Path) -> None:
    packed = _archive(tmp_path / "m.tar.gz", {"net/a-symbol.json": b"{}", "net/a-0000.params": b"x", "README": b""})
    (tmp_path / "out").mkdir()
    found = model_in(packed, "MXNET", tmp_path / "out", 1000)
    assert found == tmp_path / "out/net/a-symbol.json" and (found.parent / "a-0000.params").read_bytes() == b"x"
    folder = _archive(tmp_path / "s.tar.gz", {"1/saved_model.pb": b"x"})
    assert model_in(folder, "TENSORFLOW", tmp_path / "out", 1000) == tmp_path / "out/1"
    plain = tmp_path / "plain.onnx"
    plain.write_bytes(b"no archive")
    assert model_in(plain, "ONNX", tmp_path / "out", 1000) == plain


@pytest.mark.parametrize(
    ("members", "kind", "link", "message"),
    [
        ({"../evil": b""}, tarfile.REGTYPE, "", "no file below it"),
        ({"/etc/evil": b""}, tarfile.REGTYPE, "", "no file below it"),
        ({"a/" * 1000 + "m": b""}, tarfile.REGTYPE, "", "more than 32 folders in each other"),
        ({"link": b""}, tarfile.SYMTYPE, "/etc/passwd", "no file below it"),
        ({"device": b""}, tarfile.CHRTYPE, "", "no file below it"),
        ({"zeros": bytes(2000)}, tarfile.REGTYPE, "", "more than 1000 bytes"),
        ({"a.onnx": b"", "b.onnx": b""}, tarfile.REGTYPE, "", r"several models: a.onnx, b.onnx"),
        ({"a.txt": b""}, tarfile.REGTYPE, "", "no file of ONNX"),
        ({"a/b": b"", "a": b"", "c.onnx": b""}, tarfile.REGTYPE, "", "cannot be unpacked"),
    ],
)
def test_archives_that_are_refused(
    tmp_path: Path, members: dict[str, bytes], kind: bytes, link: str, message: str
) -> None:
    (tmp_path / "out").mkdir()
    packed = _archive(tmp_path / "m.tar.gz", members, kind, link)
    with pytest.raises(InputError, match=message):
        model_in(packed, "ONNX", tmp_path / "out", 1000)
    assert not (tmp_path / "evil").exists()
