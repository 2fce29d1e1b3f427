"""Products of 16-bit integers in 32 bits on x86: by pmaddwd, summed by vpdpwssd, exact at the extremes."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import build, te
from tilewright.codegen.llvm.module import emit_module
from tilewright.codegen.llvm.object import assembly
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

ROWS = 5
PROCESSORS = [
    ("icelake-server", 16, "vpdpwssd"),
    ("skylake-avx512", 16, "vpmaddwd"),
    ("haswell", 8, "vpmaddwd"),
    ("nehalem", 4, "pmaddwd"),
]


def _sums(lanes: int) -> PrimFunc:
    """out[i] = sum over rows of x[row, i] * y[row, i] in int32."""
    x, y = (te.placeholder((ROWS, lanes), "int16", name=name) for name in "xy")
    row = te.reduce_axis((0, ROWS), "row")
    out = te.compute((lanes,), lambda i: te.sum(x[row, i].astype("int32") * y[row, i].astype("int32"), axis=row))
    s = te.create_schedule(out.op)
    s[out].reorder(row, *s[out].op.axis)
    s[out].vectorize(s[out].op.axis[0])
    return te.lower(s, [x, y, out])


@pytest.mark.parametrize(("cpu", "lanes", "instruction"), PROCESSORS)
def test_products_of_shorts_are_exact(cpu: str, lanes: int, instruction: str) -> None:
    target, func = Target(f"llvm -mcpu={cpu} -cores=1"), _sums(lanes)
    assert instruction in assembly(emit_module([func], target).text, target)
    if not target.is_host:
        pytest.skip(f"this machine cannot run code for {cpu}")
    rng, info = np.random.default_rng(1), np.iinfo("int16")
    x, y = (rng.integers(info.min, info.max + 1, (ROWS, lanes)).astype("int16") for _ in range(2))
    x[0], y[0, ::2], y[0, 1::2] = info.min, info.min, info.max
    found = np.zeros(lanes, "int32")
    build(func, target=target)["main"](x, y, found)
    wide = (x.astype("int64") * y.astype("int64")).sum(axis=0)
    np.testing.assert_array_equal(found, wide.astype("int32"))
