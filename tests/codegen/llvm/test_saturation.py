"""Bytes made of clipped and rounded numbers: one limit by the instruction that narrows, the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import build, te, topi
from tilewright.codegen.llvm import emit_module
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

LANES = 16
AVX512 = Target("llvm -mcpu=icelake-server -cores=1")


def _rounded(low: float, high: float, target: Target) -> PrimFunc:
    x = te.placeholder((4 * LANES,), "float32", name="x")
    code = topi.cast(topi.cast(topi.round(topi.clip(x, low, high)), "int32"), "uint8")
    s = te.create_schedule(code.op)
    for stage in (t for t in s.stages if t.op is not code.op and isinstance(t.op, te.ComputeOp)):
        s[stage.op].compute_inline()
    _, inner = s[code].split(s[code].op.axis[0], factor=LANES)
    s[code].vectorize(inner)
    return te.lower(s, [x, code])


def _values() -> np.ndarray:
    wide = np.random.default_rng(0).uniform(-300, 600, 4 * LANES)
    special = [np.nan, np.inf, -np.inf, 3e9, -3e9, 2.0**31, 254.5, 255.5, 0.5, -0.5, 1.5, 2.5, 255.0, 256.0, -0.0]
    wide[: len(special)] = special
    return wide.astype("float32")


@pytest.mark.parametrize("cpu", ["icelake-server", "haswell"])
def test_bytes_are_the_same_with_and_without_the_instruction(cpu: str) -> None:
    target = Target(f"llvm -mcpu={cpu} -cores=1")
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {cpu}")
    x, found = _values(), np.zeros(4 * LANES, "uint8")
    build(_rounded(0.0, 255.0, target), target=target)["main"](x, found)
    np.testing.assert_array_equal(found, np.round(np.nan_to_num(x, nan=0.0).clip(0, 255)).astype("uint8"))


@pytest.mark.parametrize(("low", "high", "saturates"), [(0.0, 255.0, True), (0.0, 254.0, False), (1.0, 255.0, False)])
def test_only_the_range_of_a_byte_is_left_to_the_instruction(low: float, high: float, saturates: bool) -> None:
    assert ("umin" in emit_module([_rounded(low, high, AVX512)], AVX512).text) is saturates
