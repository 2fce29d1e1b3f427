"""Running sums and products on devices: the bits of processors, in both forms of the kernels."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.backend import backend_of
from tilewright.driver.lower import lower_function
from tilewright.relay.ir.expr import Expr
from tilewright.target import Target

RNG = np.random.default_rng(4)
#: Shape, and the options of a running sum.
CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((70, 10), {"axis": 1}),  # rows shorter than a piece
    ((3, 130), {"axis": 1, "exclusive": True}),  # several rows in a block
    ((2, 9000), {"axis": 1, "reverse": True}),  # several groups
    ((300, 20), {"axis": 0, "exclusive": True, "reverse": True}),
    ((2, 5000, 3), {"axis": 1}),
]


def _target() -> Target:
    if any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        return Target("cuda -emulate=1")
    if backend_of(Target("opencl")).is_here:
        return Target("opencl")
    pytest.skip("neither a C++ compiler for the emulation nor OpenCL: pip install 'tilewright[opencl]'")


def _module(body: Callable[[Expr], Expr], shape: Any, dtype: str) -> relay.IRModule:
    x = relay.var("x", shape=shape, dtype=dtype)
    return relay.IRModule.from_expr(relay.Function([x], body(x)))


def _values(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return (RNG.standard_normal(shape) * (1 if dtype.startswith("float") else 50)).astype(dtype)


@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(name, marks=pytest.mark.long) for name in ("float16", "int32"))]
)
@pytest.mark.parametrize("groups", [0, 1])
def test_sums_have_the_bits_of_processors(dtype: str, groups: int) -> None:
    target, funcs, arrays, wanted = _target(), [], [], []
    for number, (shape, options) in enumerate(CASES):
        mod = _module(lambda x, o=options: relay.cumsum(x, **o), shape, dtype)
        (task,) = extract_from_program(mod, target)
        assert task.key.template == "running"
        funcs.append(
            lower_function(task.function, f"kernel{number}", target, {"groups": groups, "threads": 64})
        )  # fmt: skip
        arrays.append(_values(shape, dtype))
        wanted.append(tw.compile(mod, cache=False)(arrays[-1]))
    module = tw.build(funcs, target)
    for func, x, other in zip(funcs, arrays, wanted, strict=True):
        found = np.zeros(other.shape, other.dtype)
        module[func.name](x, found)
        np.testing.assert_array_equal(found, other)


def test_products_agree_with_numpy() -> None:
    x = (1 + _values((3, 300), "float32") / 50).astype("float32")
    mod = _module(lambda v: relay.cumprod(v, axis=1), x.shape, "float32")
    found = tw.compile(mod, target=str(_target()), cache=False)(x)
    np.testing.assert_allclose(found, np.cumprod(x.astype("float64"), axis=1), rtol=1e-5)


def test_symbolic_rows() -> None:
    n = te.size_var("n")
    mod = _module(lambda x: relay.cumsum(x, axis=1), (2, n), "float32")
    model, wanted = tw.compile(mod, target=str(_target()), cache=False), tw.compile(mod, cache=False)
    for size in (7, 4097, 20000):
        x = _values((2, size), "float32")
        np.testing.assert_array_equal(model(x), wanted(x))
