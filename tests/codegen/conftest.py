"""Helpers of the code generator's tests: build functions of the loop IR for this machine and call them on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.backend import build
from tilewright.support.dtype import DType
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr, IntImm, Ramp, Var
from tilewright.tir.stmt import BufferStore, For, ForKind, PrimFunc, Stmt


def _loop(var: Var, extent: int | Expr, body: Stmt, low: int | Expr = 0, **annotations: Any) -> For:
    low, extent = (x if isinstance(x, Expr) else IntImm("int32", x) for x in (low, extent))
    return For(var, low, extent, ForKind.SERIAL, body, annotations=annotations)


def _elementwise(value: Callable[..., Expr], *inputs: np.ndarray, lanes: int = 1) -> np.ndarray:
    """`value(elements…)` for all elements of the inputs at once, computed `lanes` at a time."""
    size = inputs[0].size
    assert size % lanes == 0
    buffers = [Buffer(f"x{k}", (x.size,), DType(str(x.dtype))) for k, x in enumerate(inputs)]
    i = Var("i")
    index = i if lanes == 1 else Ramp(i * lanes, IntImm("int32", 1), lanes)
    result = value(*(BufferLoad(x, (index,)) for x in buffers))
    out = Buffer("out", (size,), result.dtype.element)
    got = np.zeros(size, out.dtype.numpy)
    func = PrimFunc("f", [*buffers, out], _loop(i, size // lanes, BufferStore(out, result, (index,))))
    build(func, threads=1)["f"](*inputs, got)
    return got


@pytest.fixture
def loop() -> Callable[..., For]:
    """A serial loop: loop(var, extent, body, low=0, **annotations)."""
    return _loop


@pytest.fixture
def elementwise() -> Callable[..., np.ndarray]:
    """elementwise(value, *inputs, lanes=1): an expression evaluated on arrays by compiled code."""
    return _elementwise
