"""Files that are no ordinary ones: closed streams, open descriptors, pipes as models, folders that are not there."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tilewright as tw
from tests.cli.conftest import Command
from tilewright.cli.main import guarded
from tilewright.errors import ArtifactError, ModelError
from tilewright.support import memory_limit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and named pipes")


@pytest.fixture
def artifact(model: Path, tmp_path: Path) -> Path:
    tw.compile(model).save(tmp_path / "saved.tw")
    return tmp_path / "saved.tw"


@pytest.mark.parametrize("closed", [">&-", "<&- >&-", ">&- 2>&-"])
def test_closed_streams_are_no_fault(closed: str, artifact: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    command = f'exec "{sys.executable}" -m tilewright run "{artifact}" --output "{out}" {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert out.read_bytes().startswith(b"PK"), "nothing else was written into the file"


def test_an_artifact_is_written_into_an_open_file(tilewright: Command, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "target"
    path.write_bytes(b"head")
    with path.open("ab") as file:
        outcome = tilewright("compile", model, "-o", f"/proc/self/fd/{file.fileno()}")
    assert outcome.status == 0 and outcome.out == "" and "written, compiled in" in outcome.err
    written = path.read_bytes()
    assert written.startswith(b"head\x89TILEWRIGHT")
    (tmp_path / "cut.tw").write_bytes(written[4:])
    assert tw.load(tmp_path / "cut.tw", check=True) is not None


def test_a_descriptor_that_is_not_open_is_refused(tilewright: Command, model: Path) -> None:
    outcome = tilewright("compile", model, "-o", "/proc/self/fd/987")
    assert outcome.status == 2 and outcome.err == "error: cannot write /proc/self/fd/987: Bad file descriptor\n"


def test_a_folder_that_is_not_there_is_no_file(tilewright: Command, model: Path, tmp_path: Path) -> None:
    outcome = tilewright("compile", model, "-o", f"{tmp_path}/x.tw/")
    assert outcome.status == 2 and "x.tw/: it names a directory, which is not there" in outcome.err
    assert not (tmp_path / "x.tw").exists()


def test_a_pipe_is_no_model(tilewright: Command, model: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = tilewright("run", pipe)  # and nobody waits for who would write into it
    assert outcome.status == 2 and "it is a pipe or a device, and models are read from files" in outcome.err
    with pytest.raises(ModelError, match="it is a pipe or a device"):
        tw.compile(pipe)
    with pytest.raises(ArtifactError, match="it is a pipe or a device"):
        tw.load(pipe)
    read, write = os.pipe()
    writer = threading.Thread(target=lambda: (os.write(write, model.read_bytes()), os.close(write)))
    writer.start()
    assert "it is a pipe or a device" in tilewright("compile", f"/dev/fd/{read}", "-o", tmp_path / "x.tw").err
    writer.join(20)
    os.close(read)


def test_what_is_compiled_already_is_told(artifact: Path) -> None:
    for given in (artifact, artifact.read_bytes()):
        with pytest.raises(ModelError, match=r"is compiled already: it is an artifact, which tilewright.load"):
            tw.compile(given)


def fail() -> None:
    raise OSError("Could not find/load shared object file")


def test_a_limit_of_the_address_space_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 30, resource.RLIM_INFINITY))
    assert guarded(fail) == 2
    told = capsys.readouterr().err
    assert "shared object file: the address space is limited to 1 GiB (ulimit -v)" in told and "fault" not in told
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert memory_limit.address_space_text() == "" and guarded(fail) == 70
