"""Choices by masks: the same values, without selects, extremes or conjunctions of data."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import tir
from tilewright.tir import expr as e
from tilewright.tir import ir_builder
from tilewright.tir.evaluate import interpret
from tilewright.tir.expr import BufferLoad
from tilewright.tir.stmt import BufferStore, PrimFunc
from tilewright.tir.transform.mask_choices import mask_choices
from tilewright.tir.visitor import collect

SIZE = 64


def _function(make, dtype):
    a, b, c = (tir.Buffer(name, (SIZE,), dtype) for name in "abc")
    ib = ir_builder.create()
    x, y, out = ib.buffer_ptr(a), ib.buffer_ptr(b), ib.buffer_ptr(c)
    with ib.for_range(0, SIZE, name="i") as i:
        out[i] = make(x[i], y[i], i)
    return PrimFunc("f", [a, b, c], ib.get())


CHOICES = {
    "select": lambda x, y, i: tir.select(x > y, x, y + x),
    "min": lambda x, y, i: e.Min(x, y),
    "max": lambda x, y, i: e.Max(x, e.Max(y, x)),
    "and": lambda x, y, i: tir.select(e.And(x > y, y > 0), x, y),
    "or not": lambda x, y, i: tir.select(e.Or(x > y, e.Not(y > 0)), x, y),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "uint8"])
@pytest.mark.parametrize("name", CHOICES)
def test_values_stay(name, dtype):
    before = _function(CHOICES[name], dtype)
    after = mask_choices(before)
    assert collect(before, e.Select, e.Max, e.Min)
    assert not collect(after, e.Select, e.Max, e.Min, e.And, e.Or)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0 if dtype == "uint8" else -50, 60, SIZE).astype(dtype) for _ in range(2)]
    if dtype.startswith("float"):
        arrays[0][:4], arrays[1][2:6] = np.nan, np.nan
        arrays[0][6:8] = [np.inf, -0.0]
    found = []
    for func in (before, after):
        out = np.zeros(SIZE, dtype)
        interpret(func, *arrays, out)
        found.append(out)
    np.testing.assert_array_equal(*found)


def test_choices_by_sizes_stay():
    func = _function(lambda x, y, i: tir.select(i > 3, x, y), "float32")
    assert mask_choices(func) is func


def test_extremes_of_vectors_stay():
    a, b = (tir.Buffer(name, (8,), "float32") for name in "ab")
    run = (e.Ramp(tir.const(0), tir.const(1), 8),)
    store = BufferStore(b, e.Max(BufferLoad(a, run), e.Broadcast(tir.const(0.0, "float32"), 8)), run)
    func = PrimFunc("f", [a, b], store)
    assert mask_choices(func) is func
