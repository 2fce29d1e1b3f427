"""CUDA and Metal without a GPU: the kernels' own text compiled as C++ and run on the host, for checking results.

A kernel whose threads never meet is loops over blocks and threads, which the C++ compiler vectorizes where it can. Else
every thread of a block is a fiber: `__syncwarp` and shuffles wait for its warp, `__syncthreads` for the block. That
threads of a block end, or wait elsewhere, while others wait at a barrier is an error: on a real device it would hang.
Between barriers the threads of a block run one after the other, in every other block from the last to the first: a
barrier that is missing shows in the results. The host's processors share the blocks.
"""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_, InternalError
from tilewright.runtime.gpu.api import Copy, Extent3, Kernel, Launch, check_view, refuse_binary
from tilewright.runtime.gpu.looped_recording import LoopedRecording
from tilewright.runtime.memory import aligned_empty
from tilewright.runtime.threads import default_workers

_KERNEL = re.compile(
    r'^(?:extern "C" __global__|kernel) void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(([^\n]*)\) \{$(.*?)^\}$',
    re.MULTILINE | re.DOTALL,
)
#: Words of kernels whose threads meet: barriers, shuffles, tensor cores.
_MEETINGS = re.compile(r"sync|shfl|shuffle|barrier|simd|wmma")
_INCLUDE = re.compile(r"^#include <(?:metal_stdlib|mma\.h|cuda_fp16\.h|cuda_bf16\.h)>$", re.MULTILINE)
#: Parameters that say where a thread is, in terms of a launcher's; CUDA's kernels get the first two as parameters, too.
_POSITIONS = {"blockIdx": "blockIdx", "threadIdx": "threadIdx", "laneIdx": "(unsigned)(thread % tilewright_warp)"}
#: CUDA's shared memory whose size the launch says; a block's threads are fibers of one thread of the host.
_DYNAMIC = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?([\w ]+?) (\w+)\[\];")
_DYNAMIC_SHARED = 256 << 10
_SHARED = f"alignas(1024) static thread_local char tilewright_shared[{_DYNAMIC_SHARED}];\n"
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]")


class EmulatedDevice:
    """The host's processor, for the text of one of the languages in `HEADERS`."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.name = f"{language} emulated on the host"
        self.alignment = 64
        #: True: the blocks whose threads run from the last to the first are the others.
        self.turned = False

    def allocate(self, nbytes: int) -> Any:
        """Host memory, as bytes."""
        return aligned_empty((nbytes,), np.dtype(np.uint8))

    def view(self, buffer: Any, offset: int, nbytes: int) -> Any:
        """A part of the memory."""
        check_view(self.name, buffer.nbytes, self.alignment, offset, nbytes)
        return buffer[offset : offset + nbytes]

    def write(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`."""
        buffer[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def read(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        array.reshape(-1).view(np.uint8)[...] = buffer[: array.nbytes]

    def copy(self, source: Any, target: Any, nbytes: int) -> None:
        """Copy host memory."""
        target[:nbytes] = source[:nbytes]

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """A shared object of the kernels with the emulation around them."""
        library = _compile(_emulated(source), HEADERS[self.language])
        return {name: _Kernel(name, library, self) for name in kernels}

    def load(self, binary: bytes, kernels: Sequence[str]) -> dict[str, Kernel]:
        """Refused: the host has its own machine code."""
        raise refuse_binary(self.name)

    def record(self, steps: Sequence[Launch | Copy]) -> LoopedRecording:
        """The steps, run by a loop."""
        return LoopedRecording(self, steps)

    def synchronize(self) -> None:
        """Nothing is queued: a launch returns when it is done."""


class _Kernel:
    def __init__(self, name: str, library: ctypes.CDLL, device: EmulatedDevice) -> None:
        self.name, self._device = name, device
        self._library = library  # keeps the code alive
        self._run = getattr(library, f"tilewright_emulate_{name}")
        self._workers = default_workers()

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any], shared_bytes: int = 0) -> None:
        """Run all blocks. Raises `InternalError` where threads that should meet do not."""
        if shared_bytes > _DYNAMIC_SHARED:
            raise InternalError(f"kernel {self.name}: {shared_bytes} bytes of shared memory of {_DYNAMIC_SHARED}")
        slots = (ctypes.c_void_p * max(1, len(args)))()
        alive = []
        for i, arg in enumerate(args):
            held = np.asarray(arg) if np.ndim(arg) == 0 else arg
            alive.append(held)
            # A kernel's parameter is read through the slot: a buffer's address itself, a scalar through its address.
            slots[i] = held.ctypes.data
        code = self._run(*grid, *block, self._workers, int(self._device.turned), slots)
        if code:
            raise InternalError(
                f"kernel {self.name}: some threads of a block waited at a barrier while others ended or waited at "
                "another; on a device it would hang"
            )
        del alive


