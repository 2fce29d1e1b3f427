"""The analyzer's context: binding variables, conditions known to hold, and what is proved from them."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.arith import Analyzer, Range
from tilewright.tir.expr import Call, Let, SizeVar, Var


def test_bind_takes_ranges_pairs_and_values() -> None:
    x, y, z, w = (Var(name) for name in "xyzw")
    known = Analyzer()
    known.bind(x, Range(2, 5))
    known.bind(y, (0, 3))
    known.bind(z, 1, 4)
    known.bind(w, x + 1)
    assert known.const_int_bound(x) == (2, 6)
    assert known.const_int_bound(y) == (0, 2)
    assert known.const_int_bound(z) == (1, 4)
    assert known.const_int_bound(w) == (3, 7)
    assert known.simplify(w - x) is op.const(1)


def test_a_second_bind_replaces_the_first() -> None:
    """Two loops may share one variable; what was true of it in the first is not in the second."""
    i, n = Var("i"), SizeVar("n")
    known = Analyzer()
    known.bind(i, 0, n)
    assert known.can_prove(op.less(i, n))
    known.bind(i, n, 4)
    assert not known.can_prove(op.less(i, n))
    assert known.can_prove(op.greater_equal(i, n))
    known.bind(i, 0, 8)
    assert known.can_prove(op.less(i, 8))
    known.bind(i, 8, 8)
    assert known.can_prove(op.greater_equal(i, 8))


def test_a_variable_of_one_value_is_that_value() -> None:
    i = Var("i")
    known = Analyzer()
    known.bind(i, 3, 1)
    assert known.simplify(i * 2) is op.const(6)


def test_bounds_by_a_symbolic_extent_are_proved() -> None:
    outer, inner, n = Var("outer"), Var("inner"), SizeVar("n")
    known = Analyzer()
    known.bind(outer, 0, (n + 15) // 16)
    known.bind(inner, 0, op.minimum(16, n - outer * 16))
    assert known.can_prove(op.less(outer * 16 + inner, n))
    assert known.can_prove(op.greater_equal(outer * 16 + inner, 0))
    assert known.can_prove(op.less(inner, 16))
    assert not known.can_prove(op.less(outer * 16, n - 1))


def test_constraint_narrows_only_inside() -> None:
    x, y, n = Var("x"), Var("y"), Var("n")
    known = Analyzer()
    known.bind(x, 0, 100)
    known.bind(y, 0, 16)
    with known.constraint(op.all(op.less(x, 10), op.likely(op.less(x * 16 + y, n)))):
        assert known.const_int_bound(x) == (0, 9)
        assert known.can_prove(op.less(x * 16 + y, n + 1))
        assert known.can_prove(op.less_equal(x * 16 + 1, n))
    assert known.const_int_bound(x) == (0, 99)
    assert not known.can_prove(op.less(x * 16 + y, n + 1))


def test_constraint_of_a_remainder() -> None:
    x = Var("x")
    known = Analyzer()
    with known.constraint(op.eq(x % 4, 1)):
        assert known.modular_set(x) == (4, 1)
        assert known.simplify((x + 3) % 4) is op.const(0)
        assert known.simplify((x + 3) % 2) is op.const(0)
    assert known.modular_set(x) == (1, 0)


def test_constraint_of_an_equality_gives_the_value() -> None:
    x, y = Var("x"), Var("y")
    known = Analyzer()
    with known.constraint(op.eq(x, 5)):
        assert known.simplify(x * 2) is op.const(10)
    with known.constraint(op.eq(x, y)):
        assert known.can_prove(op.less_equal(x, y))
        assert known.can_prove(op.greater_equal(x + 1, y))


def test_remainders_are_known_of_sums_and_products() -> None:
    x, y = Var("x"), Var("y")
    known = Analyzer()
    known.bind(x, 0, 100)
    assert known.modular_set(x * 6 + y * 4 + 3) == (2, 1)
    assert known.modular_set(x * 8 // 4) == (2, 0)
    assert known.modular_set(op.minimum(x * 6, y * 4 + 2)) == (2, 0)
    assert known.modular_set(op.const(7)) == (0, 7)
    assert known.can_prove(op.eq((x * 6 + y * 4) % 2, 0))
    assert known.can_prove(op.ne(x * 6 + y * 4, 3))


def test_can_prove_equal_sees_through_forms() -> None:
    x, y, n = Var("x"), Var("y"), SizeVar("n")
    known = Analyzer()
    assert known.can_prove_equal((x + y) * 4, x * 4 + 4 * y)
    assert known.can_prove_equal((x + 1) * n, n * x + n)
    assert not known.can_prove_equal(x, y)


def test_let_puts_simple_values_in_place() -> None:
    x, y = Var("x"), Var("y")
    assert Analyzer().simplify(Let(x, y, x + 1)) is Analyzer().simplify(y + 1)


def test_static_shares_of_workers() -> None:
    """The share [extent*id//n, extent*(id+1)//n) of a worker: what LLVM is told must not be guessed."""
    share = Call("int32", "worker_id", ()) * 16 // Call("int32", "num_workers", ())
    known = Analyzer()
    assert known.const_int_bound(share) == (0, None)
    assert known.simplify(share - share) is op.const(0)


def test_bounds_and_remainders_given_by_numbers_replace_what_was_known() -> None:
    analyzer, x = Analyzer(), Var("x")
    assert analyzer.const_int_bound(x + 1) == (None, None)
    analyzer.set_bound(x, 3, None)
    assert analyzer.const_int_bound(x + 1) == (4, None)
    analyzer.set_bound(x, None, 7)
    assert analyzer.const_int_bound(x + 1) == (None, 8)
    analyzer.set_modular(x, 4, 7)
    assert analyzer.modular_set(x * 2 + 1) == (8, 7)
    analyzer.set_modular(x, 0, 5)
    assert analyzer.modular_set(x) == (0, 5)


def test_modular_sets_through_shifts_casts_and_remainders():
    a, x, y = Analyzer(), Var("x", "int64"), Var("y", "int64")
    assert a.modular_set((x * 4 + 2) >> 1) == (2, 1)
    assert a.modular_set(op.truncdiv(x * 8, 4)) == (2, 0)
    assert a.modular_set(op.truncdiv(x * 4 + 2, 2)) == (1, 0)  # which way it rounds depends on the sign
    z = Var("z", "int32")
    assert a.modular_set(op.cast("int64", z * 6 + 1)) == (6, 1)
    assert a.modular_set(y) == (1, 0)
    a.bind(y, x * 4 + 1)  # after a question about it
    assert a.modular_set(1 - y) == (4, 0)


def test_remainders_that_are_known_combine():
    a, x = Analyzer(), Var("x", "int32")
    with a.constraint(op.eq(op.truncmod(x, 3), 2)), a.constraint(op.eq(op.floormod(x, 5), 3)):
        assert a.modular_set(x) == (15, 8)
        with a.constraint(op.eq(op.truncmod(x, 7), 2)):
            assert a.modular_set(x) == (105, 23)
    assert a.modular_set(x) == (1, 0)


def test_what_is_rounded_up_is_no_less() -> None:
    n, x, known = SizeVar("n"), Var("x"), Analyzer()
    whole = (n + 31) // 32 * 32
    assert known.can_prove(op.less_equal(n, whole)) and known.can_prove(op.less(whole, n + 32))
    assert known.simplify(op.maximum(whole - 1, n - 1)) is known.simplify(whole - 1)
    assert not known.can_prove(op.less_equal(whole, n)) and not known.can_prove(op.less(n, whole))
    known.bind(x, 0, n * 4)
    assert known.can_prove(op.less(x // 4, n)) and not known.can_prove(op.less(x // 3, n))
    assert known.can_prove(op.greater_equal(n, x // 4 + 1)) and not known.can_prove(op.less(x // 4, n - 1))


def test_whole_multiples_of_an_index_by_way_of_floats() -> None:
    index, real = Var("index", "int32"), op.cast("float64", Var("index", "int32"))
    by_floats = op.cast("float64", index)
    for rounded in (op.round, op.floor, op.ceil, op.trunc):
        assert Analyzer().simplify(op.cast("int32", rounded(by_floats * 3.0))) is index * 3
    for other in (
        op.cast("int32", op.round(by_floats * 1.5)),
        op.cast("int32", op.round(op.cast("float32", index) * 3.0)),
        op.cast("int64", op.round(by_floats * 3.0)),
        op.cast("int32", op.round(by_floats * 2.0**21)),
        op.cast("int32", op.round(real * real)),
    ):
        assert Analyzer().simplify(other) is other
