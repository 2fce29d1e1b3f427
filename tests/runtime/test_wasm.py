"""WebAssembly: kernels linked and run in wasmtime."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend import build
from tilewright.codegen.llvm import assembly, emit
from tilewright.errors import InputError
from tilewright.target import Target

pytest.importorskip("wasmtime", reason="needs the package wasmtime")


def test_vectors_workers_and_any_length() -> None:
    n = te.size_var("n")
    a = te.placeholder((n, 16), name="A")
    b = te.compute((n, 16), lambda i, j: tir.exp(a(i, j)) * 2.0, name="B")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    s[b].vectorize(b.op.axis[1])
    module = build(te.lower(s, [a, b], name="f"), "wasm")
    assert module.code[:4] == b"\0asm"
    for length in (1, 37, 5000):
        x = np.random.default_rng(length).standard_normal((length, 16)).astype("float32")
        y = np.zeros_like(x)
        module["f"](x, y)
        np.testing.assert_allclose(y, 2 * np.exp(x), rtol=1e-6)
    with pytest.raises(InputError, match="B has 2 where n is 3"):
        module["f"](x[:3], x[:2])


def test_products_with_memory_between_stages() -> None:
    a, b = te.placeholder((64, 48), name="A"), te.placeholder((48, 80), name="B")
    k = te.reduce_axis((0, 48), name="k")
    c = te.compute((64, 80), lambda i, j: te.sum(a(i, k) * b(k, j), axis=k), name="C")
    d = te.compute((64, 80), lambda i, j: c(i, j) + c(63 - i, 79 - j), name="D")
    s = te.create_schedule(d.op)
    s[c].vectorize(s[c].split(c.op.axis[1], factor=16)[1])
    module = build(te.lower(s, [a, b, d], name="f"), "wasm")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 48)).astype("float32"), rng.standard_normal((48, 80)).astype("float32")
    out = np.zeros((64, 80), "float32")
    module["f"](x, y, out)
    np.testing.assert_allclose(out, x @ y + (x @ y)[::-1, ::-1], rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match=r"argument A: float32\[64, 48\] got float32\[48, 80\]"):
        module["f"](y, y, out)


def test_functions_of_the_c_library() -> None:
    a = te.placeholder((9,), "float64", name="A")
    b = te.compute((9,), lambda i: tir.exp(a(i)), name="B")
    module = build(te.lower(te.create_schedule(b.op), [a, b], name="f"), "wasm")
    x, y = np.linspace(-1, 1, 9), np.zeros(9)
    module["f"](x, y)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-14)


def test_vectors_are_the_machines_own() -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 2.0 + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=8)[1])
    func = te.lower(s, [a, b], name="f")
    for target, count in (("wasm", 2), ("wasm -mcpu=mvp", 0)):
        text = assembly(emit([func], Target(target)), Target(target))
        assert text.count("f32x4.mul") + text.count("f32x4.add") >= count
        assert ("v128" in text) == (count > 0)
        x, y = np.arange(64, dtype="float32"), np.zeros(64, "float32")
        build(func, target)["f"](x, y)
        np.testing.assert_array_equal(y, 2 * x + 1)


def test_more_than_the_memory_of_a_module_is_refused() -> None:
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    module = build(te.lower(te.create_schedule(b.op), [a, b], name="f"), "wasm")
    large = np.empty(1 << 30, "float32")  # never touched, so it takes no memory
    with pytest.raises(InputError, match=r"f: its arrays and working memory end at byte 8,590,.* has 4,294,967,296"):
        module["f"](large, large)


def test_what_the_machine_stops_says_in_which_function() -> None:
    i = tir.Var("i")
    out = tir.Buffer("C", (4,), "int32")
    far = tir.BufferStore(out, tir.const(1), (i * tir.const(1 << 28),))  # a gigabyte further each time
    body = tir.For(i, tir.const(0), tir.const(4), tir.ForKind.SERIAL, far)
    module = build(tir.PrimFunc("f", [out], body), "wasm")
    with pytest.raises(InputError, match=r"f was stopped by the WebAssembly machine: .*out of bounds"):
        module["f"](np.zeros(4, "int32"))


def test_addresses_have_32_bits() -> None:
    a = te.placeholder((65, 72), name="A")
    b = te.compute((64, 64), lambda i, j: a(i, j) + a(i + 1, j + 8), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[1], factor=4)[1])
    text = assembly(emit([te.lower(s, [a, b], name="f")], Target("wasm")), Target("wasm"))
    assert "i64" not in text[: text.index("f__entry:")]


def test_constants_are_in_the_loads() -> None:
    a = te.placeholder((16,), name="A")
    b = te.compute((4,), lambda i: a(i) + a(i + 8), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[0])
    text = assembly(emit([te.lower(s, [a, b], name="f")], Target("wasm")), Target("wasm"))
    assert re.search(r"v128\.load\s+32\b", text)


def test_prefetches_leave_no_loops() -> None:
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a(i, j) * 2.0, name="B")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 1)
    text = assembly(emit([te.lower(s, [a, b], name="f")], Target("wasm")), Target("wasm"))
    assert "prefetch" not in text
    x, y = np.random.default_rng(0).standard_normal((64, 64)).astype("float32"), np.zeros((64, 64), "float32")
    build(te.lower(s, [a, b], name="f"), "wasm")["f"](x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_one_worker_is_assumed() -> None:
    plain, relaxed = Target("wasm"), Target("wasm -mattr=+relaxed-simd")
    assert plain.cores == Target("wasm -mcpu=mvp").cores == 1
    assert relaxed.machine.fma_per_cycle == 2 * plain.machine.fma_per_cycle
