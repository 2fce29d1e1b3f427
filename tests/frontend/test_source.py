"""A model as it was given: its contents and, of a folder or archive, its members; nothing is unpacked or believed."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from tilewright.errors import ModelError
from tilewright.frontend.source import Source


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name in names:
            made.writestr(zipfile.ZipInfo(name), "x")  # a fixed date: the bytes are part of a test's name
    return stream.getvalue()


def test_a_file_its_bytes_and_a_folder(tmp_path: Path) -> None:
    contents = archive("m/data.json", "m/weights")
    path = tmp_path / "anything"
    path.write_bytes(contents)
    for source in (Source.of(path), Source.of(str(path)), Source.of(contents)):
        assert bytes(source.contents) == contents and not source.is_folder
        assert source.members == {"m/data.json", "m/weights"}
    folder = Source.of(tmp_path)
    assert folder.is_folder and folder.members == {"anything"} and not folder.contents


@pytest.mark.parametrize("contents", [b"", b"PK", b"PK\x03\x04" + b"\xff" * 40, archive("a")[:-5]])
def test_what_is_no_whole_archive_has_no_members(contents: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(contents)
    assert Source.of(path).members == Source.of(contents).members == frozenset()


def test_what_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"absent: there is no such file"):
        Source.of(tmp_path / "absent")
