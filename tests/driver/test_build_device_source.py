"""Models for OpenCL as C programs, compiled by this machine's compiler and run by PoCL, beside the processor."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.backend.gpu.test_models import module, normal, weights
from tilewright import relay
from tilewright.compile import export_source
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Expr

EXAMPLE = Path(__file__).parents[2] / "examples" / "call_from_c.c"


def _network(x: Expr) -> Expr:
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weights(8, 3, 3, 3), padding=(1, 1)), weights(8)))
    pooled = relay.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))
    return relay.nn.softmax(relay.nn.dense(relay.reshape(pooled, (1, 128)), weights(10, 128)))


def _library() -> str:
    """The OpenCL library of the package pyopencl, which knows of PoCL."""
    pyopencl = pytest.importorskip("pyopencl", reason="no OpenCL: pip install 'tilewright[opencl]'")
    found = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libOpenCL*"))
    if not found or not pyopencl.get_platforms():
        pytest.skip("pyopencl is installed without an OpenCL library of its own, or without a driver")
    return str(found[0])


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_c_program_launches_the_kernels(tmp_path: Path) -> None:
    library, x = _library(), normal(1, 3, 8, 8)
    mod = module(_network, x)
    files = export_source(mod, tmp_path / "model.c", target="opencl")
    assert [file.name for file in files] == ["model.c", "model.h"]
    program = tmp_path / "program"
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", str(EXAMPLE), str(files[0])]
    subprocess.run([*command, "-D_DEFAULT_SOURCE", "-ldl", "-lm", "-o", str(program)], check=True)
    x.tofile(tmp_path / "x.bin")
    run = [str(program), str(tmp_path / "x.bin"), str(x.size), "10"]

    def outcome(path: str) -> subprocess.CompletedProcess[str]:
        # where that library looks for PoCL
        folder = Path(library).parent
        own = {"PYOPENCL_HOME": str(folder.parent), "LD_LIBRARY_PATH": str(folder), "TILEWRIGHT_OPENCL_LIBRARY": path}
        return subprocess.run(run, env=os.environ | own, capture_output=True, text=True, timeout=120, check=False)

    done, lacking = outcome(library), outcome("/nowhere.so")
    assert done.returncode == 0, done.stderr
    found = np.array(done.stdout.split(), np.float32)[None]
    np.testing.assert_allclose(found, tw.compile(mod)(x), rtol=1e-4, atol=1e-6)
    assert lacking.returncode != 0 and "there is no OpenCL library" in lacking.stderr + lacking.stdout


def test_what_is_refused(tmp_path: Path) -> None:
    x = normal(2, 3)
    branch = module(lambda v: relay.If(relay.less(relay.sum(v), relay.const(np.float32(0))), v, relay.exp(v)), x)
    with pytest.raises(UnsupportedError, match=r"straight graphs, and this model needs .* for a branch"):
        export_source(branch, tmp_path / "model.c", target="opencl")
    with pytest.raises(UnsupportedError, match="and the target is cuda"):
        export_source(module(relay.exp, x), tmp_path / "model.c", target="cuda")
    assert not list(tmp_path.iterdir())
