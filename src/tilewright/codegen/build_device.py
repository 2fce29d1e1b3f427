"""`build` for devices: kernels to source text, and the host's part as data that the run time follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.codegen.function_info import function_info
from tilewright.codegen.size_data import size_data
from tilewright.codegen.source.cuda import CUDA_C
from tilewright.codegen.source.gpu import Language, emit_program
from tilewright.codegen.source.metal import METAL_SL
from tilewright.codegen.source.opencl import OPENCL_C
from tilewright.codegen.source.wgsl import WEBGPU_SL
from tilewright.device_target import DeviceTarget
from tilewright.errors import TargetError
from tilewright.runtime.gpu.api import DeviceApi
from tilewright.runtime.gpu.module import DeviceFunctionInfo, DeviceModule
from tilewright.support.trace import span
from tilewright.target import Target
from tilewright.tir.buffer import Buffer
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.split_host_device import DeviceProgram, Launch, split_host_device
from tilewright.tir.transform.verify_gpu_code import verify_gpu_code


@dataclass(frozen=True)
class Backend:
    """A kind of device: its language, and what opens the device of this machine."""

    language: Language
    open: Callable[[Target], DeviceApi]


def _opencl(_target: Target) -> DeviceApi:
    # a model for the CPU does without the modules of devices
    from tilewright.runtime.gpu.opencl import opencl_device

    return opencl_device()


def _cuda(target: Target) -> DeviceApi:
    from tilewright.runtime.gpu.cuda import cuda_device
    from tilewright.runtime.gpu.emulation import emulated_device

    assert isinstance(target, DeviceTarget)
    return emulated_device("cuda") if target.emulate else cuda_device()


def _webgpu(_target: Target) -> DeviceApi:
    from tilewright.runtime.gpu.webgpu import webgpu_device

    return webgpu_device()


def _metal(target: Target) -> DeviceApi:
    from tilewright.runtime.gpu.emulation import emulated_device

    assert isinstance(target, DeviceTarget)
    if not target.emulate:
        raise TargetError(
            "the target 'metal' gives source text (codegen.emit_device); running it needs macOS. 'metal -emulate=1' "
            "runs it on this processor, slowly, to check its results"
        )
    return emulated_device("metal")


BACKENDS: dict[str, Backend] = {
    "opencl": Backend(OPENCL_C, _opencl),
    "cuda": Backend(CUDA_C, _cuda),
    "webgpu": Backend(WEBGPU_SL, _webgpu),
    "metal": Backend(METAL_SL, _metal),
}


def build_device(funcs: Sequence[PrimFunc], target: Target) -> DeviceModule:
    """A module of lowered functions on the device of this machine that `target` names."""
    backend = BACKENDS[target.kind]
    source, functions = emit_device(funcs, target)
    api = backend.open(target)
    with span("device compiler"):
        return DeviceModule(api, source, functions)


def emit_device(funcs: Sequence[PrimFunc], target: Target) -> tuple[str, list[DeviceFunctionInfo]]:
    """The source text of all kernels, and how to call the functions. Needs no device."""
    backend = BACKENDS.get(target.kind)
    if backend is None:
        raise TargetError(f"{target.kind!r} is no kind of device; there are: {', '.join(BACKENDS)}")
    assert isinstance(target, DeviceTarget)
    for func in funcs:
        warp = func.attrs.get("thread_warp_size", target.thread_warp_size)
        if warp != target.thread_warp_size:
            raise TargetError(
                f"{func.name} was lowered for warps of {warp} threads; {target} has warps of "
                f"{target.thread_warp_size}. Lower it for the target that it is built for"
            )
    programs = [split_host_device(verify_gpu_code(func, target)) for func in funcs]
    with span("codegen"):
        return emit_program(programs, backend.language), [_info(program) for program in programs]


def _info(program: DeviceProgram) -> DeviceFunctionInfo:
    func = program.func
    names: dict[Any, str] = {}
    params = []
    for param, info in zip(func.params, function_info(func).params, strict=True):
        names[param] = _unique(info.name, names)
        params.append(replace(info, name=names[param]))
    temporaries = []
    for buffer in program.temporaries:
        names[buffer] = _unique(buffer.name, names)
        (size,) = buffer.shape  # flat since `flatten_buffers`
        temporaries.append({"name": names[buffer], "dtype": str(buffer.dtype), "elements": size_data(size, names)})
    launches = [_launch(launch, names) for launch in program.launches]
    written = {name for launch in program.launches for name in _written(launch, names)}
    params = [replace(p, written=p.name in written) if not p.is_scalar else p for p in params]
    return DeviceFunctionInfo(func.name, tuple(params), tuple(temporaries), tuple(launches))


def _unique(name: str, names: dict[Any, str]) -> str:
    while name in names.values():
        name += "_"
    return name


def _launch(launch: Launch, names: dict[Any, str]) -> dict[str, Any]:
    return {
        "kernel": launch.kernel.name,
        "args": [names[param] for param in launch.kernel.params],
        "grid": [size_data(extent, names) for extent in launch.grid],
        "block": list(launch.block),
    }


def _written(launch: Launch, names: dict[Any, str]) -> list[str]:
    flags = zip(launch.kernel.params, launch.kernel.attrs["written"], strict=True)
    return [names[param] for param, written in flags if written and isinstance(param, Buffer)]
