"""Kernels over more elements than 32 bits count: they count in 64, or are refused before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay, te
from tilewright.backend.lower import WIDE, index_type_of
from tilewright.driver.lower import lower_function
from tilewright.errors import EnvironmentError_, UserError
from tilewright.relay.ir.expr import Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import Dim
from tilewright.runtime.host_ops import registry
from tilewright.target import Target
from tilewright.tir.expr import IntImm, SizeVar
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


def test_positions_beyond_32_bits_are_read() -> None:
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


@pytest.mark.parametrize("which", [relay.argmax, relay.argmin])
def test_the_position_that_none_has_is_beyond_any(which: Any) -> None:
    x, wide = stretched((HUGE,))
    func = lower_function(typed([x], which(wide, axis=0, dtype="int64")), "far", Target("llvm -mcpu=x86-64-v3"))
    assert (1 << 63) - 1 in {int(number.value) for number in collect(func, IntImm)}


def reduced_outer_sum(n: Dim, m: Dim) -> IRModule:
    """The largest element of a column plus a row: what is counted is stored nowhere."""
    a, b = relay.var("a", shape=(n, 1), dtype="uint8"), relay.var("b", shape=(1, m), dtype="uint8")
    return IRModule.from_expr(Function([a, b], relay.max(relay.add(a, b))))


def test_open_sizes_are_counted_before_anything_runs() -> None:
    model = tw.compile(reduced_outer_sum(SizeVar("n"), SizeVar("m")), cache=False)
    assert model(np.ones((3, 1), "uint8"), np.ones((1, 5), "uint8")) == 2
    with pytest.raises(UserError, match="sizes n = 65536, m = 65537 need a tensor of 4295032832 elements"):
        model(np.ones((1 << 16, 1), "uint8"), np.ones((1, (1 << 16) + 1), "uint8"))


def test_a_result_on_the_host_that_finds_no_memory_is_the_users_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.HOST_OPS, "test.huge", lambda attrs: np.ones((1 << 50, 1 << 8), "uint8"))
    with pytest.raises(EnvironmentError_, match=r"test\.huge found no memory"):
        registry.find("test.huge", {})()


def test_a_size_beyond_its_index_type_is_refused() -> None:
    with pytest.raises(TypeError, match="index_type"):
        te.placeholder((1 << 31,))
    with te.index_type("int64"):
        assert te.placeholder((1 << 31,)).shape[0].dtype == "int64"
