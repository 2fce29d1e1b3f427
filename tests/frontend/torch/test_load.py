"""Archives of programs: nothing in them runs while they are read."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.errors import ModelError
from tilewright.frontend.torch import from_pytorch

torch = pytest.importorskip("torch", reason="needs torch: see docs/pytorch.md")


class Running:
    """An object whose pickle makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    program = torch.export.export(torch.nn.Linear(4, 3).eval(), (torch.ones(2, 4),))
    path = tmp_path / "linear.pt2"
    torch.export.save(program, path)
    return path


def changed(archive: Path, name: str, contents: bytes) -> Path:
    """The archive with a part of it, which may be there or not, of other contents."""
    made = archive.with_name("changed.pt2")
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        parts = {member: old.read(member) for member in old.namelist()} | {f"{root}/{name}": contents}
        for member, data in parts.items():
            new.writestr(member, data)
    return made


def test_a_program_comes_back(archive: Path) -> None:
    module, _ = from_pytorch(archive)
    data = np.ones((2, 4), "float32")
    expected = torch.export.load(archive).module()(torch.from_numpy(data)).detach().numpy()
    np.testing.assert_allclose(relay.interpret(module, [data])[0], expected, rtol=1e-5, atol=1e-6)


def test_pickled_inputs_do_not_run(archive: Path, tmp_path: Path) -> None:
    pickled = io.BytesIO()
    torch.save((Running(tmp_path / "ran"),), pickled)
    with pytest.raises(ModelError, match="cannot be read"):
        from_pytorch(changed(archive, "data/sample_inputs/model.pt", pickled.getvalue()))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["constants/opaque_obj_0", "constants/custom_obj_0", "aotinductor/model/code.so"])
def test_objects_and_native_code_are_refused(archive: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="objects and native code, which are never read"):
        from_pytorch(changed(archive, f"data/{name}", pickle.dumps(Running(tmp_path / "ran"))))
    assert not (tmp_path / "ran").exists()