def _emulated(source: str) -> str:
    """The text with kernels that take the position of a thread, and a launcher after each."""
    source = _DYNAMIC.sub(r"\1* \2 = (\1*)tilewright_shared;", source)
    return _KERNEL.sub(_with_launcher, source)


def _with_launcher(kernel: re.Match[str]) -> str:
    """A kernel, and the C function that takes the extents, the number of workers and the slots of the arguments."""
    name, listed, body = kernel.groups()
    parameters = [p.strip() for p in _ATTRIBUTE.sub("", listed).split(",") if p.strip()]
    if not any(p.endswith(" threadIdx") for p in parameters):
        parameters[:0] = ["tilewright_dim3 blockIdx", "tilewright_dim3 threadIdx"]
    read: list[str] = []
    given: list[str] = []
    for i, parameter in enumerate(parameters):
        kind, _, word = parameter.replace("__restrict__", "").rpartition(" ")
        if word in _POSITIONS:
            given.append(_POSITIONS[word])
            continue
        kind, slot = kind.strip().rstrip("&"), f"slots[{len(read)}]"
        value = f"({kind}){slot}" if kind.endswith("*") else f"*({kind}*){slot}"
        read.append(f"  auto argument{i} = {value};\n")
        given.append(f"argument{i}")
    way = "together" if _MEETINGS.search(body) else "apart"
    position = "tilewright_dim3 blockIdx, tilewright_dim3 threadIdx, size_t thread"
    head = f'extern "C" int tilewright_emulate_{name}({", ".join(f"int {e}" for e in _EXTENTS)}, void** slots)'
    run = f"tilewright_run_{way}({', '.join(_EXTENTS)}, [=]({position}) {{ {name}({', '.join(given)}); }})"
    function = f"static inline void {name}({', '.join(parameters)}) {{{body}}}"
    return f"{function}\n\n{head} {{\n{''.join(read)}  return {run};\n}}"


_EXTENTS = ("gx", "gy", "gz", "bx", "by", "bz", "workers", "turned")
#: The headers that define the words of each language in C++.
HEADERS = {"cuda": ("fibers.h", "cuda_emulation.h"), "metal": ("fibers.h", "metal_emulation.h")}


def cpp_compiler() -> str:
    """The C++ compiler of this machine. Raises `EnvironmentError_` where there is none."""
    found = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if found is None:
        raise EnvironmentError_("emulating a GPU needs a C++ compiler: install g++ (Debian: apt install g++)")
    return found


# the check of jumps, which some compilers bring by default, knows one stack only
_OPTIONS = [
    *("-std=c++17", "-O1", "-march=native", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE"),
    *("-fPIC", "-fwrapv", "-pthread", "-w"),
]
#: Folders of precompiled headers, which end with the process.
_kept: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def _header(compiler: str, names: Sequence[str]) -> Path:
    """The headers `names` as one file, precompiled where the compiler can: parsing it takes half of a compilation."""
    _kept.append(tempfile.TemporaryDirectory(prefix="tilewright-gpu-"))
    folder = resources.files("tilewright.runtime.gpu")
    header = Path(_kept[-1].name, "emulation.h")
    header.write_text("\n".join(folder.joinpath(name).read_text() for name in names) + "\n" + _SHARED)
    command = [compiler, *_OPTIONS, "-x", "c++-header", "-o", f"{header}.gch", str(header)]
    subprocess.run(command, capture_output=True, check=False)
    return header


def _compile(text: str, headers: Sequence[str]) -> ctypes.CDLL:
    compiler = cpp_compiler()
    with tempfile.TemporaryDirectory(prefix="tilewright-gpu-") as directory:
        source, made = Path(directory, "kernels.cpp"), Path(directory, "kernels.so")
        source.write_text(_INCLUDE.sub("", text))
        included = ["-include", str(_header(compiler, headers))]
        command = [compiler, *_OPTIONS, "-shared", *included, "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InternalError(f"{compiler} refused generated code:\n{done.stderr[-2000:]}")
        return ctypes.CDLL(str(made))


@functools.cache
def emulated_device(language: str) -> EmulatedDevice:
    """The emulated device for one of `HEADERS`."""
    return EmulatedDevice(language)
