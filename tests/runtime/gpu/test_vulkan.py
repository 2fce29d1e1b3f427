"""Vulkan's own: limits, arguments of all sizes, memory that does not suffice, a kernel that hangs."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import numpy as np
import pytest

from tests.runtime.gpu.programs import opened, scale, scale_kernel
from tilewright.errors import EnvironmentError_, InternalError, UnsupportedError
from tilewright.runtime.gpu.api import Launch
from tilewright.runtime.gpu.vulkan import VulkanDevice

_MIXED = """#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
layout(buffer_reference, std430, buffer_reference_align = 8) buffer longs { int64_t at[]; };
layout(buffer_reference, std430) readonly buffer arguments {
  int8_t a; longs out_; int b; int64_t c; int16_t d; longs more;
};
// kernel mixed
layout(local_size_x = 1) in;
layout(push_constant) uniform constants { arguments at; };
void main() {
  at.out_.at[0] = at.a;
  at.out_.at[1] = at.b;
  at.more.at[0] = at.c;
  at.more.at[1] = at.d;
}
"""


@pytest.fixture(scope="module")
def device() -> VulkanDevice:
    return cast(VulkanDevice, opened("vulkan"))


def test_facts_of_the_device_are_plausible(device: VulkanDevice) -> None:
    facts = device.facts()
    assert int(facts["shared_bytes_per_block"]) >= 16384  # the specification's least
    assert int(facts["max_threads_per_block"]) >= 128
    assert all(count >= 65535 for count in device.physical.most_blocks)
    assert int(facts["memory_bytes"]) > 1 << 28
    assert 1e-12 < device.physical.tick < 1e-6


def test_arguments_of_all_sizes(device: VulkanDevice) -> None:
    kernel = device.compile(_MIXED, ["mixed"])["mixed"]
    arena = device.allocate(1024)
    out, more = device.view(arena, 64, 16), device.view(arena, 512, 16)
    values = (np.int8(-3), np.int32(-70_000), np.int64(-(1 << 40)), np.int16(-300))
    kernel.launch((1, 1, 1), (1, 1, 1), [values[0], out, *values[1:], more])
    results = np.empty((2, 2), np.int64)
    device.read(out, results[0])
    device.read(more, results[1])
    assert results.ravel().tolist() == [int(value) for value in values]


def test_copies_beyond_the_staging_buffer_come_back(device: VulkanDevice) -> None:
    data = np.random.default_rng(1).integers(0, 256, (33 << 20) + 3, np.uint8)
    buffer, back = device.allocate(data.nbytes), np.empty_like(data)
    device.write(buffer, data)
    device.read(buffer, back)
    np.testing.assert_array_equal(back, data)


def test_a_recording_dropped_while_it_runs(device: VulkanDevice) -> None:
    kernel, x = scale_kernel("vulkan", device), np.arange(100, dtype=np.float32)
    buffer = device.allocate(400)
    device.write(buffer, x)
    for _ in range(50):
        device.record([scale(kernel, buffer, buffer, -1)]).run()
    back = np.empty_like(x)
    device.read(buffer, back)
    np.testing.assert_array_equal(back, x)


def test_kernels_with_integers_that_a_device_lacks(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused with what to compile for; integers that words do not hold are refused where they are written."""
    monkeypatch.setattr(device.physical, "lacking", lambda: ["shaderInt64"])
    with pytest.raises(EnvironmentError_, match=r"has no shaderInt64, .*'vulkan -integer_bits=32'"):
        device.compile(_MIXED, ["mixed"])
    buffer = device.allocate(16)
    device.write(buffer, np.array([-(1 << 31), (1 << 31) - 1]))
    with pytest.raises(UnsupportedError, match="computes int64 in 32 bits, which 2147483648 does not fit"):
        device.write(buffer, np.array([0, 1 << 31]))


def test_out_of_memory(device: VulkanDevice) -> None:
    with pytest.raises(EnvironmentError_, match=r"out of device memory: [\d,]+ bytes requested on Vulkan"):
        device.allocate(1 << 45)
    device.allocate(400)


def test_launches_beyond_the_limits_are_refused(device: VulkanDevice) -> None:
    kernel, buffer = scale_kernel("vulkan", device), device.allocate(400)
    step = scale(kernel, buffer, buffer, 1)
    with pytest.raises(InternalError, match="shared memory has its size in the code"):
        device.record([Launch(kernel, step.grid, step.block, step.args, 64)])
    if device.physical.most_blocks[1] < 1 << 30:
        with pytest.raises(EnvironmentError_, match=r"kernel scale, \(1, 1073741824, 1\) blocks; .*maxCompute"):
            device.record([Launch(kernel, (1, 1 << 30, 1), step.block, step.args)])
    with pytest.raises(InternalError, match="it has no kernel other"):
        device.compile(_MIXED, ["mixed", "other"])


_HANGING = """
import os, sys
sys.path[:0] = {path!r}
import numpy as np
from tests.runtime.gpu.programs import SOURCES
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.vulkan import vulkan_device
device = vulkan_device()
source = SOURCES["vulkan"].replace("buffer floats", "volatile buffer floats")
# llvmpipe ends a thread's loops after 65,536 iterations: there are many threads
source = source.replace("if (i < at.n)", "while (at.a.at[0] < 1.0)").replace("at[i]", "at[0]")
kernel, buffer = device.compile(source, ["scale"])["scale"], device.allocate(400)
device.write(buffer, np.zeros(100, np.float32))
kernel.launch((1 << 14, 1, 1), (64, 1, 1), [buffer, buffer, np.float32(0), np.int32(1)])
for attempt in range(2):
    try:
        device.synchronize()
    except EnvironmentError_ as error:
        print(error)
print("alive", flush=True)
os._exit(0)
"""


def test_a_kernel_that_hangs(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEVICE_TIMEOUT", "0.5")
    command = [sys.executable, "-c", _HANGING.format(path=sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    first, second, alive = done.stdout.splitlines()
    assert "not done after 0.5 seconds; queued last: scale" in first
    assert second == first
    assert alive == "alive"
