"""CUDA without a GPU: the kernels' own text compiled as C++ and run on the host, for checking results.

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

_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(([^)]*)\)')


class EmulatedDevice:
    """CUDA C++ on the host's processor."""

    name = "CUDA emulated on the host"

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
        library = _compile(source + "\n" + _launchers(source))
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
                f"kernel {self.name}: some threads of a block ended while others waited at a barrier; the code would hang "
                "on a device"
            )
        del alive


def _launchers(source: str) -> str:
    """One C function per kernel that takes the extents and the slots of the arguments."""
    parts = []
    for name, parameters in _KERNEL.findall(source):
        arguments = []
        for i, parameter in enumerate(filter(None, (p.strip() for p in parameters.split(",")))):
            kind = parameter.rsplit(" ", 1)[0].replace("__restrict__", "").strip()
            arguments.append(f"({kind})slots[{i}]" if kind.endswith("*") else f"*({kind}*)slots[{i}]")
        call = f"{name}({', '.join(arguments)})"
        parts.append(
            f'extern "C" int tilewright_emulate_{name}(int gx, int gy, int gz, int bx, int by, int bz, void** slots) {{\n'
            f"  return tilewright_run_blocks(gx, gy, gz, bx, by, bz, [&] {{ {call}; }});\n}}"
        )
    return "\n".join(parts)


def _compile(text: str) -> ctypes.CDLL:
    compiler = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
    if compiler is None:
        raise EnvironmentError_("emulating CUDA needs a C++ compiler: install g++ (Debian: apt install g++)")
    header = resources.files("tilewright.runtime.gpu").joinpath("cuda_emulation.h").read_text()
    with tempfile.TemporaryDirectory(prefix="tilewright-cuda-") as directory:
        source, made = Path(directory, "kernels.cpp"), Path(directory, "kernels.so")
        source.write_text(header + "\n" + text)
        options = ("-std=c++17", "-O1", "-shared", "-fPIC", "-fwrapv", "-w", "-o")
        done = subprocess.run([compiler, *options, str(made), str(source)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise InternalError(f"{compiler} refused generated CUDA code:\n{done.stderr[-2000:]}")
        return ctypes.CDLL(str(made))


@functools.cache
def emulated_device() -> EmulatedDevice:
    """The one emulated device."""
    return EmulatedDevice()
