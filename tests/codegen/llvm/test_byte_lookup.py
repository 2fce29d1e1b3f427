"""Loads out of a table of 256 bytes by vectors of bytes: instructions that pick among registers, and the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.codegen.llvm import assembly, emit
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc


def _function(lanes: int, dtype: str) -> PrimFunc:
    x, table = te.placeholder((256,), dtype, "x"), te.placeholder((256,), "int8", "table")
    y = topi.lookup_byte(x, table)
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.axis[0], factor=lanes)
    s[y].vectorize(inner)
    return te.lower(s, [x, table, y], name="looked_up")


@pytest.mark.parametrize("target, instruction, count", [
    ("-mtriple=x86_64-linux-gnu -mcpu=icelake-server", "vpermi2b", 2),
    ("-mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "tbx", 3),
])  # fmt: skip
@pytest.mark.parametrize("lanes", [16, 64])
def test_instructions(target: str, instruction: str, count: int, lanes: int) -> None:
    made = Target(f"llvm {target}")
    text = assembly(emit([_function(lanes, "int8")], made), made)
    vectors = max(1, lanes // 16) if "aarch64" in target else 1
    found = text.count(f"{instruction}\t") or text.count("vpermt2b\t")
    assert found >= count * vectors


@pytest.mark.parametrize("lanes", [4, 16, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_byte(lanes: int, dtype: str) -> None:

    table = np.random.default_rng(lanes).integers(-128, 128, 256).astype("int8")
    x = np.arange(256, dtype="uint8")[::-1].view(dtype).copy()
    y = np.zeros(256, "int8")
    tw.build(_function(lanes, dtype))["looked_up"](x, table, y)
    np.testing.assert_array_equal(y, table[::-1])
