"""Expressions of thousands of terms and chains of thousands of tensors, each deeper than Python's recursion limit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.codegen.source.c import emit_c
from tilewright.support.trace import TALLY
from tilewright.tir.stmt import PrimFunc

DEEP = 2 * sys.getrecursionlimit()
DATA = np.linspace(-1, 1, 16).astype("float32")


def ran(func: PrimFunc) -> np.ndarray:
    """The result on `DATA` of a function of one input and one output of 16 floats."""
    out = np.zeros(16, "float32")
    tw.build(func)["main"](DATA, out)
    return out


def lowered(body: Callable[[te.Tensor], te.Tensor]) -> PrimFunc:
    data = te.placeholder((16,), name="data")
    result = body(data)
    return te.lower(te.create_schedule(result.op), [data, result])


def of_terms(step: Callable[[Any, int, te.Tensor, Any], Any], terms: int = DEEP) -> PrimFunc:
    """A function whose result is `step` applied `terms` times to an element, all in one expression."""

    def element(i: Any, data: te.Tensor) -> Any:
        value = data[i]
        for number in range(terms):
            value = step(value, number, data, i)
        return value

    return lowered(lambda data: te.compute((16,), lambda i: element(i, data)))


def add_element(value: Any, number: int, data: te.Tensor, i: Any) -> Any:
    return value + data[(i + number) % 16]


def test_a_sum_of_thousands_of_terms_is_computed() -> None:
    expected = DATA + sum(np.roll(DATA, -number % 16) for number in range(DEEP))
    np.testing.assert_allclose(ran(of_terms(add_element)), expected, atol=1e-2)


def test_conditions_within_each_other_are_computed() -> None:
    func = of_terms(lambda value, number, data, i: tir.if_then_else(data[i] > 2.0 + number, float(number), value))
    np.testing.assert_array_equal(ran(func), DATA)


def test_indices_within_each_other_are_computed() -> None:
    def element(data: te.Tensor, i: Any) -> Any:
        for number in range(DEEP):
            i = (i * 3 + number) % 16
        return data[i]

    index = np.arange(16)
    for number in range(DEEP):
        index = (index * 3 + number) % 16
    func = lowered(lambda data: te.compute((16,), lambda i: element(data, i)))
    np.testing.assert_array_equal(ran(func), DATA[index])


def chain(data: te.Tensor, length: int) -> list[te.Tensor]:
    made = [data]
    for _ in range(length):
        made.append(te.compute((16,), lambda i, before=made[-1]: before[i] + 1.0))
    return made[1:]


def test_a_chain_of_inlined_tensors_is_computed() -> None:
    data = te.placeholder((16,), name="data")
    tensors = chain(data, DEEP)
    schedule = te.create_schedule(tensors[-1].op)
    for tensor in tensors[:-1]:
        schedule[tensor].compute_inline()
    np.testing.assert_allclose(ran(te.lower(schedule, [data, tensors[-1]])), DATA + DEEP, rtol=1e-3)


def test_a_chain_of_stored_tensors_is_computed() -> None:
    func = lowered(lambda data: chain(data, sys.getrecursionlimit() // 2)[-1])
    np.testing.assert_allclose(ran(func), DATA + sys.getrecursionlimit() // 2, rtol=1e-5)


@pytest.mark.parametrize("use", [repr, lambda func: emit_c([func])], ids=["printed", "as C"])
def test_a_deep_expression_is_written(use: Callable[[PrimFunc], object]) -> None:
    assert use(of_terms(add_element))


def test_c_source_keeps_brackets_within_what_compilers_take() -> None:
    func = of_terms(lambda value, number, data, i: value * data[i] + float(number))
    deepest = level = 0
    for character in emit_c([func]).text:
        level += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, level)
    assert deepest <= 256


def test_lowering_a_sum_builds_nodes_in_proportion_to_its_terms() -> None:
    built = []
    for terms in (500, 2000):
        before = TALLY["nodes built"]
        of_terms(lambda value, number, data, i: value * data[i] + float(number), terms)
        built.append(TALLY["nodes built"] - before)
    assert built[1] < 5 * built[0]
