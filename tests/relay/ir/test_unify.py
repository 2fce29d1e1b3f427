"""Unification: holes, dimensions, and what does not fit."""

from __future__ import annotations

import pytest

from tilewright import relay, te
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.type import FuncType, IncompleteType, RefType, TensorType, TupleType, TypeVar
from tilewright.relay.ir.unify import Unifier, bind_dims, has_holes, narrows, substitute_dims

FLOAT, INT = TensorType(()), TensorType((), "int32")
ANY = relay.Any()


def vector(size: object) -> TensorType:
    return TensorType((size,))


def test_holes_are_filled_through_each_other() -> None:
    u, a, b, c = Unifier(), IncompleteType(), IncompleteType(), IncompleteType()
    u.unify(FuncType([a], b), FuncType([b], c))
    assert has_holes(u.resolve(TupleType([a, b, c])))
    u.unify(RefType(c), RefType(FLOAT))
    assert u.resolve(TupleType([a, b, c])) == TupleType([FLOAT] * 3)
    with pytest.raises(TypeMismatchError, match="float32 is not int32"):
        u.unify(a, INT)


def test_a_hole_does_not_contain_itself() -> None:
    u, a, b = Unifier(), IncompleteType(), IncompleteType()
    u.unify(a, TupleType([b]))
    with pytest.raises(TypeMismatchError, match="contain itself"):
        u.unify(b, TupleType([a]))


def test_a_hole_widens_where_its_dimensions_differ_and_all_that_is_linked_to_it() -> None:
    u, a, b, n = Unifier(), IncompleteType(), IncompleteType(), te.size_var("n")
    u.unify(b, TupleType([a]))
    u.unify(a, vector(3))
    u.unify(a, vector(n))
    assert u.resolve(b) == TupleType([vector(ANY)])


def test_polymorphic_types_unify_up_to_names() -> None:
    u, a, b = Unifier(), TypeVar("A"), TypeVar("B")
    identity = FuncType([a], a, [a])
    assert u.unify(identity, FuncType([b], b, [b])) == identity
    assert u.resolve(u.unify(identity, FuncType([INT], IncompleteType()))) == FuncType([INT], INT)
    with pytest.raises(TypeMismatchError):
        u.unify(identity, FuncType([INT], FLOAT))


@pytest.mark.parametrize(
    "a, b",
    [
        (FLOAT, TupleType([FLOAT])),
        (TupleType([FLOAT]), TupleType([])),
        (FuncType([], FLOAT), FuncType([FLOAT], FLOAT)),
        (vector(3), vector(4)),
        (TypeVar("A"), TypeVar("A")),
        (relay.GlobalTypeVar("List")(INT), relay.GlobalTypeVar("Tree")(INT)),
        (relay.GlobalTypeVar("List"), relay.GlobalTypeVar("Tree")),
    ],
)
def test_what_is_different(a: relay.Type, b: relay.Type) -> None:
    with pytest.raises(TypeMismatchError, match="is not"):
        Unifier().unify(a, b)


def test_the_message_tells_how_to_let_a_dimension_vary() -> None:
    with pytest.raises(TypeMismatchError, match=r"a dimension that varies is declared as \?"):
        Unifier().unify(vector(3), vector(4))


def test_narrowing_is_where_a_run_time_check_is_needed() -> None:
    n = te.size_var("n")
    assert narrows(vector(ANY), vector(3)) and narrows(TupleType([vector(n)]), TupleType([vector(3)]))
    assert not narrows(vector(3), vector(ANY)) and not narrows(vector(n), vector(n))


def test_size_variables_are_bound_by_arguments() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    params = [TensorType((n, 4)), TupleType([vector(m)])]
    mapping = bind_dims(params, [TensorType((3, 4)), TupleType([vector(ANY)])])
    assert mapping == {n: 3, m: ANY}
    assert substitute_dims(TensorType((n * 2, m + 1, n)), mapping) == TensorType((6, ANY, 3))
    assert substitute_dims(vector(n), {}) == vector(n)
