"""Vectors moved at once: which accesses change, and that results do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import build, te, tir
from tilewright.codegen.build_device import emit_device
from tilewright.target import Target
from tilewright.tir.expr import Call
from tilewright.tir.transform.widen_accesses import widen_accesses
from tilewright.tir.verify import verify
from tilewright.tir.visitor import collect

TARGET = Target("cuda")


def scaled(lanes: int, dtype: str, shift: int = 0, size: int = 256) -> tir.PrimFunc:
    """b[i] = 2 * a[i + shift] in vectors of `lanes`, 32 threads."""
    a = te.placeholder((size + 8,), dtype, "a")
    b = te.compute((size,), lambda i: a(i + shift) * tir.const(2, dtype), "b")
    s = te.create_schedule(b.op)
    rest, lane = s[b].split(b.op.axis[0], factor=lanes)
    _, thread = s[b].split(rest, factor=32)
    s[b].vectorize(lane)
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    return te.lower(s, [a, b], name="f", target=TARGET)


def moved(func: tir.PrimFunc, widest: int = 16) -> list[int]:
    """The bytes of each access of several elements, in order."""
    made = widen_accesses(func, widest)
    verify(made)
    return [call.args[2].value for call in collect(made.body, Call) if call.op == "copy_vector"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("lanes", "dtype", "widest", "expected"),
    [
        (8, "float16", 16, [16, 16]),
        (4, "float32", 16, [16, 16]),
        (8, "float32", 16, [16, 16, 16, 16]),  # two accesses a vector
        (4, "float32", 8, [8, 8, 8, 8]),
        (2, "int8", 16, []),  # less than four bytes
        (4, "float32", 0, []),
    ],
)
def test_vectors_are_moved_at_once(lanes: int, dtype: str, widest: int, expected: list[int]) -> None:
    """Loads and stores, as wide as the language allows."""
    assert moved(scaled(lanes, dtype), widest) == expected


def test_what_is_not_aligned_stays_apart() -> None:
    """A load that begins one element further on; its store is aligned all the same."""
    assert moved(scaled(4, "float32", shift=1)) == [16]
    assert moved(scaled(4, "float32", shift=2)) == [8, 8, 16]


def test_loads_under_a_condition_stay_under_it() -> None:
    """They may not be made at all."""
    a = te.placeholder((64,), "float32", "a")

    def body(i: Any) -> Any:
        return tir.if_then_else(i // 4 < 12, a(i), tir.const(0.0, "float32"))

    b = te.compute((128,), body, "b")
    s = te.create_schedule(b.op)
    thread, lane = s[b].split(b.op.axis[0], factor=4)
    s[b].vectorize(lane)
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    assert moved(te.lower(s, [a, b], name="f", target=TARGET)) == [16]


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_results_are_the_same(shift: int) -> None:
    """In CUDA's text, run by the emulation."""
    func = scaled(4, "float32", shift)
    text, _ = emit_device([func], TARGET)
    assert ("uint4" in text[text.index("f_kernel0") :]) and ("uint2" in text[text.index("f_kernel0") :]) == (shift == 2)
    a, b = np.arange(264, dtype="float32"), np.zeros(256, "float32")
    build(func, "cuda -emulate=1")["f"](a, b)
    np.testing.assert_array_equal(b, 2 * a[shift : shift + 256])
