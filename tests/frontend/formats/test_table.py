"""The format of a model is told by its contents; what is of no known format is told which there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.onnx_models import convolution
from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.formats.table import FRONTENDS, frontend_of, is_model_folder, kinds_of_models
from tilewright.frontend.source import Source

MODEL = convolution()
CONTENTS = MODEL.SerializeToString()


def test_names_of_formats_are_their_own() -> None:
    assert len({one.name for one in FRONTENDS}) == len(FRONTENDS)
    assert all(one.kind for one in FRONTENDS)


@pytest.mark.parametrize("name", ["model.onnx", "model", "model.tflite", "model.zip"])
def test_the_name_of_a_file_says_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(CONTENTS)
    assert frontend_of(path).name == frontend_of(str(path)).name == "onnx"


def test_onnx_as_bytes_and_in_memory() -> None:
    assert frontend_of(CONTENTS).name == frontend_of(memoryview(CONTENTS)).name == frontend_of(MODEL).name == "onnx"


def test_a_model_cut_short_is_still_one_of_its_format() -> None:
    assert frontend_of(CONTENTS[: len(CONTENTS) // 3]).name == "onnx"


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


@pytest.mark.parametrize(
    "contents",
    [
        b"shopping: bread, milk, eggs\n",
        b"\x00" * 64,
        b"\x08\x01" + field(2, b"\x0a\x02ab"),  # a protocol buffer of another kind: a version and a message
        field(1, b"node") + field(1, b"node"),  # and a list of messages
        b"\x1c\x00\x00\x00TFL3" + b"\x00" * 20,
        b"PK\x03\x04" + b"\x00" * 20,
    ],
)
def test_other_contents_are_no_onnx(contents: bytes) -> None:
    (onnx,) = [one for one in FRONTENDS if one.name == "onnx"]
    assert not onnx.recognizes(Source.of(contents))


def test_what_no_format_begins_like_names_them_all(tmp_path: Path) -> None:
    path = tmp_path / "notes.onnx"
    path.write_text("shopping: bread, milk, eggs\n")
    with pytest.raises(ModelError) as caught:
        frontend_of(path)
    assert f"notes.onnx (28 bytes) is not {kinds_of_models()}" in str(caught.value)
    assert all(one.kind in str(caught.value) for one in FRONTENDS)


def test_an_empty_file_a_folder_and_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(ModelError, match="empty is empty; it is not an ONNX model"):
        frontend_of(path)
    with pytest.raises(ModelError, match="is a directory, and not an ONNX model"):
        frontend_of(tmp_path)
    assert not is_model_folder(tmp_path) and not is_model_folder(path)
    with pytest.raises(ModelError, match="there is no such file"):
        frontend_of(tmp_path / "absent")


def test_another_object_is_told_what_may_be_given() -> None:
    with pytest.raises(
        UnsupportedError, match=r"cannot compile a list; pass the path or bytes of an ONNX model.*Proto"
    ):
        frontend_of([1, 2])
