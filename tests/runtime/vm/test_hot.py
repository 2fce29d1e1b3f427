"""Functions of the virtual machine that ran often run without the interpreter, and give what it gives."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import parser

import tilewright as tw
from tilewright import relay
from tilewright.errors import InputError
from tilewright.runtime.cpu.segment import Segment
from tilewright.runtime.vm import hot, native_function
from tilewright.runtime.vm.executable import VirtualMachine

_HEAD = '<ir_version: 9, opset_import: ["" : 18]>'

#: Halves a vector whose sum is above t, else adds to it; n turns at most, as long as the sum is small.
_BRANCHES = f"""{_HEAD}
g (float[SIZE] x, int64 n, float t) => (float[SIZE] y, float[turns,SIZE] each) {{
  c = Constant<value: tensor = bool {{1}}>()
  y, each = Loop<body = body (int64 i, bool k, float[SIZE] a) => (bool k2, float[SIZE] b, float[SIZE] d) {{
    o = Constant<value: tensor = float {{1.25}}>()
    s = ReduceSum<keepdims=0>(a)
    q = Greater(s, t)
    b = If<then_branch = th () => (float[SIZE] p) {{ m = Constant<value: tensor = float {{0.5}}>() p = Mul(a, m) }},
           else_branch = el () => (float[SIZE] r) {{ r = Add(a, o) }}>(q)
    d = Mul(b, o)
    most = Constant<value: tensor = float {{1000000.0}}>()
    k2 = Less(s, most)
  }}>(n, c, x)
}}"""


def branches(size: str = "4") -> VirtualMachine:
    machine = tw.compile(parser.parse_model(_BRANCHES.replace("SIZE", size)), cache=False, threads=1)
    assert isinstance(machine, VirtualMachine)
    return machine


def expected(x: np.ndarray, n: int, t: float) -> list[np.ndarray]:
    each = []
    for _ in range(n):
        x = x * np.float32(0.5) if x.sum() > t else x + np.float32(1.25)
        each.append(x * np.float32(1.25))
    return [x, np.array(each, np.float32).reshape(n, *x.shape)]


def compare(machine: VirtualMachine, x: np.ndarray, n: int) -> list[np.ndarray]:
    got = machine.run({"x": x, "n": np.array(n), "t": np.float32(9)})
    for ours, wanted in zip(got, expected(x, n, 9), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    return got


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The number of segments that Python has called since the last query."""
    count = [0]
    invoke = Segment.invoke

    def counted(*args: Any) -> Any:
        count[0] += 1
        return invoke(*args)

    def since() -> int:
        found, count[0] = count[0], 0
        return found

    monkeypatch.setattr(Segment, "invoke", counted)
    return since


def test_a_loop_with_a_branch_turns_without_python(calls: Callable[[], int]) -> None:
    machine = branches()
    compare(machine, np.float32([0, 1, 2, 3]), 5)
    assert calls() > 5
    compare(machine, np.float32([0, 1, 2, 3]), 500)
    first = calls()
    compare(machine, np.float32([3, 1, 2, 3]), 500)
    assert first <= 4 * hot.OFTEN and calls() == 0


def test_every_number_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "OFTEN", 1)
    monkeypatch.setattr(native_function, "FIRST_BYTES", 1)
    monkeypatch.setattr(native_function, "_FIRST_TURNS", 3)
    machine = branches()
    for n in (0, 1, 2, 3, 15, 16, 17, 33, 100):
        compare(machine, np.float32([-30, 1, 2, 3]), n)


def test_results_are_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "OFTEN", 1)
    machine = branches()
    x = np.float32([1, 2, 3, 4])
    first = compare(machine, x, 3)
    kept = [array.copy() for array in first]
    compare(machine, x * 2, 3)
    for array, before in zip(first, kept):
        np.testing.assert_array_equal(array, before)
        assert not np.shares_memory(array, x)
    np.testing.assert_array_equal(x, np.float32([1, 2, 3, 4]))


def test_open_sizes_are_those_of_the_arguments(calls: Callable[[], int]) -> None:
    machine = branches("N")
    for size in (3, 5, 3, 5, 7, 3):
        for _ in range(3):
            compare(machine, np.arange(size, dtype=np.float32), 300)
    calls()
    for size in (3, 5, 7):
        compare(machine, np.ones(size, np.float32), 300)
    assert calls() == 0


def test_only_some_kinds_of_arguments_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "OFTEN", 1)
    machine = branches("N")
    for size in range(1, 30):
        compare(machine, np.ones(size, np.float32), 400)
    kept = [len(one.known) for one in machine._hot._functions if one is not None]
    assert 1 <= max(kept) <= 8


def test_hot_functions_of_several_workers_return_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "OFTEN", 1)
    monkeypatch.setattr(native_function, "worth_sharing", lambda segment: True)
    machine = branches()
    machine.set_threads(3)
    for n in (1, 40):
        compare(machine, np.float32([0, 1, 2, 3]), n)


class _Rang(Exception):
    pass


