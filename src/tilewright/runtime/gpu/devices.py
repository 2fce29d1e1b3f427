"""Opens the device of this machine that a kind of target names."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import TargetError
from tilewright.runtime.gpu.api import DeviceApi
from tilewright.runtime.gpu.cuda import cuda_device
from tilewright.runtime.gpu.emulation import emulated_device
from tilewright.runtime.gpu.opencl import opencl_device
from tilewright.runtime.gpu.vulkan import vulkan_device
from tilewright.runtime.gpu.webgpu import webgpu_device


def open_device(kind: str, emulate: bool = False, ordinal: int = 0) -> DeviceApi:
    """The device of a kind ("opencl", "cuda", "vulkan", "webgpu"), or with `emulate` what stands for it on the host.

    `ordinal` counts the NVIDIA GPUs of this machine.

    Raises `EnvironmentError_` where this machine has none, `TargetError` for a kind that cannot run here.
    """
    if emulate and kind in ("cuda", "metal"):
        return emulated_device(kind)
    if kind == "metal":
        raise TargetError(
            "the target 'metal' gives source text (codegen.emit_device); running it needs macOS. 'metal -emulate=1' "
            "runs it on this processor, slowly, to check its results"
        )
    openers: dict[str, Callable[[], DeviceApi]] = {
        "opencl": opencl_device,
        "cuda": lambda: cuda_device(ordinal),
        "vulkan": vulkan_device,
        "webgpu": webgpu_device,
    }
    if kind not in openers:
        raise TargetError(f"{kind!r} is no kind of device; there are: {', '.join([*openers, 'metal'])}")
    return openers[kind]()
