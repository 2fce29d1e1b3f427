"""CUDA and Metal without a GPU: the kernels' own text compiled as C++ and run on the host, for checking results.

Every thread of a block is a fiber; `__syncthreads` and `__syncwarp` switch to the next one. A block in which some
threads end while others wait at a barrier is reported: on a real device it would hang. Blocks run one after the other.
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
from tilewright.runtime.gpu.api import Extent3, Kernel
from tilewright.runtime.memory import aligned_empty

_KERNEL = re.compile(
    r'^(?:extern "C" __global__|kernel) void (?:__launch_bounds__\(\d+\) )?(\w+)\((.*)\) \{$', re.MULTILINE
)
_INCLUDE = re.compile(r"^#include <(?:metal_stdlib|mma\.h|cuda_fp16\.h)>$", re.MULTILINE)
#: Parameters of Metal's kernels that say where a thread is.
_POSITIONS = {"blockIdx": "blockIdx", "threadIdx": "threadIdx", "laneIdx": "tilewright_current % 32"}
_ATTRIBUTE = re.compile(r"\[\[.*?\]\]")


class EmulatedDevice:
    """The host's processor, for the text of one of the languages in `HEADERS`."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.name = f"{language} emulated on the host"

    def allocate(self, nbytes: int) -> Any:
        """Host memory, as bytes."""
        return aligned_empty((nbytes,), np.dtype(np.uint8))

    def write(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to `buffer`."""
        buffer[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def read(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Fill a contiguous array from `buffer`."""
        array.reshape(-1).view(np.uint8)[...] = buffer[: array.nbytes]

    def compile(self, source: str, kernels: Sequence[str]) -> dict[str, Kernel]:
        """A shared object of the kernels with the emulation around them."""
        library = _compile(source + "\n" + _launchers(source), HEADERS[self.language])
        return {name: _Kernel(name, library) for name in kernels}

    def synchronize(self) -> None:
        """Nothing is queued: a launch returns when it is done."""


class _Kernel:
    def __init__(self, name: str, library: ctypes.CDLL) -> None:
        self.name = name
        self._library = library  # keeps the code alive
        self._run = getattr(library, f"tilewright_emulate_{name}")

    def launch(self, grid: Extent3, block: Extent3, args: Sequence[Any]) -> None:
        """Run all blocks."""
        slots = (ctypes.c_void_p * max(1, len(args)))()
        alive = []
        for i, arg in enumerate(args):
            held = np.asarray(arg) if np.ndim(arg) == 0 else arg
            alive.append(held)
            # A kernel's parameter is read through the slot: a buffer's address itself, a scalar through its address.
            slots[i] = held.ctypes.data
        code = self._run(*grid, *block, slots)
        if code:
            raise InternalError(
                f"kernel {self.name}: some threads of a block ended while others waited at a barrier; on a device it "
                "would hang"
            )
        del alive


def _launchers(source: str) -> str:
    """One C function per kernel that takes the extents and the slots of the arguments."""
    parts = []
    for name, parameters in _KERNEL.findall(source):
        arguments = []
        for i, parameter in enumerate(filter(None, (p.strip() for p in _ATTRIBUTE.sub("", parameters).split(",")))):
            kind, _, given = parameter.replace("__restrict__", "").rpartition(" ")
            kind = kind.strip().rstrip("&")
            if given in _POSITIONS:
                arguments.append(_POSITIONS[given])
            else:
                arguments.append(f"({kind})slots[{i}]" if kind.endswith("*") else f"*({kind}*)slots[{i}]")
        call = f"{name}({', '.join(arguments)})"
        head = f'extern "C" int tilewright_emulate_{name}(int gx, int gy, int gz, int bx, int by, int bz, void** slots)'
        parts.append(f"{head} {{\n  return tilewright_run_blocks(gx, gy, gz, bx, by, bz, [&] {{ {call}; }});\n}}")
    return "\n".join(parts)


#: The headers that give C++ the words of each language.
HEADERS = {"cuda": ("fibers.h", "cuda_emulation.h"), "metal": ("fibers.h", "metal_emulation.h")}


def _compile(text: str, headers: Sequence[str]) -> ctypes.CDLL:
    compiler = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
    if compiler is None:
        raise EnvironmentError_("emulating a GPU needs a C++ compiler: install g++ (Debian: apt install g++)")
    folder = resources.files("tilewright.runtime.gpu")
    header = "\n".join(folder.joinpath(name).read_text() for name in headers)
    with tempfile.TemporaryDirectory(prefix="tilewright-gpu-") as directory:
        source, made = Path(directory, "kernels.cpp"), Path(directory, "kernels.so")
        source.write_text(header + "\n" + _INCLUDE.sub("", text))
        # the check of jumps, which some compilers bring by default, knows one stack only
        options = ("-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-shared", "-fPIC", "-fwrapv", "-w", "-o")
        done = subprocess.run([compiler, *options, str(made), str(source)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise InternalError(f"{compiler} refused generated code:\n{done.stderr[-2000:]}")
        return ctypes.CDLL(str(made))


@functools.cache
def emulated_device(language: str) -> EmulatedDevice:
    """The emulated device for one of `HEADERS`."""
    return EmulatedDevice(language)
