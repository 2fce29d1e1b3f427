"""Exported libraries, called from a small C program, by the system's compiler and by ziglang's."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime import export
from tilewright.runtime.executor import Executable

W = np.arange(8, dtype=np.float32)
B = np.full(8, 0.5, np.float32)
ZIG = [sys.executable, "-m", "ziglang", "cc"]

PROGRAM = """
#include <stdio.h>
#include "tiny.h"
int main(void) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8];
    int z = -1;
    const void *inputs[TILEWRIGHT_TINY_INPUTS] = {x};
    void *outputs[TILEWRIGHT_TINY_OUTPUTS] = {y, &z};
    int code = tilewright_tiny(inputs, outputs);
    printf("%d %d %g %g\\n", code, z, y[0], y[7]);
    return 0;
}
"""

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")


@pytest.fixture
def exe(kernels: ModuleType) -> Executable:
    return Executable(kernels.object_of(kernels.MODEL), kernels.MANIFEST, [W, B])


@needs_cc
def test_a_c_program_calls_the_library(exe: Executable, tmp_path: Path) -> None:
    library, header = exe.export_library(tmp_path / "libtiny.so")
    assert (library, header) == (tmp_path / "libtiny.so", tmp_path / "tiny.h")
    (tmp_path / "program.c").write_text(PROGRAM)
    flags = ["-Wall", "-Wextra", "-Werror", "-std=c99", "-pedantic"]
    build = ["cc", *flags, "program.c", "-L.", "-ltiny", "-Wl,-rpath,$ORIGIN", "-o", "program"]
    subprocess.run(build, cwd=tmp_path, check=True)
    done = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "0 1 0.5 56.5\n"
    assert sorted(os.listdir(tmp_path)) == ["libtiny.so", "program", "program.c", "tiny.h"]


@pytest.mark.parametrize("linker", [pytest.param(None, marks=needs_cc), pytest.param(ZIG, marks=needs_zig)])
def test_the_library_in_this_process(exe: Executable, tmp_path: Path, linker: list[str] | None) -> None:
    path = tmp_path / "model-1.so"
    library, header = export.export_library(path, exe.manifest, exe.object_code, exe._weights, linker=linker)
    assert header.name == "model_1.h"
    entry = ctypes.CDLL(str(library)).tilewright_model_1
    x, y, z = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.zeros(1, np.int32)
    assert entry((ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 2)(y.ctypes.data, z.ctypes.data)) == 0
    np.testing.assert_array_equal(y, x * W + 0.5)
    x[:] = np.nan
    assert entry((ctypes.c_void_p * 1)(x.ctypes.data), (ctypes.c_void_p * 2)(y.ctypes.data, z.ctypes.data)) == 1
    with pytest.raises(AttributeError):
        ctypes.CDLL(str(library)).main__entry  # noqa: B018 - only the entry is visible


def test_header_describes_the_model(kernels: ModuleType) -> None:
    text = export.header_text("tiny", kernels.MANIFEST)
    assert "[0] x: float32[2, 4], 32 bytes" in text and "[1] z: int32[], 4 bytes" in text
    assert "compiled by Tilewright 0.1.0 for llvm -mcpu=test" in text
    odd = {**kernels.MANIFEST, "target": "evil */ int x; /*"}
    assert export.header_text("tiny", odd).count("*/") == export.header_text("tiny", kernels.MANIFEST).count("*/")


def test_without_a_compiler(exe: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentError_, match=r"needs a C compiler .*tilewright\[export\]"):
        exe.export_library(tmp_path / "libtiny.so")
    assert os.listdir(tmp_path) == []


def test_a_linker_that_fails(exe: Executable, tmp_path: Path) -> None:
    arguments = (exe.manifest, exe.object_code, exe._weights)
    failing = [sys.executable, "-c", "import sys; sys.exit('no such architecture')"]
    with pytest.raises(EnvironmentError_, match=r"linking the library failed.*\nno such architecture"):
        export.export_library(tmp_path / "libtiny.so", *arguments, linker=failing)
    with pytest.raises(EnvironmentError_, match="cannot run the linker /absent/cc: No such file"):
        export.export_library(tmp_path / "libtiny.so", *arguments, linker=["/absent/cc"])
    assert os.listdir(tmp_path) == []


@needs_cc
def test_names_and_places(exe: Executable, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be made into a C name"):
        exe.export_library(tmp_path / "lib.so", name="--")
    with pytest.raises(EnvironmentError_, match=r"cannot write .*absent/libtiny\.so: No such file"):
        exe.export_library(tmp_path / "absent" / "libtiny.so")
