"""Executables and modules travel by pickle: into other processes, with or without a compiler there, and as copies."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import perceptron
from tilewright import te
from tilewright.backend import build


@pytest.mark.parametrize("executor", ["graph", "aot", "vm", "debug"])
def test_an_executable_comes_back(executor: str) -> None:
    exe = tw.compile(perceptron("n"), threads=2, executor=executor)
    x = np.random.default_rng(0).standard_normal((5, 8), dtype=np.float32)
    for made in (pickle.loads(pickle.dumps(exe)), copy.deepcopy(exe)):
        assert type(made) is type(exe) and made.threads == exe.threads and made.manifest == exe.manifest
        assert np.array_equal(made(x), exe(x))


def test_it_runs_in_a_process_without_a_compiler(tmp_path: Path) -> None:
    exe = tw.compile(perceptron(2), threads=1)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(exe))
    program = (
        "import pickle, sys, numpy as np\n"
        "exe = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "print(*exe(np.ones((2, 8), np.float32))[0])\n"
        "assert 'llvmlite' not in sys.modules and 'tilewright.compile' not in sys.modules\n"
    )
    source = os.path.dirname(os.path.dirname(tw.__file__))
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "model.pickle"],
        env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.allclose([float(part) for part in done.stdout.split()], exe(np.ones((2, 8), np.float32))[0])


def test_a_module_comes_back() -> None:
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i] * 2, name="y")
    module = build(te.lower(te.create_schedule(y.op), [x, y], name="double"))
    data, result = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    pickle.loads(pickle.dumps(module))["double"](data, result)
    assert np.array_equal(result, 2 * data)
