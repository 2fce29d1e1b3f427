"""Code for other processors: linked into a program without any library and run by qemu's user mode."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backend.cpu.schedule.test_half_intrin import assert_sums
from tilewright import te, tir, topi
from tilewright.backend.cpu.schedule.dispatch import schedule
from tilewright.codegen.kernel_code import for_c
from tilewright.codegen.llvm import compile_object, emit_module
from tilewright.codegen.source.c import emit_c
from tilewright.target import Target
from tilewright.topi.bitserial_form import METHODS, POPCOUNT, BitSerial
from tilewright.topi.reference.bitserial import pack_weight
from tilewright.topi.reference.conv import conv2d_nchw
from tilewright.topi.reference.layout import layout_transform

#: Reads all arrays from standard input, runs the kernel on one worker, writes all arrays back. System calls 63, 64 and
#: 93 are read, write and exit on both architectures.
DRIVER = r"""
typedef struct { int worker, workers; void* barrier; } context;
extern int f__entry(void** slots, const context* ctx);
void tilewright_barrier(const context* ctx) { (void)ctx; }
static long call(long number, long a, long b, long c) {
#if defined(__aarch64__)
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#else
  register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
  return a0;
#endif
}
static const long sizes[] = {SIZES};
enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
static char memory[COUNT][LARGEST] __attribute__((aligned(64))), work[2][1 << 16] __attribute__((aligned(64)));
static void transfer(long number, long file) {
  for (int i = 0; i < COUNT; ++i)
    for (long done = 0; done < sizes[i];) {
      long n = call(number, file, (long)(memory[i] + done), sizes[i] - done);
      if (n <= 0) call(93, 99, 0, 0);
      done += n;
    }
}
void _start(void) {
  void* slots[COUNT + 2];
  context ctx = {0, 1, 0};
  for (int i = 0; i < COUNT; ++i) slots[i] = memory[i];
  for (int i = 0; i < 2; ++i) slots[COUNT + i] = work[i];
  transfer(63, 0);
  int code = f__entry(slots, &ctx);
  transfer(64, 1);
  call(93, code, 0, 0);
}
"""
PROCESSORS = {
    "llvm -mtriple=aarch64-linux-gnu": ("qemu-aarch64", "aarch64-linux-musl"),
    "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1": ("qemu-aarch64", "aarch64-linux-musl"),
    "llvm -mtriple=riscv64-linux-gnu": ("qemu-riscv64", "riscv64-linux-musl"),
}


@pytest.fixture(params=PROCESSORS)
def execute(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A function that compiles a lowered function for another processor and runs it on arrays, in place."""
    emulator, triple = PROCESSORS[request.param]
    target = Target(request.param)

    def run(func: tir.PrimFunc, *arrays: np.ndarray) -> None:
        (tmp_path / "kernel.o").write_bytes(compile_object(emit_module([func], target).text, target))
        run_there("kernel.o", emulator, triple, tmp_path, arrays)

    return run


def run_there(kernel: str, emulator: str, triple: str, folder: Path, arrays: Sequence[np.ndarray]) -> None:
    """Link the file `kernel` of `folder` with the driver, and run it on `arrays`, in place."""
    if shutil.which(emulator) is None:
        pytest.skip(f"needs {emulator} (Debian: apt install qemu-user)")
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs the package ziglang, which links for other processors")
    (folder / "driver.c").write_text(DRIVER)
    sizes = [array.nbytes for array in arrays]
    macros = [f"-DSIZES={','.join(map(str, sizes))}", f"-DLARGEST={-(-max(sizes) // 64) * 64}"]
    options = ["-nostdlib", "-static", "-O1", "-fno-sanitize=all", "-fno-stack-protector", "-fwrapv", "-I.", *macros]
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", triple, *options]
    subprocess.run([*compiler, "driver.c", kernel, "-o", "program"], cwd=folder, check=True)
    given = b"".join(array.tobytes() for array in arrays)
    done = subprocess.run([emulator, str(folder / "program")], input=given, capture_output=True, check=True)
    position = 0
    for array in arrays:
        array[...] = np.frombuffer(done.stdout, array.dtype, array.size, position).reshape(array.shape)
        position += array.nbytes


def test_vectors_of_exponentials_agree_with_numpy(execute: Any) -> None:
    a = te.placeholder((37, 16), name="A")
    b = te.compute((37, 16), lambda i, j: tir.exp(a(i, j)) * 2.0 + tir.tanh(a(i, j)), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[1])
    s[b].parallel(b.op.axis[0])
    x = np.random.default_rng(0).standard_normal((37, 16)).astype("float32")
    y = np.zeros_like(x)
    execute(te.lower(s, [a, b], name="f"), x, y)
    np.testing.assert_allclose(y, 2 * np.exp(x) + np.tanh(x), rtol=1e-5, atol=1e-6)


