"""Types are values and print in the classic spelling."""

from tilewright.relay.type import FuncType, TensorType, TupleType, tensor_types


def test_types_compare_by_content() -> None:
    assert TensorType((1, 2), "int8") == TensorType([1, 2], "int8") != TensorType((1, 2))
    assert len({TupleType([TensorType((3,))]), TupleType([TensorType((3,))])}) == 1


def test_spelling() -> None:
    vector, scalar = TensorType((3,), "float32"), TensorType((), "bool")
    assert str(FuncType([vector], TupleType([scalar]))) == "fn (Tensor[(3,), float32]) -> (bool,)"


def test_sizes_and_flattening() -> None:
    a, b = TensorType((2, 3), "int16"), TensorType((), "float64")
    assert (a.size, a.nbytes, b.size, b.nbytes) == (6, 12, 1, 8)
    assert tensor_types(TupleType([a, TupleType([b, a])])) == [a, b, a]
