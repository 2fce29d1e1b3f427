"""Exported libraries, called from C programs and through ctypes, linked by the system's compiler and by ziglang's."""

from __future__ import annotations

import _ctypes
import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime import export
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.c_source import functions_text, header_text
from tilewright.runtime.executor import Executable

W = np.arange(8, dtype=np.float32)
B = np.full(8, 0.5, np.float32)
ZIG = [sys.executable, "-m", "ziglang", "cc"]
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]

PROGRAM = """
#include <stdio.h>
#include "tiny.h"
int main(void) {
    static char workspace[TILEWRIGHT_TINY_WORKSPACE_BYTES(2)];
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8];
    int z = -1, code;
    const void *inputs[TILEWRIGHT_TINY_INPUTS];
    void *outputs[TILEWRIGHT_TINY_OUTPUTS];
    inputs[0] = x; outputs[0] = y; outputs[1] = &z;
    if (tilewright_tiny_workspace_bytes(2) != (int64_t)sizeof workspace) return 9;
    code = tilewright_tiny(inputs, outputs, workspace, 2);
    printf("%d %d %g %g %s", code, z, y[0], y[7], tilewright_tiny_error_text(code));
    code = tilewright_tiny(inputs, outputs, 0, 1);
    printf(", %s", tilewright_tiny_error_text(code));
    inputs[0] = 0;
    printf(", %s", tilewright_tiny_error_text(tilewright_tiny(inputs, outputs, workspace, 1)));
    printf(", %s", tilewright_tiny_error_text(tilewright_tiny(inputs, outputs, workspace, 0)));
    printf(", %s\\n", tilewright_tiny_error_text(77));
    return 0;
}
"""
PRINTED = "0 2 0.5 56.5 success, a pointer is null, a pointer is null, threads must be at least 1, unknown error\n"

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")


@pytest.fixture
def exe(kernels: ModuleType) -> Executable:
    return Executable(kernels.object_of(kernels.MODEL), kernels.MANIFEST, [W, B])


def built(folder: Path, *arguments: str) -> str:
    """The output of the program built from `program.c` with `arguments`."""
    subprocess.run([*arguments, "-o", "program"], cwd=folder, check=True)
    return subprocess.run(["./program"], cwd=folder, capture_output=True, text=True, check=True).stdout


@needs_cc
def test_a_c_program_calls_the_library(exe: Executable, tmp_path: Path) -> None:
    library, header = exe.export_library(tmp_path / "libtiny.so")
    assert (library, header) == (tmp_path / "libtiny.so", tmp_path / "tiny.h")
    (tmp_path / "program.c").write_text(PROGRAM)
    arguments = ["cc", *STRICT, "-std=c99", "program.c", "-L.", "-ltiny", "-Wl,-rpath,$ORIGIN"]
    assert built(tmp_path, *arguments) == PRINTED
    assert sorted(os.listdir(tmp_path)) == ["libtiny.so", "program", "program.c", "tiny.h"]


@needs_cc
@pytest.mark.skipif(shutil.which("objcopy") is None, reason="no objcopy on PATH")
@pytest.mark.parametrize("name", ["libtiny.a", "tiny.o"])
def test_two_models_linked_into_one_program(name: str, exe: Executable, tmp_path: Path) -> None:
    exe.export_library(tmp_path / name)
    exe.export_library(tmp_path / f"other{Path(name).suffix}")
    (tmp_path / "program.c").write_text(PROGRAM.replace('tiny.h"', 'tiny.h"\n#include "other.h"'))
    objects = [name, f"other{Path(name).suffix}"]
    assert built(tmp_path, "cc", *STRICT, "-std=c99", "program.c", *objects, "-lm", "-pthread") == PRINTED


@needs_cc
@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on PATH")
def test_the_header_and_the_functions_are_clean(kernels: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "tiny.h").write_text(header_text("tiny", kernels.MANIFEST))
    (tmp_path / "tiny.cpp").write_text('#include "tiny.h"\n')
    (tmp_path / "tiny.c").write_text(
        '#include "tiny.h"\nstatic const unsigned char tilewright_weights[1];\nstatic int run(void** slots)'
        f" {{ return slots[0] == 0; }}\n{functions_text('tiny', CInterface.of(kernels.MANIFEST), 'run(slots)')}"
    )
    subprocess.run(["cc", *STRICT, "-std=c99", "-c", "tiny.c"], cwd=tmp_path, check=True)
    subprocess.run(["c++", *STRICT, "-std=c++11", "-c", "tiny.cpp"], cwd=tmp_path, check=True)


def call(function: Any, inputs: list[np.ndarray], outputs: list[np.ndarray], threads: int) -> int:
    """Call a library of fixed sizes."""
    workspace = np.zeros(1 << 16, np.uint8)
    given, filled = ((ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]) for arrays in (inputs, outputs))
    return int(function(given, filled, ctypes.c_void_p(workspace.ctypes.data), threads))


