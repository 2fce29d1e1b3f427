"""The targets that jobs are offered: processors, boards, C source and devices, each with its availability here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.errors import EnvironmentError_, InputError, TargetError
from tilewright.runtime.export import find_linker
from tilewright.runtime.foreign import LOADING
from tilewright.target import PROCESSORS, Target
from tilewright.target.boards import BOARDS
from tilewright.target.microcontrollers import MICROCONTROLLERS
from tilewright.target.spellings import TRIPLES, spelling

#: What is made for a target.
ARTIFACT, LIBRARY, SOURCE, WASM = "artifact", "library", "source", "wasm"
#: Kinds of jobs that run the model.
RUNNING = frozenset({"tune", "profile", "verify"})
_SHOWN = {"x86_64": "x86-64", "aarch64": "AArch64", "riscv64": "RISC-V"}
#: Names of processors that alone would not say what they are.
_NAMED = {("aarch64", "generic"): "aarch64", ("riscv64", "generic-rv64"): "riscv64"}
#: Compute capabilities of CUDA that people rent: Turing, Ampere, its consumer cards, Ada, Hopper, Blackwell.
_CUDA = ("75", "80", "86", "89", "90", "100", "120")


@dataclass(frozen=True)
class Offered:
    """A target by its name here; `form` is what is made for it, `reason` why it is not available."""

    name: str
    title: str
    kind: str
    spelling: str
    form: str = ARTIFACT
    reason: str = ""


@functools.cache
def offered() -> Mapping[str, Offered]:
    """All targets, by name."""
    found = [Offered("cpu", "the processor of this service", "processor", "cpu")]
    for architecture in TRIPLES:
        for cpu in PROCESSORS[architecture]:
            name = _NAMED.get((architecture, cpu), cpu)
            title = f"{cpu}, {_SHOWN[architecture]}"
            found.append(_native(name, title, "processor", spelling(architecture, cpu)))
    found += [_native(name, name.replace("-", " ").title(), "board", target) for name, target in BOARDS.items()]
    found.append(Offered("c", "C source for processors with a system", "source", "c", SOURCE))
    for cpu in MICROCONTROLLERS:
        title = f"C source for {'any board' if cpu == 'generic' else cpu}"
        found.append(Offered(f"c-{cpu}", title, "source", f"c -mcpu={cpu}", SOURCE))
    found += _devices()
    return {one.name: one for one in found}


def _native(name: str, title: str, kind: str, target: str) -> Offered:
    """A processor: an artifact where the Python runtime is made for it, else a library for C."""
    architecture = Target(target).architecture
    if architecture in LOADING:
        return Offered(name, title, kind, target)
    return Offered(name, title, kind, target, LIBRARY, _lacking(lambda: find_linker(architecture)))


def _devices() -> list[Offered]:
    """Devices other than processors, with what their code lacks here."""
    cuda, vulkan = map(_lacking, (_need_nvrtc, _need_glsl))
    return [
        *(Offered(f"cuda-sm_{one}", f"NVIDIA GPUs, compute capability {int(one) / 10}", "gpu", f"cuda -arch=sm_{one}",
                  reason=cuda) for one in _CUDA),
        Offered("opencl", "OpenCL devices", "gpu", "opencl"),
        Offered("vulkan", "Vulkan devices", "gpu", "vulkan", reason=vulkan),
        Offered("webgpu", "WebGPU devices", "gpu", "webgpu"),
        Offered("metal", "GPUs of Apple", "gpu", "metal"),
        Offered("wasm", "WebAssembly with 128-bit vectors", "wasm", "wasm", WASM),
        Offered("vta", "the accelerator VTA, beside a processor", "accelerator", "vta"),
    ]  # fmt: skip


def _lacking(need: Callable[[], object]) -> str:
    try:
        need()
    except EnvironmentError_ as error:
        return str(error)
    return ""


def _need_nvrtc() -> None:
    # loads a library of the driver's
    from tilewright.runtime.gpu import nvrtc

    nvrtc.version()


def _need_glsl() -> None:
    # as above
    from tilewright.runtime.gpu.spirv import glsl_compiler

    glsl_compiler()
    raise EnvironmentError_("its compiler is a program, and a job's process starts none")


def runs_here(target: Offered) -> bool:
    """True where models for the target run on this machine's processor."""
    return target.form == ARTIFACT and target.kind in ("processor", "board") and Target(target.spelling).is_host


def chosen(name: str, kind: str, elsewhere: bool = False) -> Offered:
    """The target of a job: a name of `offered`, or the spelling of a target. A job may run the model `elsewhere`.

    Raises `InputError` for one that is unknown, not available, or not for jobs of this kind.
    """
    found = offered().get(name)
    if found is None:
        try:
            target = Target(name)
        except TargetError as error:
            raise InputError(f"target: {error}") from None
        of_kind = next((one for one in offered().values() if one.spelling.split()[0] == target.kind), None)
        if target.kind == "llvm":
            found = _native(name, name, "processor", str(target))
        else:
            kind_of, form, reason = (
                (of_kind.kind, of_kind.form, of_kind.reason) if of_kind else ("device", ARTIFACT, "")
            )
            found = Offered(name, name, kind_of, str(target), form, reason)
    if found.reason:
        raise InputError(f"target {name} is not available: {found.reason}")
    if kind in RUNNING and not (found.form == ARTIFACT if elsewhere else runs_here(found)):
        where = "devices of a fleet" if elsewhere else "this service's processor"
        raise InputError(f"target {name} does not run on {where}, which jobs of kind {kind} do")
    return found
