"""`build` for devices: kernels to source text, and the host's part as data that the run time follows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.codegen.function_info import function_info
from tilewright.codegen.size_data import size_data
from tilewright.codegen.source.cuda import CUDA_C
from tilewright.codegen.source.glsl import VULKAN_GLSL
from tilewright.codegen.source.glsl_words import VULKAN_WORDS
from tilewright.codegen.source.gpu import Language, emit_program
from tilewright.codegen.source.metal import METAL_SL
from tilewright.codegen.source.opencl import OPENCL_C
from tilewright.codegen.source.wgsl import WEBGPU_SL
from tilewright.errors import TargetError, UnsupportedError
from tilewright.runtime.gpu.devices import open_device
from tilewright.runtime.gpu.module import DeviceFunctionInfo, DeviceModule, save_module
from tilewright.support.recursion import nested
from tilewright.support.trace import span
from tilewright.target import DeviceTarget, Target
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, FloatImm, StringImm
from tilewright.tir.stmt import IMPORT_LLVM, PrimFunc
from tilewright.tir.transform.pipeline import DEVICE, result
from tilewright.tir.transform.split_host_device import (
    DeviceProgram,
    HostBranch,
    HostCall,
    HostLoop,
    Launch,
    Step,
    split_host_device,
)

LANGUAGES: dict[str, Language] = {
    "opencl": OPENCL_C,
    "cuda": CUDA_C,
    "webgpu": WEBGPU_SL,
    "vulkan": VULKAN_GLSL,
    "metal": METAL_SL,
}


@dataclass(frozen=True)
class DeviceCompiled:
    """Functions as the text of a device's language, which is compiled where it is loaded."""

    source: str
    functions: Sequence[DeviceFunctionInfo]
    target: str

    @property
    def object_code(self) -> bytes:
        """The text, as what tells configurations apart."""
        return self.source.encode()

    def load(self, threads: int | None = None) -> DeviceModule:
        """The functions on the device of this machine that the target names."""
        target = Target(self.target)
        api = open_device(target.kind, bool(target.emulate), target.ordinal)
        return DeviceModule(api, self.source, self.functions, (target.kind, bool(target.emulate)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to one file, which `DeviceModule.load` reads."""
        target = Target(self.target)
        save_module(path, self.source, self.functions, (target.kind, bool(target.emulate)))


def build_device(funcs: Sequence[PrimFunc], target: Target) -> DeviceModule:
    """A module of lowered functions on the device of this machine that `target` names."""
    made = DeviceCompiled(*emit_device(funcs, target), str(target))
    with span("device compiler"):
        return made.load()


def emit_device(funcs: Sequence[PrimFunc], target: Target) -> tuple[str, list[DeviceFunctionInfo]]:
    """The source text of all kernels, and how to call the functions. Needs no device."""
    return emit_programs(device_programs(funcs, target), target)


def emit_programs(programs: Sequence[DeviceProgram], target: Target) -> tuple[str, list[DeviceFunctionInfo]]:
    """The same for functions whose kernels are taken out already."""
    with span("codegen"):
        return emit_program(programs, _language(target)), [_info(program) for program in programs]


def _language(target: Target) -> Language:
    language = LANGUAGES.get(target.kind)
    if language is None:
        raise TargetError(f"{target.kind!r} is no kind of device; there are: {', '.join(LANGUAGES)}")
    return VULKAN_WORDS if isinstance(target, DeviceTarget) and target.integer_bits == 32 else language


def device_programs(funcs: Sequence[PrimFunc], target: Target) -> list[DeviceProgram]:
    """The functions as kernels, and what the host does between them."""
    _language(target)
    for func in funcs:
        if IMPORT_LLVM in func.attrs:
            raise UnsupportedError(f"{func.name} brings LLVM IR (the pragma import_llvm), which no device takes")
        warp = func.attrs.get("thread_warp_size", target.thread_warp_size)
        if warp != target.thread_warp_size:
            raise TargetError(
                f"{func.name} was lowered for warps of {warp} threads; {target} has warps of "
                f"{target.thread_warp_size}. Lower it for the target that it is built for"
            )
    return [split_host_device(result(DEVICE.code, func, target)) for func in funcs]


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
    steps = [_step(step, names) for step in program.steps]
    written = {name for launch in program.launches for name in _written(launch, names)} | set(_passed(steps))
    params = [replace(p, written=p.name in written) if not p.is_scalar else p for p in params]
    return DeviceFunctionInfo(func.name, tuple(params), tuple(temporaries), tuple(steps))


def _unique(name: str, names: dict[Any, str]) -> str:
    while name in names.values():
        name += "_"
    return name


@nested
def _step(step: Step, names: dict[Any, str]) -> dict[str, Any]:
    """A step as plain data, as `runtime.gpu.steps` reads it."""
    if isinstance(step, HostLoop):
        names[step.var] = _unique(step.var.name, names)
        bounds = {"min": size_data(step.min, names), "extent": size_data(step.extent, names)}
        body = [_step(part, names) for part in step.body]
        return {"loop": names[step.var], "dtype": str(step.var.dtype), **bounds, "body": body}
    if isinstance(step, HostBranch):
        then_steps, else_steps = ([_step(s, names) for s in part] for part in (step.then_steps, step.else_steps))
        return {"if": size_data(step.condition, names), "then": then_steps, "else": else_steps}
    if isinstance(step, HostCall):
        return {"call": step.name, "args": [_argument(step, arg, names) for arg in step.args]}
    return _launch(step, names)


def _argument(step: HostCall, arg: Expr, names: dict[Any, str]) -> dict[str, Any]:
    """An argument of a packed call: an array by name, type and shape, or a number."""
    if isinstance(arg, Call) and arg.op == "packed_array":
        address, dtype, *shape = arg.args
        if not (isinstance(address, Call) and address.op == "address_of" and isinstance(address.args[0], BufferLoad)):
            raise UnsupportedError(f"{step.name}: an array passed to it from a device must be a whole buffer")
        position = address.args[0]
        assert isinstance(dtype, StringImm)
        sizes, offset = [size_data(n, names) for n in shape], size_data(position.indices[0], names)
        return {"array": names[position.buffer], "dtype": dtype.value, "shape": sizes, "offset": offset}
    return {"value": arg.value if isinstance(arg, FloatImm) else size_data(arg, names)}


@nested
def _passed(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The arrays passed to Python functions, which may write to them."""
    for step in steps:
        yield from (arg["array"] for arg in step.get("args", ()) if isinstance(arg, dict) and "array" in arg)
        yield from _passed([*step.get("body", ()), *step.get("then", ()), *step.get("else", ())])


def _launch(launch: Launch, names: dict[Any, str]) -> dict[str, Any]:
    return {
        "kernel": launch.kernel.name,
        "args": [names[param] for param in launch.kernel.params],
        "writes": _written(launch, names),
        "grid": [size_data(extent, names) for extent in launch.grid],
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
    }


def _written(launch: Launch, names: dict[Any, str]) -> list[str]:
    flags = zip(launch.kernel.params, launch.kernel.attrs["written"], strict=True)
    return [names[param] for param, written in flags if written and isinstance(param, Buffer)]
