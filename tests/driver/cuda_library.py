"""A shared library with the names of NVIDIA's driver whose functions are those of a stand-in in this process."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

from tests.runtime.gpu.emulating_driver import EmulatingDriver
from tilewright.runtime.gpu.cuda_driver import SIGNATURES

_C = {
    ctypes.c_int: "int",
    ctypes.c_uint: "unsigned",
    ctypes.c_size_t: "size_t",
    ctypes.c_void_p: "void *",
    ctypes.c_uint64: "uint64_t",
    ctypes.c_char_p: "const char *",
}
_MORE: dict[str, tuple[Any, ...]] = {"cuStreamSynchronize": (ctypes.c_void_p,)}


def cuda_library(folder: Path, driver: EmulatingDriver) -> Path:
    """The library; this process has it loaded, so that others that open it here get the stand-in's functions."""
    signatures = SIGNATURES | _MORE
    lines = ["#include <stddef.h>", "#include <stdint.h>"]
    for name, types in signatures.items():
        listed = ", ".join(f"{_C[kind]} a{i}" for i, kind in enumerate(types))
        passed = ", ".join(f"a{i}" for i in range(len(types)))
        lines += [f"int (*to_{name})({listed});", f"int {name}({listed}) {{ return to_{name}({passed}); }}"]
    source, library = folder / "driver.c", folder / "libstandin.so"
    source.write_text("\n".join(lines))
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    driver.cuStreamSynchronize = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda stream: 0)
    for name in signatures:
        ctypes.c_void_p.in_dll(loaded, f"to_{name}").value = ctypes.cast(getattr(driver, name), ctypes.c_void_p).value
    driver.library = loaded  # keeps it loaded as long as the stand-in
    return library
