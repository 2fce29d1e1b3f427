"""Rights of a confined process, tried from within one; what the machine does not allow is skipped by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import json, os, socket, subprocess, sys, threading
from pathlib import Path
import numpy as np
from tilewright.rpc.sandbox import Limits, confine
folder, secret = Path(sys.argv[1]), sys.argv[2]
measures = confine(folder, [], Limits(2 << 30, file_bytes=1 << 20))

def tried(action):
    try:
        action()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return "done"

def thread():
    one = threading.Thread(target=lambda: None)
    one.start()
    one.join()

def write(path, size=1):
    with open(path, "wb") as file:
        file.write(bytes(size))

found = {
    "socket": tried(socket.socket),
    "program": tried(lambda: subprocess.run(["true"])),
    "fork": tried(os.fork),
    "signal": tried(lambda: os.kill(1, 0)),
    "write outside": tried(lambda: write(folder.parent / "outside")),
    "read outside": tried(lambda: open(secret).read()),
    "write inside": tried(lambda: write(folder / "inside")),
    "large file": tried(lambda: write(folder / "large", 2 << 20)),
    "memory": tried(lambda: np.ones(4 << 30, np.int8)),
    "thread": tried(thread),
    "import": tried(lambda: __import__("wave")),
}
print(json.dumps([measures, found]))
"""


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """(measures, what was tried and how it ended) of a confined process."""
    position = tmp_path_factory.mktemp("sandbox")
    own = position / "own"
    own.mkdir()
    own.chmod(0o777)
    (position / "secret").write_text("x")
    words = [sys.executable, "-c", _PROGRAM, str(own), str(position / "secret")]
    # a file that grows beyond its limit is an error, not a signal, for Python programs
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=position)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "measure, action, ends",
    [
        ("limits", "large file", ("OSError",)),
        ("limits", "memory", ("MemoryError", "_ArrayMemoryError")),
        ("files", "write outside", ("PermissionError",)),
        ("files", "read outside", ("PermissionError",)),
        ("calls", "socket", ("PermissionError",)),
        ("calls", "program", ("PermissionError",)),
        ("calls", "fork", ("PermissionError",)),
        ("calls", "signal", ("PermissionError",)),
    ],
)
def test_a_measure_that_is_on_holds(inside, measure, action, ends):
    measures, found = inside
    if measures[measure] != "on":
        pytest.skip(f"this machine does not allow it: {measures[measure]}")
    assert found[action] in ends


@pytest.mark.parametrize("action", ["write inside", "thread", "import"])
def test_what_a_model_needs_still_works(inside, action):
    assert inside[1][action] == "done"


def test_each_measure_says_whether_it_is_on(inside):
    assert set(inside[0]) == {"limits", "network", "user", "files", "calls"}
    assert inside[0]["limits"] == "on" and Path("/proc").exists()
