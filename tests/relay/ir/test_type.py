"""Types are values and print in the classic spelling."""

import pickle

from tilewright import relay, te, tir
from tilewright.relay.ir.type import FuncType, TensorType, TupleType, substitute_type, tensor_types, walk_type


def test_types_compare_by_content() -> None:
    assert TensorType((1, 2), "int8") == TensorType([1, 2], "int8") != TensorType((1, 2))
    assert len({TupleType([TensorType((3,))]), TupleType([TensorType((3,))])}) == 1


def test_types_print_in_the_classic_spelling() -> None:
    vector, scalar = TensorType((3,), "float32"), TensorType((), "bool")
    assert str(FuncType([vector], TupleType([scalar]))) == "fn (Tensor[(3,), float32]) -> (bool,)"


def test_sizes_and_flattening() -> None:
    a, b = TensorType((2, 3), "int16"), TensorType((), "float64")
    assert (a.size, a.nbytes, b.size, b.nbytes) == (6, 12, 1, 8)
    assert tensor_types(TupleType([a, TupleType([b, a])])) == [a, b, a]


def test_dimensions_are_integers_expressions_or_unknown() -> None:
    n, unknown = te.size_var("n"), relay.Any()
    mixed = TensorType((n + 1 - 1, 4, unknown), "int8")
    assert mixed.shape[0] is n and mixed.shape[2] is unknown and str(mixed) == "Tensor[(n, 4, ?), int8]"
    assert not mixed.is_static and mixed.has_any and TensorType((2, 3)).is_static
    assert TensorType((tir.const(3, "int32"),)).shape == (3,)
    assert str(TensorType((n, 4), "int16").size) == "n * 4" and str(TensorType((n, 4), "int16").nbytes) == "n * 8"
    assert mixed.size is unknown and mixed.nbytes is unknown
    assert relay.Any() is unknown and pickle.loads(pickle.dumps(unknown)) is unknown
    assert unknown + 1 is unknown and 2 * unknown is unknown and unknown // 2 is unknown


def test_polymorphic_function_types_are_equal_up_to_names() -> None:
    a, b, c = (relay.TypeVar(name) for name in "ABC")
    first, second = FuncType([a, b], a, [a, b]), FuncType([b, c], b, [b, c])
    assert first == second and hash(first) == hash(second)
    assert first != FuncType([a, b], b, [a, b]) and first != FuncType([a, b], a)
    assert str(first) == "fn [A, B](A, B) -> A"


def test_data_types_and_references() -> None:
    a, header = relay.TypeVar("A"), relay.GlobalTypeVar("List")
    assert header == relay.GlobalTypeVar("List") and header(a) == relay.TypeCall(header, [a])
    assert str(header(relay.RefType(a))) == "List[ref(A)]" and str(header()) == "List"
    cons = relay.Constructor("Cons", [a, header(a)], header)
    relay.TypeData(header, [a], [cons])
    assert str(cons.checked_type) == "fn [A](A, List[A]) -> List[A]"


def test_types_are_walked_and_rebuilt() -> None:
    a = relay.TypeVar("A")
    type_ = FuncType([TupleType([a]), relay.RefType(a)], relay.GlobalTypeVar("List")(a))
    assert list(walk_type(type_)).count(a) == 3
    assert substitute_type(type_, {}) is type_ and substitute_type(type_, {relay.TypeVar("A"): a}) is type_
    assert str(substitute_type(type_, {a: TensorType()})) == "fn ((float32,), ref(float32)) -> List[float32]"
