"""Models as static programs under seccomp: the ordinary results, and every way out of the program closed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import convolution
from tilewright.compile import export_source
from tilewright.enclave import EnclaveSource, SeccompModel, allowed_symbols, open_enclave, undefined_symbols
from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime.c_interface import INTERFACE_ERRORS, KERNEL_ERROR, CInterface
from tilewright.runtime.processor import host_architecture
from tilewright.runtime.signature import TensorSpec
from tilewright.support.dtype import DType

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
    pytest.mark.skipif(
        sys.platform != "linux" or host_architecture() != "x86_64", reason="the program is for Linux on x86-64"
    ),
]

#: A model that does what its input tells it to.
_FAULTY = """
#include "net.h"
static void smash(volatile int32_t many) {
  volatile char array[16];
  int32_t i;
  for (i = 0; i < many * 16; i++) array[i] = 0;
}
int tilewright_net_run(const void *const *inputs, void *const *outputs, void *workspace, size_t size) {
  const int32_t what = *(const int32_t *)inputs[0];
  int32_t *out = outputs[0];
  long number = 39; /* getpid */
  (void)size;
  *out = 2 * what;
  switch (what) {
    case 1: __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory"); break;
    case 2: ((char *)out)[4] = 1; break;
    case 3: ((char *)workspace)[-1] = 1; break;
    case 4: smash(what); break;
    case 5: return 5;
    case 6: *out += ((const volatile char *)inputs[0])[4]; break;
    default: break;
  }
  return 0;
}
"""
_HEADER = """
#include <stddef.h>
#include <stdint.h>
int tilewright_net_run(const void *const *inputs, void *const *outputs, void *workspace, size_t size);
"""


def _source(folder: Path, text: str) -> EnclaveSource:
    """Hand-written C as a model of one number."""
    (folder / "net.c").write_text(text)
    (folder / "net.h").write_text(_HEADER)
    one = (TensorSpec("x", (), DType("int32")),), (TensorSpec("y", (), DType("int32")),)
    interface = CInterface("net", *one, (), 0, 0, 0, 100, 0, 1, (*INTERFACE_ERRORS, KERNEL_ERROR))
    return EnclaveSource("net", interface, folder / "net.c", folder / "net.h", None, "c", "1")


def test_results_are_the_ordinary_ones(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12), dtype=np.float32)
    files = export_source(convolution(), tmp_path / "net.c", freestanding=True)
    model = open_enclave(files, "seccomp")
    want = tw.compile(convolution(), target="c", threads=1)(x)
    for _ in range(3):
        np.testing.assert_array_equal(model(x), want)
    assert len(model.time({"image": x}, repeat=2)) == 2
    model.close()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> EnclaveSource:
    return _source(tmp_path_factory.mktemp("faulty"), _FAULTY)


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (1, EnvironmentError_, "SIGKILL.*a system call other than read, write and exit"),
        (2, EnvironmentError_, "SIGSEGV.*touched a page outside of its memory"),
        (3, EnvironmentError_, "wrote outside of its memory"),
        (4, EnvironmentError_, "status 5.*past the end of an array on its stack"),
        (5, InputError, "a check within a kernel failed"),
        (6, EnvironmentError_, "SIGSEGV"),
    ],
)
def test_faults_are_caught(faulty: EnclaveSource, what: int, error: type[Exception], message: str) -> None:
    model = SeccompModel(faulty)
    assert model(np.int32(7)) == 14
    with pytest.raises(error, match=message):
        model(np.int32(what))
    model.close()


def test_calls_of_a_library_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the C source calls sinf, which an enclave does not have"):
        SeccompModel(_source(tmp_path, f"float sinf(float x);\n{_FAULTY.replace('2 * what', '(int)sinf(what)')}"))


def test_symbols_of_an_object(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int f(int); int g(int x) { return f(x); }")
    subprocess.run(["cc", "-c", "a.c"], cwd=tmp_path, check=True)
    code = (tmp_path / "a.o").read_bytes()
    assert undefined_symbols(code) == {"f"}
    allowed_symbols(code, ["f"])
    with pytest.raises(InputError, match="calls f"):
        allowed_symbols(code)


def test_other_requests_are_errors(tmp_path: Path) -> None:
    files = export_source(convolution(), tmp_path / "net.c", freestanding=True)
    with pytest.raises(InputError, match="'sgx' is no kind of enclave; known: seccomp, wasm"):
        open_enclave(files, "sgx")
    model = open_enclave(files, "seccomp")
    with pytest.raises(UnsupportedError, match="kernels are not timed"):
        model.profile({})
    with pytest.raises(UnsupportedError, match="written as C"):
        model.save("x.tw")
