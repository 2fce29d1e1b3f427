"""Models for OpenCL as C programs, compiled by this machine's compiler and run by PoCL, beside the processor."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.backend.gpu.test_models import module, normal, weights
from tests.driver.cuda_library import cuda_library
from tests.runtime.gpu.emulating_driver import EmulatingDevice, EmulatingDriver
from tilewright import relay
from tilewright.backend.gpu import architectures
from tilewright.compile import export_source
from tilewright.driver.model.build import build_model
from tilewright.errors import EnvironmentError_, UnsupportedError
from tilewright.relay.ir.expr import Expr
from tilewright.runtime.gpu import nvrtc
from tilewright.runtime.gpu.noted_steps import codes_for
from tilewright.target import Target

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


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(2, 3)
    branch = module(lambda v: relay.If(relay.less(relay.sum(v), relay.const(np.float32(0))), v, relay.exp(v)), x)
    with pytest.raises(UnsupportedError, match=r"straight graphs, and this model needs .* for a branch"):
        export_source(branch, tmp_path / "model.c", target="opencl")
    with pytest.raises(UnsupportedError, match="and the target is vulkan"):
        export_source(module(relay.exp, x), tmp_path / "model.c", target="vulkan")
    with pytest.raises(UnsupportedError, match="-emulate=1 runs them on this processor"):
        export_source(module(relay.exp, x), tmp_path / "model.c", target="cuda -emulate=1")
    rows = relay.var("x", shape=(tw.te.size_var("n"), 3))
    with pytest.raises(UnsupportedError, match="C source for opencl has the launches of fixed sizes: fix them"):
        export_source(
            relay.IRModule.from_expr(relay.Function([rows], relay.exp(rows))), tmp_path / "model.c", target="opencl"
        )
    monkeypatch.setattr(architectures, "machine_code", lambda *_, **__: {})
    with pytest.raises(EnvironmentError_, match="holds machine code, and NVRTC, which makes it, is not installed"):
        export_source(module(relay.exp, x), tmp_path / "model.c", target="cuda -arch=sm_80")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def layers() -> relay.IRModule:
    """A module of two kernels."""
    weight = weights(10, 24)
    return module(lambda x: relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, weight))), normal(2, 24))


class _Gpu(EmulatingDriver):
    """A stand-in of a compute capability, which notes how the machine code begins that it loads."""

    def __init__(self, capability: tuple[int, int]) -> None:
        super().__init__()
        self.capability, self.images = capability, list[bytes]()

    def _cuDeviceGetAttribute(self, pointer: int, attribute: int, device: int) -> None:
        ctypes.c_int.from_address(pointer).value = self.capability[attribute - 75]

    def _cuModuleLoadData(self, pointer: int, data: int) -> int:
        self.images.append(ctypes.string_at(data, 4))
        return super()._cuModuleLoadData(pointer, data)


@pytest.fixture(scope="module")
def library(layers: relay.IRModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """C source for two architectures, compiled."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    try:
        nvrtc.version()
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("cuda")
    (source, _) = export_source(layers, folder / "model.c", target="cuda -arch=sm_80,sm_90a")
    flags = ["-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-ldl"]
    subprocess.run(["cc", *flags, str(source), "-o", str(folder / "model.so")], check=True)
    return folder / "model.so"


@pytest.fixture(scope="module")
def emulated(layers: relay.IRModule) -> _Gpu:
    """A stand-in that has the kernels."""
    if shutil.which("c++") is None:
        pytest.skip("emulation needs a C++ compiler")
    driver = _Gpu((8, 0))
    for code in codes_for(build_model(layers, Target("cuda -arch=sm_80")).object_code):
        EmulatingDevice(driver).compile(code.source, code.kernel_names)
    return driver


def _run(library: Path, folder: Path, x: np.ndarray, y: np.ndarray, times: int = 1) -> tuple[int, str]:
    """Run a library that no driver was opened by before; the last code, and its text."""
    model = ctypes.CDLL(str(shutil.copy(library, folder / "own.so")))
    model.tilewright_model_error_text.restype = ctypes.c_char_p
    addresses = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, y)]
    workspace = ctypes.create_string_buffer(64)
    codes = [model.tilewright_model(*addresses, workspace, 1) for _ in range(times)]
    return codes[-1], model.tilewright_model_error_text(codes[-1]).decode()


@pytest.mark.parametrize("capability, begins", [((8, 6), b"\x7fELF"), ((9, 0), b"\x7fELF"), ((10, 0), b"//")])
def test_c_source_for_cuda(
    layers: relay.IRModule,
    library: Path,
    emulated: _Gpu,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    begins: bytes,
) -> None:
    driver = _Gpu(capability)
    driver.kernels, driver.emulated = emulated.kernels, emulated.emulated
    monkeypatch.setenv("TILEWRIGHT_CUDA_LIBRARY", str(cuda_library(tmp_path, driver)))
    x, y = normal(2, 24), np.empty((2, 10), np.float32)
    assert _run(library, tmp_path, x, y, times=2)[0] == 0
    np.testing.assert_allclose(y, tw.compile(layers)(x), rtol=1e-4, atol=1e-6)
    names = driver.names()
    assert driver.images and all(image.startswith(begins) for image in driver.images)
    assert (names.count("cuMemAlloc_v2"), names.count("cuGraphLaunch")) == (1, 2)
    assert names.count("cuLaunchKernel") == names.count("cuModuleGetFunction") == 2


@pytest.mark.parametrize(
    "capability, failing, text",
    [
        ((7, 5), "", "none of the model's machine code runs on this GPU"),
        ((8, 0), "cuModuleLoadData", "none of the model's machine code runs on this GPU"),
        ((8, 0), "cuInit", "the NVIDIA driver finds no GPU"),
        ((8, 0), "cuMemAlloc_v2", "refused memory, a kernel or a launch"),
        ((8, 0), "library", "there is no NVIDIA driver of CUDA 12.0 or newer"),
    ],
)
def test_what_a_driver_refuses_has_a_code_with_a_text(
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capability: tuple[int, int],
    failing: str,
    text: str,
) -> None:
    driver = _Gpu(capability)
    driver.fail[failing] = 100
    path = tmp_path / "absent.so" if failing == "library" else cuda_library(tmp_path, driver)
    monkeypatch.setenv("TILEWRIGHT_CUDA_LIBRARY", str(path))
    code, found = _run(library, tmp_path, normal(2, 24), np.empty((2, 10), np.float32))
    assert code and text in found