def test_a_loop_without_an_end_sees_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"""{_HEAD}
g (float[4] x, int64 n) => (float[4] y) {{
  y = Loop<body = body (int64 i, bool k, float[4] a) => (bool k2, float[4] b) {{
    k2 = Identity(k)
    s = ReduceMax<keepdims=0>(a)
    q = Greater(s, s)
    b = If<then_branch = th () => (float[4] p) {{ p = Neg(a) }},
           else_branch = el () => (float[4] r) {{ r = Abs(a) }}>(q)
  }}>(n, "", x)
}}"""
    machine = tw.compile(parser.parse_model(text), cache=False, threads=1)

    def ring(number: int, frame: Any) -> None:
        raise _Rang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(_Rang):
            machine.run({"x": np.ones(4, np.float32), "n": np.array(2**62)})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    (y,) = machine.run({"x": -np.ones(4, np.float32), "n": np.array(100)})
    np.testing.assert_array_equal(y, np.ones(4, np.float32))


def test_what_needs_the_interpreter_stays_with_it(calls: Callable[[], int]) -> None:
    text = f"""{_HEAD}
g (float[4] x, bool c) => (float[n] y) {{
  y = If<then_branch = th () => (float[n] p) {{ z = NonZero(x) w = Cast<to=1>(z) m = Constant<value = int64[1] {{-1}}>()
                                                p = Reshape(w, m) }},
         else_branch = el () => (float[4] r) {{ r = Abs(x) }}>(c)
}}"""
    machine = tw.compile(parser.parse_model(text), cache=False, threads=1)
    for _ in range(3 * hot.OFTEN):
        np.testing.assert_array_equal(machine(np.float32([0, 1, 0, 2]), np.array(True)), [1, 3])
        np.testing.assert_array_equal(machine(np.float32([0, -1, 0, 2]), np.array(False)), [0, 1, 0, 2])
    assert calls() > 3 * hot.OFTEN


@pytest.mark.parametrize("check", [False, True])
def test_a_run_that_stops_says_the_same_in_either_way(check: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"""{_HEAD}
g (float[2] x, int64 at, bool c) => (float y) {{
  y = If<then_branch = th () => (float p) {{ p = Gather(x, at) }},
         else_branch = el () => (float r) {{ s = Neg(x) r = Gather(s, at) }}>(c)
}}"""
    monkeypatch.setattr(hot, "OFTEN", 3)
    machine = tw.compile(parser.parse_model(text), cache=False, threads=1, check=check)
    said = []
    for _ in range(8):
        assert machine(np.float32([6, 8]), np.array(1), np.array(True)) == 8
        try:
            assert machine(np.float32([6, 8]), np.array(7), np.array(False)) == -8
        except InputError as error:
            said.append(str(error))
    assert len(said) == 8 * check and len(set(said)) == check


def test_a_value_that_no_clause_fits_is_an_error_in_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    two = relay.GlobalTypeVar("Two")
    first, second = relay.Constructor("First", [], two, 0), relay.Constructor("Second", [], two, 1)
    x, flag = relay.var("x", shape=(2,)), relay.Var("flag", relay.TensorType((), "bool"))
    one = relay.Match(relay.Call(second, []), [relay.Clause(relay.PatternConstructor(first), x)], complete=False)
    main = relay.Function([x, flag], relay.If(flag, one, relay.exp(x)))
    mod = relay.IRModule.from_expr(main, {}, {two: relay.TypeData(two, [], [first, second])})
    monkeypatch.setattr(hot, "OFTEN", 3)
    machine = tw.compile(mod, executor="vm", threads=1)
    for _ in range(8):
        np.testing.assert_allclose(machine(np.zeros(2, np.float32), np.array(False)), [1, 1])
        with pytest.raises(InputError, match="'main' of the model matches a value that none of its clauses fits"):
            machine(np.zeros(2, np.float32), np.array(True))
    assert machine._hot._functions[0] is not None and any(machine._hot._functions[0].known.values())


def test_tuples_data_and_functions_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that returns its argument, a constant, and what it computed of both, within a tuple."""
    x, flag = relay.var("x", shape=(4,)), relay.Var("flag", relay.TensorType((), "bool"))
    ones = relay.const(np.ones(4, np.float32))
    pair = relay.If(flag, relay.Tuple([x, ones]), relay.Tuple([ones, x]))
    both = relay.var("both", relay.TupleType([relay.TensorType((4,)), relay.TensorType((4,))]))
    total = relay.add(relay.TupleGetItem(both, 0), relay.multiply(relay.TupleGetItem(both, 1), relay.const(2.0)))
    body = relay.Let(both, pair, relay.Tuple([both, total, x]))
    monkeypatch.setattr(hot, "OFTEN", 3)
    machine = tw.compile(relay.IRModule.from_expr(relay.Function([x, flag], body)), executor="vm", threads=1)
    data, one = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    for _ in range(6):
        first, second, total_, same = machine(data, np.array(True))
        np.testing.assert_array_equal([first, second, total_, same], [data, one, data + 2, data])
        first, second, total_, same = machine(data, np.array(False))
        np.testing.assert_array_equal([first, second, total_, same], [one, data, 1 + 2 * data, data])
    assert any(one is not None and any(one.known.values()) for one in machine._hot._functions)
