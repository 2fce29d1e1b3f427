"""OpenCL's own: the choice of a device, memory that does not suffice, a kernel that hangs."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import numpy as np
import pytest

from tests.runtime.gpu.programs import opened
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.opencl import OpenCLDevice, opencl_device, opencl_devices


@pytest.fixture(scope="module")
def device() -> OpenCLDevice:
    return cast(OpenCLDevice, opened("opencl"))


def test_the_device_is_chosen_by_number_or_name(device: OpenCLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [found.name.strip() for found in opencl_devices()]
    for chosen in (str(len(names) - 1), names[-1][3:10].upper()):
        monkeypatch.setenv("TILEWRIGHT_OPENCL_DEVICE", chosen)
        assert opencl_device().name == f"OpenCL {names[-1]}"
    for chosen in ("99", "no such device"):
        monkeypatch.setenv("TILEWRIGHT_OPENCL_DEVICE", chosen)
        with pytest.raises(EnvironmentError_, match=rf"'{chosen}' .*TILEWRIGHT_OPENCL_DEVICE.* is no .* it has: 0 \("):
            opencl_device()


def test_facts_of_the_device_are_plausible(device: OpenCLDevice) -> None:
    facts = device.facts()
    assert int(facts["compute_units"]) > 0
    assert int(facts["largest_buffer"]) <= int(facts["memory_bytes"])


def test_out_of_memory(device: OpenCLDevice) -> None:
    with pytest.raises(EnvironmentError_, match=r"out of device memory: [\d,]+ bytes requested on OpenCL"):
        device.allocate(int(device.facts()["largest_buffer"]) + 1)
    device.write(device.allocate(400), np.zeros(100, np.float32))  # the device takes more work


def test_shared_memory_of_a_launch(device: OpenCLDevice) -> None:
    source = """kernel void reversed(global float* a, local float* tile) {
      int i = get_local_id(0);
      tile[i] = a[i];
      barrier(CLK_LOCAL_MEM_FENCE);
      a[i] = tile[63 - i];
    }"""
    kernel, data = device.compile(source, ["reversed"])["reversed"], np.arange(64, dtype=np.float32)
    buffer, back = device.allocate(256), np.empty_like(data)
    device.write(buffer, data)
    kernel.launch((1, 1, 1), (64, 1, 1), [buffer], 256)
    device.read(buffer, back)
    np.testing.assert_array_equal(back, data[::-1])


_HANGING = """
import os, sys
sys.path[:0] = {path!r}
import numpy as np
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.opencl import opencl_device
device = opencl_device()
source = "kernel void forever(global volatile float* a) {{ while (a[0] < 1.0f) a[1] = a[0]; }}"
kernel, buffer = device.compile(source, ["forever"])["forever"], device.allocate(8)
device.write(buffer, np.zeros(2, np.float32))
kernel.launch((1, 1, 1), (1, 1, 1), [buffer])
for attempt in range(2):
    try:
        device.synchronize()
    except EnvironmentError_ as error:
        print(error)
print("alive", flush=True)
os._exit(0)
"""


def test_a_kernel_that_hangs(device: OpenCLDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DEVICE_TIMEOUT", "0.5")
    command = [sys.executable, "-c", _HANGING.format(path=sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    first, second, alive = done.stdout.splitlines()
    assert "not done after 0.5 seconds" in first
    assert second == first
    assert alive == "alive"
