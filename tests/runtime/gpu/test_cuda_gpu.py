"""The CUDA device on a real GPU; what breaks a context runs in a process of its own."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.array import DeviceArray
from tilewright.runtime.gpu.cuda import CudaDevice, cuda_device
from tilewright.runtime.gpu.cuda_dlpack import current_stream
from tilewright.runtime.gpu.nvrtc import compile_cubin, compile_ptx

SOURCE = """
extern "C" __global__ void scale(const float* a, float* b, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i] * factor;
}
extern "C" __global__ void reversed(const float* a, float* b) {
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) tile[i] = a[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) b[i] = tile[16383 - i];
}
extern "C" __global__ void outside(float* a) { *(volatile float*)(size_t)8 = a[0]; }
extern "C" __global__ void forever(float* a) { while (*(volatile float*)a < 1.0f) ; }
"""
NAMES = ["scale", "reversed", "outside", "forever"]


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("no NVIDIA GPU: libcuda.so.1 is not there")
    return cuda_device()


@pytest.fixture(scope="module")
def kernels(device: CudaDevice) -> dict[str, Any]:
    return device.compile(SOURCE, NAMES)


def _scale(kernel: Any, source: Any, target: Any, factor: float, n: int) -> Launch:
    return Launch(kernel, (-(-n // 256), 1, 1), (256, 1, 1), [source, target, np.float32(factor), np.int32(n)])


def _read(device: CudaDevice, buffer: Any, n: int) -> np.ndarray[Any, Any]:
    made = np.empty(n, np.float32)
    device.read(buffer, made)
    return made


@pytest.mark.parametrize("nbytes", [1, 4 << 20, (13 << 20) + 3])
def test_bytes_copied_to_the_device_come_back(device: CudaDevice, nbytes: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, nbytes, np.uint8)
    buffer, back = device.allocate(nbytes), np.empty_like(data)
    device.write(buffer, data)
    device.read(buffer, back)
    np.testing.assert_array_equal(back, data)


def test_a_recording_runs_a_thousand_times(device: CudaDevice, kernels: dict[str, Any]) -> None:
    n = 1 << 20
    x = np.arange(n, dtype=np.float32)
    arena = device.allocate(16 << 20)
    a, b, c = (device.view(arena, i * 4 * n, 4 * n) for i in range(3))
    device.write(a, x)
    scale = kernels["scale"]
    recording = device.record([_scale(scale, a, b, 2, n), Copy(b, c, 4 * n), _scale(scale, c, a, 1, n)])
    recording.run()
    recording.run()
    np.testing.assert_array_equal(_read(device, a, n), 4 * x)
    times = recording.times()
    print("seconds of scale, copy, scale over 4 MiB:", times)
    assert len(times) == 3
    assert all(0 < t < 1e-2 for t in times)
    other = device.allocate(4 * n)
    device.write(other, 10 * x)
    recording.update([_scale(scale, other, b, 2, n), Copy(b, c, 4 * n), _scale(scale, c, a, 1, n)])
    recording.run()
    np.testing.assert_array_equal(_read(device, a, n), 20 * x)
    with device.on_stream(0):
        recording.run()
        device.synchronize()
    for _ in range(1000):
        recording.run()
    device.synchronize()


def test_dynamic_shared_memory(device: CudaDevice, kernels: dict[str, Any]) -> None:
    x = np.arange(16384, dtype=np.float32)
    a, b = device.allocate(x.nbytes), device.allocate(x.nbytes)
    device.write(a, x)
    kernels["reversed"].launch((1, 1, 1), (256, 1, 1), [a, b], 65536)
    np.testing.assert_array_equal(_read(device, b, x.size), x[::-1])
    device.record([Launch(kernels["reversed"], (1, 1, 1), (256, 1, 1), [b, a], 65536)]).run()
    np.testing.assert_array_equal(_read(device, a, x.size), x)
    with pytest.raises(EnvironmentError_):
        kernels["reversed"].launch((1, 1, 1), (256, 1, 1), [a, b], 1 << 20)
    device.synchronize()  # the device takes more work


def test_machine_code_of_another_architecture_is_refused(device: CudaDevice) -> None:
    assert device.load(compile_ptx(SOURCE, "sm_80"), ["scale"])["scale"].facts()["registers"] > 0
    with pytest.raises(EnvironmentError_, match="does not load this cubin"):
        device.load(compile_cubin(SOURCE, "sm_75"), ["scale"])


def test_facts_of_the_device_are_plausible(device: CudaDevice) -> None:
    facts = device.facts()
    print(facts)
    assert facts["multiprocessors"] > 0
    assert 1e10 < facts["memory_bandwidth"] < 1e14
    free, total = device.memory()
    assert 0 < free <= total


def test_out_of_memory(device: CudaDevice, kernels: dict[str, Any]) -> None:
    free, total = device.memory()
    with pytest.raises(EnvironmentError_, match="out of device memory"):
        device.allocate(2 * total)
    held = device.allocate(free // 2)
    assert device.memory()[0] < free
    del held
    assert abs(device.memory()[0] - free) < 64 << 20
    kernels["scale"].launch((1, 1, 1), (1, 1, 1), [device.allocate(4)] * 2 + [np.float32(1), np.int32(1)])
    device.synchronize()


def test_torch_tensors_are_shared_in_both_directions(device: CudaDevice, kernels: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    x = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            y = x + 1
            handle = current_stream(y, 0)
            assert handle == stream.cuda_stream
            with device.on_stream(handle):
                taken = DeviceArray.from_dlpack(y, device)
                assert taken.buffer.pointer == y.data_ptr()
                result = DeviceArray(device, taken.shape, taken.dtype)
                device.record([_scale(kernels["scale"], taken.buffer, result.buffer, 3, 1 << 20)]).run()
                back = torch.from_dlpack(result)
            assert back.data_ptr() == result.buffer.pointer
            assert torch.equal(back, (x + 1) * 3)
    own = DeviceArray.from_dlpack(x * 2, device)  # without torch's stream: ours waits for it
    np.testing.assert_array_equal(own.numpy(), 2 * x.cpu().numpy())
    half = DeviceArray.from_dlpack(x[:16].to(torch.bfloat16), device)
    np.testing.assert_array_equal(half.numpy().astype(np.float32), np.arange(16))


_BREAKING = """
import sys
sys.path[:0] = {path!r}
import numpy as np
from tests.runtime.gpu.test_cuda_gpu import NAMES, SOURCE
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.cuda import cuda_device
device = cuda_device()
kernel = device.compile(SOURCE, NAMES)[{name!r}]
buffer = device.allocate(1 << 28)
device.write(buffer, np.zeros(4, np.float32))
kernel.launch((1, 1, 1), (1, 1, 1), [buffer])
try:
    device.synchronize()
except EnvironmentError_ as error:
    print(error)
try:
    device.allocate(8)
except EnvironmentError_ as error:
    print("then:", error)
del buffer, kernel
try:
    again = cuda_device()
    print("again:", again is not device, again.memory(), len(again.compile(SOURCE, NAMES)))
except EnvironmentError_ as error:
    print("again:", error)
print("alive")
"""


@pytest.mark.parametrize(
    ("name", "message"), [("outside", "after the kernels outside were queued"), ("forever", "not done after 2 seconds")]
)
def test_a_kernel_that_breaks_the_context(
    device: CudaDevice, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEVICE_TIMEOUT", "2")
    command = [sys.executable, "-c", _BREAKING.format(path=sys.path, name=name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    print(done.stdout, done.stderr)
    assert message in done.stdout
    assert "then:" in done.stdout
    assert "alive" in done.stdout