@pytest.mark.parametrize("linker", [pytest.param(None, marks=needs_cc), pytest.param(ZIG, marks=needs_zig)])
def test_the_library_in_this_process(exe: Executable, tmp_path: Path, linker: list[str] | None) -> None:
    path = tmp_path / "model-1.so"
    library, header = export.export_library(path, exe.manifest, exe.object_code, exe._weights, linker=linker)
    assert header.name == "model_1.h"
    loaded = ctypes.CDLL(str(library))
    x, y, z = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.zeros(1, np.int32)
    for threads in (1, 2, 3):
        y[:] = 0
        assert call(loaded.tilewright_model_1, [x], [y, z], threads) == 0 and z == threads
        np.testing.assert_array_equal(y, x * W + 0.5)
    x[:] = np.nan
    assert call(loaded.tilewright_model_1, [x], [y, z], 1) == 5
    loaded.tilewright_model_1_error_text.restype = ctypes.c_char_p
    assert loaded.tilewright_model_1_error_text(5) == b"a check within a kernel failed"
    with pytest.raises(AttributeError):
        loaded.main__entry  # noqa: B018 - only the model's functions are visible


@needs_cc
def test_a_forked_process_makes_threads_of_its_own(exe: Executable, tmp_path: Path) -> None:
    library, _ = exe.export_library(tmp_path / "libtiny.so")
    function = ctypes.CDLL(str(library)).tilewright_tiny
    x, y, z = np.ones(8, np.float32), np.zeros(8, np.float32), np.zeros(1, np.int32)
    assert call(function, [x], [y, z], 2) == 0
    child = os.fork()
    if child == 0:
        os._exit(10 * call(function, [x], [y, z], 2) + int(z[0]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


@needs_cc
def test_calls_from_several_threads_at_a_time(exe: Executable, tmp_path: Path) -> None:
    library, _ = exe.export_library(tmp_path / "libtiny.so")
    function = ctypes.CDLL(str(library)).tilewright_tiny

    def many(seed: int) -> bool:
        x, y, z = np.full(8, seed, np.float32), np.zeros(8, np.float32), np.zeros(1, np.int32)
        threads = 1 + seed % 3
        for _ in range(200):
            y[:] = -1
            if call(function, [x], [y, z], threads) or z != threads or not np.array_equal(y, x * W + 0.5):
                return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(many, range(6)))


@needs_cc
def test_a_library_can_be_unloaded(exe: Executable, tmp_path: Path) -> None:
    library, _ = exe.export_library(tmp_path / "libtiny.so")
    x, y, z = np.ones(8, np.float32), np.zeros(8, np.float32), np.zeros(1, np.int32)
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        loaded = ctypes.CDLL(str(library))
        assert call(loaded.tilewright_tiny, [x], [y, z], 3) == 0 and z == 3
        assert len(os.listdir("/proc/self/task")) == before + 2
        _ctypes.dlclose(loaded._handle)
        assert len(os.listdir("/proc/self/task")) == before
        assert str(library) not in Path("/proc/self/maps").read_text()


def test_header_describes_the_model(kernels: ModuleType) -> None:
    text = header_text("tiny", kernels.MANIFEST)
    assert "[0] x: float32[2, 4], 32 bytes" in text and "[1] z: int32[], 4 bytes" in text
    assert "compiled by Tilewright 0.1.0 for llvm -mcpu=test" in text
    odd = replace(kernels.MANIFEST, target="evil */ int x; /*")
    assert header_text("tiny", odd).count("*/") == header_text("tiny", kernels.MANIFEST).count("*/")


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
def test_a_static_library_without_binutils(exe: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if "objcopy" in name else found(name))
    with pytest.raises(EnvironmentError_, match=r"needs objcopy, and none was found; install binutils"):
        exe.export_library(tmp_path / "libtiny.a")
    assert os.listdir(tmp_path) == []


@needs_cc
def test_names_and_positions(exe: Executable, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be made into a C name"):
        exe.export_library(tmp_path / "lib.so", name="--")
    with pytest.raises(InputError, match=r"ends in one of \.so, \.a, \.o; 'tiny\.dll' does not"):
        exe.export_library(tmp_path / "tiny.dll")
    with pytest.raises(EnvironmentError_, match=r"cannot write .*absent/libtiny\.so: No such file"):
        exe.export_library(tmp_path / "absent" / "libtiny.so")


def test_more_weights_than_a_library_holds(exe: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_MOST_WEIGHTS", 60)
    with pytest.raises(UnsupportedError, match=r"at most 60 bytes of weights, the model has \d+; save it as"):
        exe.export_library(tmp_path / "libtiny.so")
