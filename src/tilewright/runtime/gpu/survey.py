"""The devices of this machine by kind: what each is, which driver runs it, and what is missing for the others."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.runtime.gpu import nvrtc
from tilewright.runtime.gpu.cuda import CudaDevice
from tilewright.runtime.gpu.cuda_driver import driver
from tilewright.runtime.gpu.emulation import cpp_compiler
from tilewright.runtime.gpu.opencl import opencl_devices
from tilewright.runtime.gpu.spirv import glsl_compiler
from tilewright.runtime.gpu.vulkan import physical_devices
from tilewright.runtime.gpu.webgpu import webgpu_adapters


def survey() -> list[tuple[str, str]]:
    """Rows of the target that opens a device and of what is known of it, or of what the kind lacks here."""
    rows: list[tuple[str, str]] = []
    for kind, found in _KINDS.items():
        try:
            devices = [*found()]
        except TilewrightError as error:
            devices = [(kind, f"none: {error}")]
        except Exception as error:  # a broken driver is no reason to keep the others to ourselves
            devices = [(kind, f"none: its driver failed: {type(error).__name__}: {error}")]
        rows += devices
    return rows


def _cuda() -> Iterator[tuple[str, str]]:
    loaded = driver()
    for number in range(loaded.made("cuDeviceGetCount", ctypes.c_int)):
        device = CudaDevice(number)
        facts, (free, total) = device.facts(), device.memory()
        yield (
            f"cuda:{number}",
            f"{device.name.removeprefix('CUDA ')}, {device.arch}, {facts['multiprocessors']} multiprocessors, "
            f"{_size(free)} of {_size(total)} free, {float(facts['memory_bandwidth']) / 1e9:.0f} GB/s; driver of CUDA "
            f"{facts['driver_cuda_version']}",
        )


def _nvrtc() -> Iterator[tuple[str, str]]:
    version, headers = nvrtc.version(), nvrtc.headers()
    lacking = "" if headers else f"; for tensor cores it lacks CUDA's headers: {nvrtc.HEADERS}"
    yield "nvrtc", f"{version}, compiles for 'cuda' without a GPU{lacking}"


def _opencl() -> Iterator[tuple[str, str]]:
    devices = opencl_devices()
    for number, device in enumerate(devices):
        platform = f"{device.platform.name.strip()} {device.driver_version.strip()}"
        memory = f"{device.max_compute_units} compute units, {_size(device.global_mem_size)}"
        yield f"opencl:{number}", f"{device.name.strip()}, {memory}; {platform}"
    if not devices:
        yield "opencl", "none: no driver; `pip install pocl-binary-distribution` brings one for any CPU"


def _vulkan() -> Iterator[tuple[str, str]]:
    devices = physical_devices()
    for number, device in enumerate(devices):
        lacking = f"; lacks {', '.join(device.lacking())}: 'vulkan -integer_bits=32'" if device.lacking() else ""
        lacking = lacking if device.has_addresses else "; lacks bufferDeviceAddress: it cannot be used"
        memory = f"{_size(device.memory_bytes)}; Vulkan {device.version}"
        yield f"vulkan:{number}", f"{device.name}, {device.kind}, {memory}{lacking}"
    if not devices:
        yield "vulkan", "none: no driver; `apt install mesa-vulkan-drivers` brings one for any CPU"
    yield "glsl", f"for 'vulkan', by {glsl_compiler()}"


def _webgpu() -> Iterator[tuple[str, str]]:
    adapters = webgpu_adapters()
    for number, adapter in enumerate(adapters):
        info: Any = adapter.info
        driver_text = f"{info['backend_type']} {info['description']}".strip()
        yield f"webgpu:{number}", f"{info['device']}, {info['adapter_type']}; {driver_text}"
    if not adapters:
        yield "webgpu", "none: no adapter; `apt install mesa-vulkan-drivers` brings one for any CPU"


def _emulation() -> Iterator[tuple[str, str]]:
    yield "cuda -emulate=1", f"this processor, for checking results; {cpp_compiler()}"


_KINDS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "cuda": _cuda,
    "nvrtc": _nvrtc,
    "opencl": _opencl,
    "vulkan": _vulkan,
    "webgpu": _webgpu,
    "cuda -emulate=1": _emulation,
}


def _size(nbytes: int) -> str:
    return f"{nbytes / (1 << 30):.1f} GiB"
