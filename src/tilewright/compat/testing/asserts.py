"""`tvm.testing`: comparing arrays, gradients and index expressions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.compat.runtime.array import to_numpy
from tilewright.tir import as_const, op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.visitor import substitute


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise `AssertionError` unless shapes are equal and |actual - desired| <= atol + rtol * |desired| everywhere."""
    actual, desired = to_numpy(actual), to_numpy(desired)
    np.testing.assert_equal(np.shape(actual), np.shape(desired))
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Sequence[Any],
    grad_values: Sequence[Any],
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raise `AssertionError` unless `grad_values` are the gradients of the scalar `function` by central differences.

    Inputs after those that have gradients are given to `function` as they are.

    The distance between the two gradients, over all elements of an input, may be at most
    atol * sqrt(elements) + rtol * |gradient|.
    """
    for index, (value, grad) in enumerate(zip(input_values, grad_values)):
        numeric = np.empty(value.shape, "float64")
        for position in np.ndindex(value.shape):
            ends = []
            for step in (delta, -delta):
                moved = [np.array(v, copy=True) for v in input_values]
                moved[index][position] += step
                ends.append(float(function(*moved)))
            numeric[position] = (ends[0] - ends[1]) / (2 * delta)
        distance = float(np.linalg.norm(np.asarray(grad, "float64") - numeric))
        allowed = atol * float(np.sqrt(value.size)) + rtol * float(np.linalg.norm(numeric))
        if distance > allowed:
            raise AssertionError(
                f"gradient {index} is off by {distance:.3g}, {allowed:.3g} is allowed:\n{grad}\n{numeric}"
            )


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise `ValueError` unless both expressions certainly have one value."""
    a, b = op.convert(lhs), op.convert(rhs)
    if not Analyzer().can_prove_equal(a, b):
        raise ValueError(f"{a!r} is not known to equal {b!r}")


def check_bool_expr_is_true(bool_expr: Any, vranges: Any, cond: Any = None) -> None:
    """Raise `AssertionError` unless the expression holds for all values of its variables in their ranges.

    `vranges` maps variables to ranges; where `cond` does not hold, nothing is asked.
    """
    names = list(vranges)
    lows = [int(r.min) for r in vranges.values()]
    extents = [int(r.extent) for r in vranges.values()]
    wanted = bool_expr if cond is None else op.any(op.logical_not(cond), bool_expr)
    for position in itertools.product(*[range(low, low + n) for low, n in zip(lows, extents, strict=True)]):
        values = {var: op.const(value, str(var.dtype)) for var, value in zip(names, position, strict=True)}
        if not as_const(Analyzer().simplify(substitute(wanted, values))):
            case = ", ".join(f"{var.name} = {value}" for var, value in zip(names, position, strict=True))
            raise AssertionError(f"{bool_expr!r} does not hold for {case}")