def test_a_tiled_product_agrees_with_numpy(execute: Any) -> None:
    a, b = te.placeholder((30, 40), name="A"), te.placeholder((40, 50), name="B")
    k = te.reduce_axis((0, 40), name="k")
    c = te.compute((30, 50), lambda i, j: te.sum(a(i, k) * b(k, j), axis=k), name="C")
    s = te.create_schedule(c.op)
    rows, columns, row, column = s[c].tile(*c.op.axis, 4, 8)
    s[c].reorder(rows, columns, k, row, column)
    s[c].vectorize(column)
    s[c].unroll(row)
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((30, 40)).astype("float32"), rng.standard_normal((40, 50)).astype("float32")
    out = np.zeros((30, 50), "float32")
    execute(te.lower(s, [a, b, c], name="f"), x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int64", "float64", "bool"])
def test_kernels_of_every_element_type_agree_with_numpy(execute: Any, dtype: str) -> None:
    a = te.placeholder((67,), dtype, name="A")
    b = te.compute((67,), lambda i: tir.any(a(i), a(66 - i)) if dtype == "bool" else a(i) * a(66 - i) + a(i), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=16)[1])
    x = np.random.default_rng(2).integers(0, 3 if dtype == "bool" else 90, 67).astype(dtype)
    y = np.zeros_like(x)
    execute(te.lower(s, [a, b], name="f"), x, y)
    np.testing.assert_array_equal(y, x | x[::-1] if dtype == "bool" else x * x[::-1] + x)


@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_dot_products_of_bytes(execute: Any, data: str) -> None:
    a, w = te.placeholder((6, 24), data, name="A"), te.placeholder((2, 6, 8, 4), "int8", name="W")
    out = topi.nn.dense_dot(a, w)
    target = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1")
    rng = np.random.default_rng(3)
    low = 0 if data == "uint8" else -128
    x, weight = rng.integers(low, low + 256, (6, 24)).astype(data), rng.integers(-128, 128, (16, 24)).astype("int8")
    packed, result = layout_transform(weight, "NC", "NC8n4c"), np.zeros((6, 16), "int32")
    execute(te.lower(schedule([out], target), [a, w, out], name="f"), x, np.ascontiguousarray(packed), result)
    np.testing.assert_array_equal(result, x.astype("int32") @ weight.T.astype("int32"))


@pytest.mark.parametrize(
    ("data", "weight", "cpu", "instruction"),
    [
        ("int8", "int8", "neoverse-n1", "neon.sdot"),
        ("uint8", "uint8", "neoverse-n1", "neon.udot"),
        ("uint8", "int8", "neoverse-v1", "neon.usdot"),
        ("int8", "uint8", "neoverse-v1", "neon.usdot"),
        ("uint8", "int8", "neoverse-n1", "mul <4 x i32>"),
    ],
)
def test_the_dot_product_of_each_processor(data: str, weight: str, cpu: str, instruction: str) -> None:
    a, w = te.placeholder((2, 8), data, name="A"), te.placeholder((1, 2, 4, 4), weight, name="W")
    target = Target(f"llvm -mtriple=aarch64-linux-gnu -mcpu={cpu}")
    out = topi.nn.dense_dot(a, w)
    assert instruction in emit_module([te.lower(schedule([out], target), [a, w, out])], target).text


def test_products_of_float16(tmp_path: Path) -> None:
    """In arithmetic of float16, compiled for a processor that has it."""
    target = Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1")
    a, w = te.placeholder((9, 70), "float16", name="A"), te.placeholder((2, 35, 16, 2), "float16", name="W")
    out = topi.nn.dense_dot(a, w)
    func = te.lower(schedule([out], target), [a, w, out], "f", target=target)
    (tmp_path / "kernel.o").write_bytes(compile_object(emit_module([func], target).text, target))
    x, weight = (np.random.default_rng(2).standard_normal((n, 70)).astype(np.float16) for n in (9, 32))
    found = np.zeros((9, 32), "float32")
    packed = layout_transform(weight, "NC", "NC16n2c")
    run_there("kernel.o", "qemu-aarch64", "aarch64-linux-musl", tmp_path, [x, packed, found])
    assert_sums(found, x, weight)


def _few_bits(method: str, target: Target, lanes: int) -> tuple[tir.PrimFunc, list[np.ndarray], np.ndarray]:
    """A convolution of two bits by two, its operands and its result."""
    rng, how = np.random.default_rng(4), BitSerial(method, 40, data_bits=2, scale=2, offset=3)
    weight = rng.integers(0, 4, (40, 3, 3, 24))
    packed = pack_weight(weight, 2, how.data_bits, method, lanes)
    a, w = te.placeholder((1, 6, 7, 24), "uint8", name="A"), te.placeholder(packed.shape, str(packed.dtype), name="W")
    out = topi.nn.bitserial_conv2d_pack(a, w, how, (1, 2), (1, 1, 1, 1))
    x = rng.integers(0, 256, (1, 6, 7, 24)).astype("uint8")
    kernel, images = (2 * weight - 3).transpose(0, 3, 1, 2), (x & 3).astype("int32").transpose(0, 3, 1, 2)
    expected = conv2d_nchw(images, kernel, (1, 2), (1, 1, 1, 1)).transpose(0, 2, 3, 1)
    return te.lower(schedule([out], target), [a, w, out], "f", target=target), [x, packed], expected


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.sample(3)
def test_products_of_few_bits(execute: Any, method: str) -> None:
    target = Target("llvm -mtriple=aarch64-linux-gnu")
    func, operands, expected = _few_bits(method, target, 4 if method == POPCOUNT else 16)
    found = np.zeros_like(expected)
    execute(func, *operands, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", METHODS)
def test_their_c_source(tmp_path: Path, method: str) -> None:
    func, operands, expected = _few_bits(method, Target("c"), 4 if method == POPCOUNT else 16)
    (tmp_path / "kernel.c").write_text(emit_c(for_c([func], Target("c"))).text)
    (tmp_path / "math.h").write_text("")  # there is no library
    found = np.zeros_like(expected)
    run_there("kernel.c", "qemu-aarch64", "aarch64-linux-musl", tmp_path, [*operands, found])
    np.testing.assert_array_equal(found, expected)
