"""Rights of a confined process, tried from within one; what the machine does not allow is skipped by name."""

from __future__ import annotations

import json
import subprocess
import sys
import time
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


_FAMILY = """
import os, signal, socket, subprocess, sys, time
from pathlib import Path
from tilewright.rpc.sandbox import Limits, confine, own_processes
if not own_processes():
    sys.exit(77)
folder = Path(sys.argv[1])
confine(folder, [], Limits(2 << 30), children=True)
assert subprocess.run(["true"]).returncode == 0
child = os.fork()
if child == 0:
    time.sleep(600)
os.kill(child, signal.SIGKILL)
assert os.waitpid(child, 0)[1] == signal.SIGKILL
try:
    os.kill(int(sys.argv[2]), 0)
    sys.exit("it sees a process outside")
except ProcessLookupError:
    pass
try:
    socket.socket()
    sys.exit("it has sockets")
except PermissionError:
    pass
(folder / "a").mkdir()
(folder / "a" / "file").touch()
try:
    (folder / "a" / "file").rename(folder / "file")
except OSError as error:
    assert error.errno == 18, error  # Landlock's first version
if os.fork() == 0:  # a process in a session of its own ends with the rest
    os.setsid()
    (folder / "left").touch()
    time.sleep(3)
    (folder / "outlived").touch()
while not (folder / "left").exists():
    time.sleep(0.01)
sys.exit(5)
"""


def test_a_process_with_children_sees_them_alone_and_ends_with_them(tmp_path: Path) -> None:
    outside = subprocess.Popen(["sleep", "600"])
    try:
        command = [sys.executable, "-c", _FAMILY, str(tmp_path), str(outside.pid)]
        tmp_path.chmod(0o777)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        outside.kill()
        outside.wait()
    if done.returncode == 77:
        pytest.skip("the system allows no process namespaces")
    assert done.returncode == 5, done.stderr
    time.sleep(4)
    assert not (tmp_path / "outlived").exists()
