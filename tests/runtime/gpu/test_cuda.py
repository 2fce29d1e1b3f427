"""The CUDA device on a stand-in for the driver: the order of calls, the data they move, and errors."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

from tests.runtime.gpu.fake_driver import FakeDriver
from tilewright.errors import EnvironmentError_, InternalError, TargetError
from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.cuda import CudaDevice, cuda_device
from tilewright.runtime.gpu.cuda_driver import Driver, DriverError
from tilewright.runtime.gpu.cuda_staging import SLOT

ILLEGAL_ADDRESS, OUT_OF_MEMORY = 700, 2


def _scale(source: int, target: int, factor: float, count: int) -> None:
    kind = ctypes.c_float * count
    kind.from_address(target)[:] = [x * factor for x in kind.from_address(source)]


@pytest.fixture
def fake() -> FakeDriver:
    return FakeDriver({"scale": (_scale, (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_float, ctypes.c_int))})


@pytest.fixture
def device(fake: FakeDriver) -> CudaDevice:
    return CudaDevice(0, Driver(fake))


def _launch(kernel: Any, source: Any, target: Any, factor: float, count: int = 10, **options: Any) -> Launch:
    return Launch(kernel, (1, 1, 1), (32, 1, 1), [source, target, np.float32(factor), np.int32(count)], **options)


def _values(device: CudaDevice, buffer: Any, count: int = 10) -> np.ndarray[Any, Any]:
    made = np.empty(count, np.float32)
    device.read(buffer, made)
    return made


@pytest.mark.parametrize("nbytes", [0, 1, SLOT, 3 * SLOT + 5])
def test_copies_of_any_size(device: CudaDevice, nbytes: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, nbytes, np.uint8)
    buffer = device.allocate(nbytes)
    device.write(buffer, data)
    back = np.empty_like(data)
    device.read(buffer, back)
    np.testing.assert_array_equal(back, data)


def test_a_slot_is_not_filled_before_the_gpu_has_read_it(device: CudaDevice, fake: FakeDriver) -> None:
    fake.calls.clear()
    device.write(device.allocate(3 * SLOT), np.zeros(3 * SLOT, np.uint8))
    made = [(name, args[-1] if name == "cuEventRecord" else args[0]) for name, *args in fake.calls]
    events = [name for name, _ in made if name in ("cuEventQuery", "cuMemcpyHtoDAsync_v2", "cuEventRecord")]
    assert events == ["cuEventQuery", "cuMemcpyHtoDAsync_v2", "cuEventRecord"] * 3


def test_views_copies_and_launches(device: CudaDevice) -> None:
    x = np.arange(10, dtype=np.float32)
    arena = device.allocate(4096)
    a, b = device.view(arena, 256, 40), device.view(device.view(arena, 1024, 512), 256, 40)
    assert b.pointer == arena.pointer + 1280
    device.write(a, x)
    kernel = device.load(b"\x7fELF", ["scale"])["scale"]
    kernel.launch((1, 1, 1), (32, 1, 1), [a, b, np.float32(2), np.int32(10)])
    np.testing.assert_array_equal(_values(device, b), 2 * x)
    device.copy(b, a, 20)
    np.testing.assert_array_equal(_values(device, a), np.r_[2 * x[:5], x[5:]])
    for offset, nbytes in [(4, 8), (4096, 1), (-256, 8)]:
        with pytest.raises(InternalError, match="CUDA Fake GPU"):
            device.view(arena, offset, nbytes)


def test_a_view_keeps_the_memory(device: CudaDevice, fake: FakeDriver) -> None:
    view = device.view(device.allocate(4096), 256, 16)
    gc.collect()
    assert fake.used == 4096
    del view
    assert fake.used == 0


def test_a_recording_is_one_graph(device: CudaDevice, fake: FakeDriver) -> None:
    x = np.arange(10, dtype=np.float32)
    a, b, c = (device.allocate(40) for _ in range(3))
    device.write(a, x)
    kernel = device.load(b"\x7fELF", ["scale"])["scale"]
    recording = device.record([_launch(kernel, a, b, 3), Copy(b, c, 40), _launch(kernel, c, a, 1)])
    fake.calls.clear()
    recording.run()
    recording.run()
    device.synchronize()
    assert fake.names() == [
        "cuStreamBeginCapture_v2", "cuLaunchKernel", "cuMemcpyDtoDAsync_v2", "cuLaunchKernel", "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags", "cuGraphDestroy", "cuGraphLaunch", "cuGraphLaunch",
    ]  # fmt: skip
    np.testing.assert_array_equal(_values(device, a), 9 * x)
    assert recording.times() == pytest.approx([0.25e-3] * 3)
    np.testing.assert_array_equal(_values(device, a), 27 * x)
    del recording
    gc.collect()
    assert not fake.graphs
    assert device.record([]).times() == []


def test_a_recording_takes_other_buffers(device: CudaDevice, fake: FakeDriver) -> None:
    x = np.arange(10, dtype=np.float32)
    a, b, c = (device.allocate(40) for _ in range(3))
    device.write(a, x)
    device.write(c, 10 * x)
    kernel = device.load(b"\x7fELF", ["scale"])["scale"]
    recording = device.record([_launch(kernel, a, b, 2)])
    recording.run()
    fake.calls.clear()
    recording.update([_launch(kernel, c, b, 2)])
    recording.run()
    np.testing.assert_array_equal(_values(device, b), 20 * x)
    assert "cuGraphInstantiateWithFlags" not in fake.names()
    recording.update([_launch(kernel, a, b, 2), Copy(b, c, 40)])  # another number of steps: another graph
    recording.run()
    np.testing.assert_array_equal(_values(device, c), 2 * x)
    assert fake.names().count("cuGraphInstantiateWithFlags") == 1 == len(fake.graphs)


def test_what_is_freed_during_a_capture_is_freed_after_it(device: CudaDevice, fake: FakeDriver) -> None:
    fake.calls.clear()
    held = [device.allocate(8)]
    with device.capturing():
        held.clear()
        assert "cuMemFree_v2" not in fake.names()
    assert "cuMemFree_v2" in fake.names()


def test_a_failed_capture_is_ended(device: CudaDevice, fake: FakeDriver) -> None:
    a = device.allocate(40)
    kernel = device.load(b"\x7fELF", ["scale"])["scale"]
    recording = device.record([_launch(kernel, a, a, 2)])
    fake.fail["cuLaunchKernel"] = 1
    with pytest.raises(DriverError, match=r"kernel scale, grid \(1, 1, 1\), block \(32, 1, 1\)"):
        recording.run()
    assert fake.capturing is None
    assert not fake.graphs
    fake.fail.clear()
    recording.run()


def test_work_waits_for_a_foreign_stream_by_an_event(device: CudaDevice, fake: FakeDriver) -> None:
    a = device.allocate(40)
    kernel = device.load(b"\x7fELF", ["scale"])["scale"]
    recording = device.record([_launch(kernel, a, a, 2)])
    fake.calls.clear()
    with device.on_stream(0):  # the default stream, which cannot be captured
        recording.run()
        kernel.launch((1, 1, 1), (1, 1, 1), [a, a, np.float32(2), np.int32(1)])
    streams = {name: args for name, *args in fake.calls}
    assert streams["cuStreamBeginCapture_v2"][0] == device.own_stream
    assert streams["cuGraphLaunch"][1] is None  # NULL
    assert streams["cuLaunchKernel"][8] is None
    assert device.stream == device.own_stream
    device.wait_for(0x77)
    assert [name for name in fake.names() if name.startswith(("cuEventRecord", "cuStreamWait"))] == [
        "cuEventRecord", "cuStreamWaitEvent",
    ]  # fmt: skip


def test_the_callers_context_stays_current(device: CudaDevice, fake: FakeDriver) -> None:
    fake.current = 0xAA
    device.allocate(8)
    assert fake.current == 0xAA
    fake.current = None
    device.allocate(8)
    assert fake.current == 0xC0


def test_much_shared_memory_is_asked_for_once(device: CudaDevice, fake: FakeDriver) -> None:
    a = device.allocate(40)
    kernel = device.load(b"\x7fELF", ["scale"])["scale"]
    for shared in (48 << 10, 100 << 10, 64 << 10):
        kernel.launch((1, 1, 1), (1, 1, 1), [a, a, np.float32(2), np.int32(1)], shared)
    asked = [args for name, *args in fake.calls if name == "cuFuncSetAttribute"]
    assert [args[1:] for args in asked] == [[8, 100 << 10]]


def test_out_of_memory_says_how_much(device: CudaDevice, fake: FakeDriver) -> None:
    held = device.allocate(1 << 29)
    with pytest.raises(EnvironmentError_, match=r"out of device memory: 1,073,741,824 bytes .* 536,870,912 of"):
        device.allocate(1 << 30)
    del held
    assert fake.used == 0
    device.allocate(1 << 29)


def test_memory_in_circles_is_freed_before_it_runs_out(device: CudaDevice, fake: FakeDriver) -> None:
    gc.disable()
    try:
        circle: list[Any] = [device.allocate(1 << 29)]
        circle.append(circle)
        del circle
        held = device.allocate(1 << 30)
        assert held.nbytes == fake.used == 1 << 30
    finally:
        gc.enable()


def test_a_kernel_that_fails_loses_the_device(device: CudaDevice, fake: FakeDriver) -> None:
    a = device.allocate(40)
    kernel = device.load(b"\x7fELF", ["scale"])["scale"]
    kernel.launch((1, 1, 1), (32, 1, 1), [a, a, np.float32(2), np.int32(10)])
    fake.fail["cuStreamQuery"] = ILLEGAL_ADDRESS
    with pytest.raises(EnvironmentError_, match=r"after the kernels scale were queued; .* .compute-sanitizer"):
        device.synchronize()
    assert fake.contexts == 0  # given back: the driver frees its memory
    fake.calls.clear()
    with pytest.raises(EnvironmentError_, match="CUDA_ERROR_700"):
        device.allocate(8)
    del a, kernel
    gc.collect()
    assert fake.calls == []


def test_a_kernel_that_hangs(device: CudaDevice, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEVICE_TIMEOUT", "0.05")
    fake.pending = 3
    device.synchronize()
    device.note(["attention"])
    fake.pending = 1 << 40
    with pytest.raises(EnvironmentError_, match=r"not done after 0.05 seconds; queued last: attention"):
        device.synchronize()
    with pytest.raises(EnvironmentError_, match="TILEWRIGHT_DEVICE_TIMEOUT"):
        device.allocate(8)
    assert fake.contexts == 1  # giving the context back would wait for the kernel


def test_machine_code_for_another_gpu(device: CudaDevice, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.fail["cuModuleLoadData"] = 209
    with pytest.raises(DriverError, match=r"CUDA 12.4\) of CUDA Fake GPU, sm_90, does not load this cubin") as raised:
        device.load(b"\x7fELF...", ["scale"])
    assert raised.value.code == 209
    taken: list[bytes] = []

    def load(binary: bytes, kernels: Any) -> dict[str, Any]:
        taken.append(binary)
        if len(taken) == 1:
            raise DriverError("too new", 222)
        return {}

    monkeypatch.setattr(device, "load", load)
    monkeypatch.setattr("tilewright.runtime.gpu.cuda.compile_cubin", lambda source, arch: b"cubin " + arch.encode())
    monkeypatch.setattr("tilewright.runtime.gpu.cuda.compile_ptx", lambda source, arch: b"ptx " + arch.encode())
    device.compile("", [])
    assert taken == [b"cubin sm_90a", b"ptx sm_90a"]


def test_which_machine_code_fits(device: CudaDevice) -> None:
    def fitting(capability: tuple[int, int], *architectures: str) -> list[str]:
        device.capability = capability
        return device.fitting(architectures)

    every = ("compute_80", "sm_80", "sm_86", "compute_75", "sm_90", "sm_90a", "compute_90a", "sm_100a", "opencl")
    assert fitting((8, 0), *every) == ["sm_80", "compute_80", "compute_75"]
    assert fitting((8, 9), *every) == ["sm_86", "sm_80", "compute_80", "compute_75"]
    assert fitting((9, 0), *every) == ["sm_90a", "sm_90", "compute_90a", "compute_80", "compute_75"]
    assert fitting((10, 0), *every) == ["sm_100a", "compute_80", "compute_75"]
    assert fitting((12, 0), *every) == ["compute_80", "compute_75"]
    assert fitting((7, 0), *every) == []


def test_what_the_driver_says_of_the_gpu(device: CudaDevice) -> None:
    facts = device.facts()
    assert facts["multiprocessors"] == 132
    assert facts["clock_hz"] == 1.98e9
    assert facts["memory_bandwidth"] == pytest.approx(3.352e12, rel=1e-3)
    assert facts["shared_bytes_per_block_optin"] == 232448
    assert device.arch == "sm_90"
    assert device.memory() == (1 << 30, 1 << 30)


def test_the_number_of_a_gpu() -> None:
    fake = FakeDriver(gpus=2)
    assert CudaDevice(1, Driver(fake)).ordinal == 1
    with pytest.raises(TargetError, match="no 'cuda:2': this machine has 2 NVIDIA GPUs"):
        CudaDevice(2, Driver(fake))


def test_an_old_driver() -> None:
    with pytest.raises(EnvironmentError_, match="too old: it has no cuGraphExecUpdate_v2; install"):
        Driver(FakeDriver(missing="cuGraphExecUpdate_v2"))
    fake = FakeDriver()
    fake.fail["cuDevicePrimaryCtxRetain"] = 803
    with pytest.raises(EnvironmentError_, match="install a newer one"):
        CudaDevice(0, Driver(fake))


def test_a_machine_without_a_driver_is_told_what_is_needed() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with pytest.raises(EnvironmentError_, match="needs an NVIDIA GPU and its driver"):
            cuda_device()
    else:
        pytest.skip("this machine has NVIDIA's driver")


def test_a_gpu_that_nvrtc_makes_no_code_for_is_named() -> None:
    nvrtc = pytest.importorskip("tilewright.runtime.gpu.nvrtc")
    try:
        nvrtc.version()
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    with pytest.raises(TargetError, match=r"makes no code for sm_20; it does for .*sm_90"):
        nvrtc.compile_cubin('extern "C" __global__ void empty() {}', "sm_20")
