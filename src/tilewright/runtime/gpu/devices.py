"""Opens the device of this machine that a kind of target names."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import EnvironmentError_, TargetError
from tilewright.runtime.gpu.api import DeviceApi
from tilewright.runtime.gpu.cuda import cuda_device
from tilewright.runtime.gpu.emulation import emulated_device
from tilewright.runtime.gpu.opencl import opencl_device
from tilewright.runtime.gpu.vulkan import vulkan_device
from tilewright.runtime.gpu.webgpu import webgpu_device

#: Kinds of which a machine may have several devices.
KINDS = ("opencl", "cuda", "vulkan", "webgpu")
#: The reason why this process drives no devices, once `withdraw_devices` has one.
_withdrawn = ""


def withdraw_devices(reason: str) -> None:
    """Have `open_device` raise `EnvironmentError_` with a reason from now on, but for what runs on the host.

    A confined process is ended by drivers that find no memory, files or threads.
    """
    global _withdrawn
    _withdrawn = reason


def open_device(kind: str, emulate: bool = False, ordinal: int | None = None) -> DeviceApi:
    """The device of a kind ("opencl", "cuda", "vulkan", "webgpu"), or with `emulate` what stands for it on the host.

    `ordinal` is its number among those of the kind on this machine, as `tilewright doctor` lists them; None is the
    usual one.

    Raises `EnvironmentError_` where this machine has none, `TargetError` for a kind that cannot run here.
    """
    if emulate and kind in ("cuda", "metal"):
        return emulated_device(kind)
    if kind == "metal":
        raise TargetError(
            "the target 'metal' produces source text (codegen.emit_device); running it needs macOS. 'metal -emulate=1' "
            "runs it on this processor, slowly, to check its results"
        )
    if _withdrawn:
        raise EnvironmentError_(_withdrawn)
    openers: dict[str, Callable[[], DeviceApi]] = {
        "opencl": lambda: opencl_device(ordinal),
        "cuda": lambda: cuda_device(ordinal or 0),
        "vulkan": lambda: vulkan_device(ordinal or 0),
        "webgpu": lambda: webgpu_device(ordinal),
    }
    if kind not in openers:
        raise TargetError(f"{kind!r} is no kind of device; there are: {', '.join([*openers, 'metal'])}")
    return openers[kind]()


def ordinal_of(target: str) -> int | None:
    """The number of the device that a target's spelling has, as 1 of "cuda:1 -arch=sm_80"; None where it has none."""
    number = target.partition(" ")[0].partition(":")[2]
    return int(number) if number.isdigit() else None


def on_device(target: str, device: int | str) -> str:
    """A target's spelling for another device of its kind, by its number or as "cuda:1".

    Raises `TargetError` for a device of another kind, or where models of the target have no choice of one.
    """
    first, _, options = target.partition(" ")
    kind = first.partition(":")[0]
    wanted, _, number = str(device).rpartition(":") if isinstance(device, str) else (kind, "", str(device))
    if kind not in KINDS or "-emulate=1" in options.split():
        raise TargetError(f"the model is for {target}, which has one device: load it without device={device!r}")
    if wanted != kind or not number.isdigit():
        raise TargetError(f"the model is for {kind}, and device={device!r} is none of that kind; write '{kind}:1' or 1")
    return " ".join([f"{kind}:{number}", *options.split()])
