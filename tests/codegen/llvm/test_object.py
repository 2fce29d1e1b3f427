"""Object code and assembly: a register-tiled matrix product compiles to the textbook loop, on each architecture."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright.backend import build
from tilewright.codegen.llvm import assembly, compile_object, compile_timed, emit
from tilewright.errors import InternalError, TargetError
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Broadcast, BufferLoad, Cast, Ramp, Var
from tilewright.tir.stmt import Allocate, BufferStore, PrimFunc, seq


def tiled_product(loop, rows, vectors, lanes, depth=64, tiles=2):
    """C[m, r, w] = sum over k of A[m, r, k] * B[k, w], in a tile of rows x (vectors*lanes) registers."""
    width = vectors * lanes
    a, b = Buffer("A", (tiles * rows * depth,)), Buffer("B", (depth * width,))
    c, tile = Buffer("C", (tiles * rows * width,)), Buffer("tile", (rows * width,), scope="local")
    m, k = Var("m"), Var("k")
    one = op.const(1)
    positions = [(r, v, Ramp(op.const(r * width + v * lanes), one, lanes)) for r in range(rows) for v in range(vectors)]
    clear = [BufferStore(tile, op.const(0.0, f"float32x{lanes}"), (position,)) for _, _, position in positions]
    update, back = [], []
    for r, v, position in positions:
        left = Broadcast(BufferLoad(a, (m * (rows * depth) + r * depth + k,)), lanes)
        right = BufferLoad(b, (Ramp(k * width + v * lanes, one, lanes),))
        update.append(BufferStore(tile, BufferLoad(tile, (position,)) + left * right, (position,)))
        out = Ramp(m * (rows * width) + r * width + v * lanes, one, lanes)
        back.append(BufferStore(c, BufferLoad(tile, (position,)), (out,)))
    return PrimFunc(
        "product", [a, b, c], loop(m, tiles, Allocate(tile, seq(*clear, loop(k, depth, seq(*update)), *back)))
    )


@pytest.mark.parametrize(("cpu", "register", "rows"), [("haswell", "ymm", 6), ("skylake-avx512", "zmm", 14)])
def test_a_tiled_product_has_no_spills_and_the_widest_multiply_adds(loop, cpu, register, rows):
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    lanes = target.vector_bits // 32
    func = tiled_product(loop, rows, 2, lanes)
    text = assembly(emit([func], target), target)
    body = text[text.index("product:") : text.index("retq")]
    fused = re.findall(rf"\bvfmadd\d+ps\b.*%{register}", body)
    assert len(fused) == rows * 2
    assert "rsp" not in body, "accumulators spilled to the stack"
    assert not re.search(r"\bv(mul|add)ps\b", body)


def test_a_tiled_product_is_right(loop):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2 * 5, 64), "f4"), rng.standard_normal((64, 24), "f4")
    c = np.zeros(2 * 5 * 24, "f4")
    build(tiled_product(loop, 5, 3, 8), threads=1)["product"](a.ravel(), b.ravel(), c)
    np.testing.assert_allclose(c.reshape(10, 24), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("spec", "machine", "expected"),
    [
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", 183, r"fmla\s+v\d+\.4s"),
        ("llvm -mtriple=riscv64-linux-gnu", 243, r"fmadd\.s"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64", 62, r"mulps"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", 62, r"vfmadd\d+ps.*ymm"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512", 62, r"vfmadd\d+ps.*zmm"),
    ],
)
def test_other_architectures_get_their_own_instructions(loop, spec, machine, expected):
    target = Target(spec)
    text = emit([tiled_product(loop, 4, 1, max(target.vector_bits // 32, 1))], target)
    code = compile_object(text, target)
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == machine
    assert re.search(expected, assembly(text, target))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "int8", "uint64", "float64"])
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_odd_vectors_compile_for_every_processor(loop, dtype, cpu):
    """LLVM would end the process on code that a target cannot have."""
    target = Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    x, y, i = Buffer("x", (700,), dtype), Buffer("y", (700,), "float32"), Var("i")
    parts = []
    for lanes in (3, 7, 24, 64, 100):
        index = Ramp(i, op.const(1), lanes)
        load = BufferLoad(x, (index,))
        value = op.select(op.ne(load, BufferLoad(x, (Ramp(i, op.const(2), lanes),))), load, load)
        parts.append(BufferStore(y, Cast(f"float32x{lanes}", value), (index,)))
        parts.append(BufferStore(x, Cast(f"{dtype}x{lanes}", BufferLoad(y, (index,))), (index,)))
    func = PrimFunc("f", [x, y], loop(i, 4, seq(*parts)))
    assert compile_object(emit([func], target), target)


def test_a_sum_in_memory_stays_in_a_register(loop):
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    x, y, i, k, one = Buffer("x", (4096,)), Buffer("y", (64 * 16,)), Var("i"), Var("k"), op.const(1)
    position = Ramp(i * 16, one, 4)
    total = BufferStore(y, BufferLoad(y, (position,)) + BufferLoad(x, (Ramp(k * 4, one, 4),)), (position,))
    code = assembly(emit([PrimFunc("f", [x, y], loop(i, 64, loop(k, 1024, total)))], target), target)
    inner = code[code.index("addps") :]
    inner = inner[: inner.index("\tj")]
    assert "ups" not in inner, "the inner loop moves the sum to or from memory"


@pytest.mark.parametrize("is_reversed", [False, True])
def test_webassembly_adds_constants_to_addresses_in_the_load(loop, is_reversed):
    target, k, one = Target("wasm -mattr=+relaxed-simd"), Var("k"), op.const(1)
    x, y, tile = Buffer("x", (8192,)), Buffer("y", (16,)), Buffer("tile", (16,), scope="local")
    start = 4000 - k * 16 if is_reversed else k * 16
    lanes = [Ramp(op.const(4 * i), one, 4) for i in range(4)]
    clear = [BufferStore(tile, op.const(0.0, "float32x4"), (lane,)) for lane in lanes]
    loads = [BufferLoad(x, (Ramp(start + 1000 * i, one, 4),)) for i in range(4)]
    add = [BufferStore(tile, BufferLoad(tile, (at,)) + value, (at,)) for at, value in zip(lanes, loads, strict=True)]
    back = [BufferStore(y, BufferLoad(tile, (lane,)), (lane,)) for lane in lanes]
    body = Allocate(tile, seq(*clear, loop(k, 128, seq(*add)), *back))
    code = assembly(emit([PrimFunc("f", [x, y], body)], target), target)
    inner = code[code.index("loop") : code.index("end_loop")]
    assert inner.count("v128.load") == 4
    assert inner.count("i32.add") <= 3, "counters of the pointer and the loop; no address of a load"


def test_object_code_is_deterministic(loop):
    target = Target.host()
    text = emit([tiled_product(loop, 4, 2, 8)], target)
    code, times = compile_timed(text, target)
    assert code == compile_object(text, target)
    assert min(times.parse, times.optimize, times.emit) > 0


def test_bad_text_and_foreign_targets(loop):
    with pytest.raises(InternalError, match="not valid"):
        compile_object("define nonsense", Target.host())
    other = "aarch64" if Target.host().architecture == "x86_64" else "x86_64"
    with pytest.raises(TargetError, match="cannot run"):
        build(tiled_product(loop, 1, 1, 4), f"llvm -mtriple={other}-linux-gnu")
