"""WebGPU's own: limits of the adapter, named in errors, a kernel that hangs."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import numpy as np
import pytest

from tests.runtime.gpu.programs import SOURCES, opened, scale, scale_kernel
from tilewright.errors import EnvironmentError_, InternalError, UnsupportedError
from tilewright.runtime.gpu.api import Launch
from tilewright.runtime.gpu.webgpu import WebGPUDevice


@pytest.fixture(scope="module")
def device() -> WebGPUDevice:
    return cast(WebGPUDevice, opened("webgpu"))


def test_limits_are_those_of_the_adapter(device: WebGPUDevice) -> None:
    facts = device.facts()
    assert facts["max_storage_buffer_binding_size"] >= 128 << 20
    assert facts["max_storage_buffers_per_shader_stage"] >= 8
    assert device.device.limits["max-buffer-size"] == facts["max_buffer_size"]


def test_too_large_a_buffer(device: WebGPUDevice) -> None:
    with pytest.raises(EnvironmentError_, match=r"a buffer of [\d,]+ bytes; .* limit is .* \(max-buffer-size"):
        device.allocate(device.limits["max-buffer-size"] + 4)


def test_too_large_an_array(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(device.limits, "max-storage-buffer-binding-size", 4096)
    kernel = scale_kernel("webgpu", device)
    whole = device.allocate(8192)
    part = device.view(whole, 4096, 400)
    device.record([scale(kernel, device.view(whole, 0, 400), part, 2)]).run()  # parts of a large one serve
    with pytest.raises(EnvironmentError_, match=r"kernel scale, an array of 8,192 bytes.*max-storage-buffer-bind"):
        device.record([scale(kernel, whole, part, 2)])


def test_integers_that_do_not_fit_32_bits(device: WebGPUDevice) -> None:
    buffer = device.allocate(16)
    for array in (np.array([0, -(2**31)]), np.array([2**32 - 1, 0], np.uint64)):
        device.write(buffer, array)
    for array in (np.array([0, 2**31]), np.array([2**32, 0], np.uint64)):
        with pytest.raises(UnsupportedError, match=rf"computes u?int64 in 32 bits, which {array.max()} does not fit"):
            device.write(buffer, array)


def test_too_many_blocks(device: WebGPUDevice) -> None:
    kernel, buffer = scale_kernel("webgpu", device), device.allocate(400)
    with pytest.raises(EnvironmentError_, match=r"kernel scale, 100,000 blocks; .* \(max-compute-workgroups-per-dim"):
        device.record([Launch(kernel, (1, 100_000, 1), (64, 1, 1), [buffer, buffer, np.float32(1), np.int32(1)])])


def test_too_many_buffers(device: WebGPUDevice) -> None:
    count = device.limits["max-storage-buffers-per-shader-stage"] + 1
    names = [f"a{i}" for i in range(count)]
    lines = [f"@group(0) @binding({i}) var<storage, read_write> {name}: array<f32>;" for i, name in enumerate(names)]
    body = f"fn many() {{ a0[0] = {' + '.join(f'{name}[1]' for name in names)}; }}"
    with pytest.raises(EnvironmentError_, match="max_storage_buffers_per_shader_stage"):
        device.compile("\n".join([*lines, "@compute @workgroup_size(1)", body]), ["many"])


def test_too_large_a_block(device: WebGPUDevice) -> None:
    with pytest.raises(EnvironmentError_, match="needs more than the adapter has"):
        device.compile(SOURCES["webgpu"].replace("workgroup_size(64)", "workgroup_size(1, 1, 4096)"), ["scale"])


def test_shared_memory_has_its_size_in_the_code(device: WebGPUDevice) -> None:
    kernel, buffer = scale_kernel("webgpu", device), device.allocate(400)
    step = scale(kernel, buffer, buffer, 1)
    with pytest.raises(InternalError, match="shared memory"):
        device.record([Launch(kernel, step.grid, step.block, step.args, 64)])


def test_more_steps_than_a_query_set_holds(device: WebGPUDevice) -> None:
    if "timestamp-query" not in device.features:
        pytest.skip("the adapter has no time stamps")
    kernel, buffer = scale_kernel("webgpu", device), device.allocate(400)
    times = device.record([scale(kernel, buffer, buffer, 1)] * 2500).times()
    assert len(times) == 2500
    assert min(times) > 0


_HANGING = """
import os, sys
sys.path[:0] = {path!r}
import numpy as np
from tests.runtime.gpu.programs import SOURCES
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.webgpu import webgpu_device
device = webgpu_device()
# llvmpipe ends a thread's loops after 65,536 iterations: there are many threads
source = SOURCES["webgpu"].replace("array<f32>", "array<atomic<i32>>")
loop = "while (atomicLoad(&a[0]) < 1) {{ atomicAdd(&b[1], s.n); }}"
source = source.replace("if (i < s.n) {{ b[i] = a[i] * s.f; }}", loop)
kernel, buffer = device.compile(source, ["scale"])["scale"], device.allocate(400)
other = device.allocate(400)
device.write(buffer, np.zeros(100, np.int32))
kernel.launch((1 << 14, 1, 1), (64, 1, 1), [buffer, other, np.float32(0), np.int32(1)])
for attempt in range(2):
    try:
        device.synchronize()
    except EnvironmentError_ as error:
        print(error)
print("alive", flush=True)
os._exit(0)
"""


def test_a_kernel_that_hangs(device: WebGPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEVICE_TIMEOUT", "0.5")
    command = [sys.executable, "-c", _HANGING.format(path=sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.count("\n") == 3, done.stderr[-2000:]
    first, second, alive = done.stdout.splitlines()
    assert "not done after 0.5 seconds; queued last: scale" in first
    assert second == first
    assert alive == "alive"
