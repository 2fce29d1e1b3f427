"""The worker of a board as a program: C that a compiler of the system, or that of `ziglang`, makes for its machine."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tilewright.errors import EnvironmentError_
from tilewright.rpc.board.library import source
from tilewright.runtime.export import find_linker, move_into_place
from tilewright.runtime.processor import host_architecture
from tilewright.target import Target

_FILES = ("board.h", "json.h", "calls.h", "worker.c")
_OPTIONS = ("-O2", "-std=gnu11", "-Wall", "-rdynamic")


def build_worker(path: Path, target: Target | str) -> Path:
    """Compile the worker for the machine of `target` into the file `path`. Raises `EnvironmentError_`."""
    architecture = Target(target).architecture
    command = find_linker("" if architecture == host_architecture() else architecture)
    with tempfile.TemporaryDirectory(prefix="tilewright-worker-") as folder:
        for name in _FILES:
            (Path(folder) / name).write_text(source(name))
        words = [*command, *_OPTIONS, "-o", "worker", "worker.c", "-lm", "-ldl", "-pthread"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            output = "\n".join((done.stderr or done.stdout).strip().splitlines()[-10:])
            raise EnvironmentError_(f"compiling the worker for {architecture} failed; the compiler says:\n{output}")
        move_into_place([(Path(folder) / "worker", path)])
    path.chmod(0o755)
    return path
