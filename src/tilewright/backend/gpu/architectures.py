"""Kernels for several architectures of GPUs side by side, under the same names and with one plan around them.

    kernels for sm_80 (tiles for mma.sync), kernels for sm_90a (for wgmma)  ->  both, and PTX of the first

The device's runtime loads the best that runs on it (`runtime.gpu.code.load_best`). Graph and memory plan are those of
the oldest architecture; temporaries get as much memory as the largest of the architectures takes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.backend.kernels import CompiledKernels, Workspace
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.code import DeviceCode
from tilewright.runtime.gpu.nvrtc import compile_cubin, compile_ptx
from tilewright.runtime.link import bundle_objects
from tilewright.tir.op import maximum
from tilewright.tir.visitor import substitute


@dataclass(frozen=True)
class ArchitectureKernels:
    """Kernels for one architecture, and what `CompiledKernels` has of them."""

    code: DeviceCode
    workspaces: Mapping[str, Workspace]
    choices: Mapping[str, Mapping[str, Any]]
    seconds: Mapping[str, float]


def side_by_side(made: Sequence[ArchitectureKernels], with_machine_code: bool = True) -> CompiledKernels:
    """The kernels for all architectures, the oldest first, as one; `binaries` of the codes are filled in."""
    texts: list[tuple[DeviceCode, list[str]]] = []  # code and the architectures that it is the same for
    for code in (one.code for one in made):
        same = next((archs for known, archs in texts if _is_same(known, code)), None)
        if same is None:
            texts.append((code, [code.arch]))
        else:
            same.append(code.arch)
    start = time.perf_counter()
    codes = [code for code, _ in texts]
    if with_machine_code:
        several = len(made) > 1
        codes = [
            replace(code, binaries=machine_code(code, archs, with_ptx=number == 0 and several))
            for number, (code, archs) in enumerate(texts)
        ]
    compiled, first = time.perf_counter(), made[0]
    workspaces = {name: _largest([one.workspaces[name] for one in made]) for name in first.workspaces}
    seconds = {stage: sum(one.seconds[stage] for one in made) for stage in first.seconds}
    seconds["llvm"] = compiled - start
    return CompiledKernels(bundle_objects([code.encode() for code in codes]), workspaces, first.choices, seconds)


def machine_code(code: DeviceCode, architectures: Sequence[str], with_ptx: bool) -> dict[str, bytes]:
    """Cubins of a text by architecture, and PTX of the first for newer GPUs.

    None where NVRTC is not installed, or for other kinds of device. PTX of an architecture "sm_90a" runs on no other
    GPU, so that there is none of it.
    """
    if code.kind != "cuda" or code.emulate:
        return {}
    try:
        found = {arch: compile_cubin(code.source, arch) for arch in architectures}
        if with_ptx and architectures[0][-1].isdigit():
            found[architectures[0].replace("sm_", "compute_")] = compile_ptx(code.source, architectures[0])
    except EnvironmentError_:
        return {}
    return found


def _is_same(one: DeviceCode, other: DeviceCode) -> bool:
    return one.source == other.source and [*one.functions] == [*other.functions]


def _largest(workspaces: Sequence[Workspace]) -> Workspace:
    """A workspace that suffices for each of those that a kernel has on several architectures."""
    first, *others = workspaces
    shared = first.shared
    for other in others:
        size = other.shared
        if not isinstance(size, int):
            size = substitute(size, dict(zip(other.scalars, first.scalars, strict=True)))
        shared = max(shared, size) if isinstance(shared, int) and isinstance(size, int) else maximum(shared, size)
    return replace(first, shared=shared)
