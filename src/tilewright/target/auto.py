"""`target="auto"`: the best device that this machine has and that models can be compiled for.

In this order: the first NVIDIA GPU whose driver works, where CUDA code can be compiled; a GPU by OpenCL, Vulkan or
WebGPU; the processor. Software that stands in for a GPU (PoCL, lavapipe, SwiftShader) is no GPU: the code for the
processor is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.errors import EnvironmentError_
from tilewright.support.log import INFO, log

#: What wgpu and Vulkan call devices that are hardware.
_HARDWARE = ("DiscreteGPU", "IntegratedGPU", "discrete GPU", "integrated GPU", "virtual GPU")


def auto_target() -> str:
    """The spelling of the target; the logger `tilewright` has why the others were left out."""
    reasons: list[str] = []
    chosen = next(_found(reasons), "cpu")
    log(INFO, "target 'auto' is %s%s", chosen, "".join(f"; {reason}" for reason in reasons))
    return chosen


def _found(reasons: list[str]) -> Iterator[str]:
    """The devices, the best first; `reasons` gets a text for each kind without any."""
    kinds: dict[str, Callable[[], list[str]]] = {
        "cuda": _cuda, "opencl": _opencl, "vulkan": _vulkan, "webgpu": _webgpu
    }  # fmt: skip
    for kind, devices in kinds.items():
        try:
            found = devices()
        except EnvironmentError_ as error:
            reasons.append(f"{kind}: {error}")
        except Exception as error:  # a broken driver of one kind is no reason to do without the others
            reasons.append(f"{kind}: its driver failed: {type(error).__name__}: {error}")
        else:
            yield from found
            if not found:
                reasons.append(f"{kind}: no GPU")


def _cuda() -> list[str]:
    # drivers are asked when a target is "auto" only: loading their libraries takes longer than most models
    import ctypes

    from tilewright.runtime.gpu import nvrtc
    from tilewright.runtime.gpu.cuda import cuda_device
    from tilewright.runtime.gpu.cuda_driver import driver

    count = driver().made("cuDeviceGetCount", ctypes.c_int)
    nvrtc.version()
    failed: list[EnvironmentError_] = []
    for number in range(count):
        try:
            device = cuda_device(number)
        except EnvironmentError_ as error:
            failed.append(error)
            continue
        return [f"cuda{f':{number}' if number else ''} -arch={device.own_architecture}"]
    if failed:
        raise failed[0]
    return []


def _opencl() -> list[str]:
    from tilewright.runtime.gpu.opencl import is_gpu, opencl_devices

    return [f"opencl:{number}" for number, device in enumerate(opencl_devices()) if is_gpu(device)]


def _vulkan() -> list[str]:
    from tilewright.runtime.gpu.spirv import glsl_compiler
    from tilewright.runtime.gpu.vulkan import physical_devices

    glsl_compiler()
    return [
        f"vulkan:{number}{' -integer_bits=32' if one.lacking() else ''}"
        for number, one in enumerate(physical_devices())
        if one.kind in _HARDWARE and one.has_addresses
    ]


def _webgpu() -> list[str]:
    from tilewright.runtime.gpu.webgpu import webgpu_adapters

    found = enumerate(webgpu_adapters())
    return [f"webgpu:{number}" for number, one in found if one.info["adapter_type"] in _HARDWARE]
