"""Kernels over more elements than 32 bits count: they count in 64, or are refused before anything runs."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.driver.lower import WIDE, index_type_of, lower_function
from tilewright.errors import EnvironmentError_, UserError
from tilewright.relay.ir.expr import Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.host_ops import registry
from tilewright.target import Target
from tilewright.tir.stmt import For
from tilewright.tir.visitor import collect

HUGE = (1 << 33) + 5


def typed(params: list[relay.Var], body: Expr) -> Function:
    return infer_type(IRModule.from_expr(Function(params, body)))["main"]


def stretched(shape: tuple[int, ...]) -> tuple[relay.Var, Expr]:
    x = relay.var("x", shape=(1,), dtype="int64")
    return x, relay.broadcast_to(x, shape=shape)


@pytest.mark.parametrize("shape", [(HUGE,), (1 << 17, 1 << 16), (1 << 32, 3), (3, 1 << 31)])
def test_loops_over_a_huge_tensor_count_in_64_bits(shape: tuple[int, ...]) -> None:
    x, wide = stretched(shape)
    function = typed([x], relay.sum(wide))
    assert index_type_of(function) == "int64"
    loops = collect(lower_function(function, "huge", Target("llvm -mcpu=x86-64-v3")), For)
    assert {loop.var.dtype for loop in loops} == {"int64"}


def test_other_kernels_count_in_32_bits() -> None:
    x, narrow = stretched((WIDE - 1,))
    assert index_type_of(typed([x], relay.sum(narrow))) == "int32"


def test_places_beyond_32_bits_are_read() -> None:
    numbers = relay.arange(0, HUGE, 1, dtype="int64")
    cut = relay.strided_slice(numbers, begin=(1 << 32,), end=((1 << 32) + 4,), strides=(1,), axes=(0,))
    x = relay.var("x", shape=(1,), dtype="int64")
    model = tw.compile(IRModule.from_expr(Function([x], relay.add(cut, x))), cache=False)
    np.testing.assert_array_equal(model(np.array([7])), np.arange(4) + (1 << 32) + 7)


def test_an_extent_just_beyond_32_bits_is_summed_whole() -> None:
    x, wide = stretched(((1 << 31) + 1,))
    model = tw.compile(IRModule.from_expr(Function([x], relay.sum(wide))), cache=False)
    assert model(np.array([1])) == (1 << 31) + 1


@pytest.mark.parametrize("shape", [(1 << 40, 1 << 40), (1 << 31, 1 << 31), (1 << 60, 2)])
def test_what_no_memory_holds_is_refused_when_compiling(shape: tuple[int, ...]) -> None:
    x, wide = stretched(shape)
    with pytest.raises(UserError, match="bytes"):
        tw.compile(IRModule.from_expr(Function([x], relay.negative(wide))), cache=False)


def test_a_result_on_the_host_that_finds_no_memory_is_the_users_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.HOST_OPS, "test.huge", lambda attrs: np.ones((1 << 50, 1 << 8), "uint8"))
    with pytest.raises(EnvironmentError_, match=r"test\.huge found no memory"):
        registry.find("test.huge", {})()


def test_a_size_beyond_its_index_type_is_refused() -> None:
    with pytest.raises(TypeError, match="index_type"):
        te.placeholder((1 << 31,))
    with te.index_type("int64"):
        assert te.placeholder((1 << 31,)).shape[0].dtype == "int64"
