"""Generated kernels under Oclgrind, which follows every access of every thread and reports data races."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("oclgrind") is None, reason="needs oclgrind (Debian: apt install oclgrind)"),
]
ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
import numpy as np
from tests.codegen.source.programs import tiled_gemm
from tilewright import te
from tilewright.codegen.build_device import emit_device
from tilewright.runtime.gpu.module import DeviceModule
from tilewright.runtime.gpu.opencl import opencl_device
from tilewright.target import Target

s, args = tiled_gemm(40, 32, 16)
text, functions = emit_device([te.lower(s, args, name="gemm")], Target("opencl"))
assert text.count("barrier(CLK_LOCAL_MEM_FENCE);") > 1
if "without" in sys.argv:
    text = text.replace("barrier(CLK_LOCAL_MEM_FENCE);", "")
rng = np.random.default_rng(0)
a, b = rng.standard_normal((40, 16)).astype("float32"), rng.standard_normal((16, 32)).astype("float32")
c = np.zeros((40, 32), "float32")
device = opencl_device()
assert "oclgrind" in device.name.lower(), device.name
DeviceModule(device, text, functions, ("opencl", False))["gemm"](a, b, c)
print("right" if np.allclose(c, a @ b, rtol=1e-4, atol=1e-4) else "wrong")
"""


def under_oclgrind(*arguments: str) -> str:
    """The output of the program and of Oclgrind."""
    pytest.importorskip("pyopencl")
    command = ["oclgrind", "--data-races", sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def test_a_tiled_product_has_no_data_races():
    out = under_oclgrind()
    assert "right" in out and "data race" not in out.lower(), out[-2000:]


def test_without_its_barriers_it_has():
    assert "data race" in under_oclgrind("without").lower()
