"""Files that are no models are told by what they are, and nothing in them is run."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import ModelError
from tilewright.frontend.formats.table import frontend_of


class Bomb:
    """Unpickling it would raise."""

    def __reduce__(self) -> tuple[object, ...]:
        return (exec, ("raise SystemError('was run')",))


def torch_zip(data: bytes) -> bytes:
    """An archive as torch.save writes it, of this pickle."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3\n")
    return stream.getvalue()


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, a=np.ones(3))
    return stream.getvalue()


HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
NETWORK = b"\x80\x02ctorch.nn.modules.container\nSequential\nq\x00)\x81q\x01."
OWN = b"\x80\x02cmynet.models\nNet\nq\x00)\x81q\x01."


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "a pointer of Git LFS.*git lfs pull"),
        (torch_zip(pickle.dumps(OrderedDict(w=1.0), 2)), r"a checkpoint of PyTorch: weights \(a state_dict\).*export"),
        (torch_zip(NETWORK), "a pickled torch.nn.modules.container.Sequential of PyTorch, which runs code"),
        (torch_zip(OWN), "a pickled mynet.models.Net of PyTorch"),
        (torch_zip(b"\x80\x02nonsense"), "a checkpoint of PyTorch"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + pickle.dumps({"w": 1.0}, 2), "a checkpoint of PyTorch"),
        (len(HEADER).to_bytes(8, "little") + HEADER + bytes(4), "a file of safetensors: weights without a network"),
        (b"GGUF\x03\x00\x00\x00", "a GGUF file"),
        (npz(), "arrays of NumPy.*--input"),
        (pickle.dumps(Bomb()), "a pickle, which runs code"),
        (torch_zip(pickle.dumps(Bomb(), 2)), "a checkpoint of PyTorch"),
        (b"<!DOCTYPE html><html>Not found</html>", "a web page"),
        (b"\x1f\x8b\x08\x00rest", "a compressed archive; unpack it"),
        (b"what is this", "its contents begin like none of these"),
    ],
)
def test_a_file_that_is_no_model_is_told_by_what_it_is(contents: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(contents)
    for given in (path, contents):
        with pytest.raises(ModelError, match=message):
            frontend_of(given)
