"""The memory that a model takes in an engine: what loading and running it adds to a process of its own.

python -m tilewright.cli.memory ENGINE MODEL INPUTS THREADS      # prints bytes
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.cli.reference import reference_of
from tilewright.errors import EnvironmentError_
from tilewright.frontend.reference import import_engine
from tilewright.load import load
from tilewright.runtime.model import Model

_STATUS = Path("/proc/self/statm")
OURS = "tilewright"


def memory_of(executable: Model, path: str, engines: Sequence[str], inputs: Mapping[str, Any]) -> dict[str, int]:
    """Resident bytes that the model at `path` adds, by engine, ours as a saved artifact; without those that fail.

    Raises EnvironmentError_ where the system does not tell.
    """
    if not _STATUS.exists():
        raise EnvironmentError_(f"--memory reads {_STATUS}, which this system does not have")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        artifact, data = Path(folder) / "model.tw", Path(folder) / "inputs"
        executable.save(artifact, durable=False)
        data.write_bytes(pickle.dumps({name: np.asarray(array) for name, array in inputs.items()}))
        for engine in (OURS, *engines):
            model = str(artifact) if engine == OURS else path
            command = [sys.executable, "-m", "tilewright.cli.memory", engine, model, str(data), str(executable.threads)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                found[engine] = int(done.stdout.split()[-1])
    return found


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(engine: str, model: str, data: str, threads: str) -> None:
    """Load, run twice, print what that added."""
    inputs = pickle.loads(Path(data).read_bytes())  # written by `memory_of` for this process
    if engine in ("onnxruntime", "openvino"):
        import_engine(engine)
    before = resident()
    if engine == OURS:
        loaded = load(model, threads=int(threads))
        run = lambda: loaded.run(inputs)  # noqa: E731
    else:
        run = reference_of(model).open(engine, inputs, int(threads), exact=False).run
    results = [run() for _ in range(2)]
    print(resident() - before, flush=True)
    del results


if __name__ == "__main__":
    main(*sys.argv[1:])
