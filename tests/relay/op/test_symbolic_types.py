"""Type rules on symbolic sizes: what they say of `n` holds for every number, and what they say of `?` contradicts none.

A size of a case is replaced, wherever it occurs among the arguments, by `n`, by `?`, and by numbers.
"""

from __future__ import annotations

import pytest

from tests.relay.op.cases import CASES
from tilewright import tir
from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.expr import Call, Expr, Tuple, Var
from tilewright.relay.ir.symbolic import map_type_dims
from tilewright.relay.ir.type import Any, Dim, TensorType, as_dim, tensor_types
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.tir.expr import SizeVar
from tilewright.tir.visitor import substitute


def leaves(arg: Expr) -> list[Expr]:
    return [leaf for field in arg.fields for leaf in leaves(field)] if isinstance(arg, Tuple) else [arg]


def resized(arg: Expr, old: int, new: Dim) -> Expr:
    """A variable like `arg`, or a tuple of such, with another size where it had `old`."""
    if isinstance(arg, Tuple):
        return Tuple([resized(field, old, new) for field in arg.fields])
    kind = tensor_type_of(arg)
    return Var("x", TensorType([new if dim == old else dim for dim in kind.shape], kind.dtype))


def result(call: Call, old: int, new: Dim) -> list[TensorType]:
    return tensor_types(type_of(Call(call.op, [resized(arg, old, new) for arg in call.args], call.attrs)))


def numbers(call: Call, old: int) -> dict[int, list[TensorType]]:
    """The types of the result for sizes that the operator takes."""
    found = {}
    for size in (old, 2 * old, 3 * old, 2 * old + 1, old + 4):
        try:
            found[size] = result(call, old, size)
        except TypeMismatchError:
            continue
    return found


def agree(symbolic: list[TensorType], n: Dim, size: int, wanted: list[TensorType]) -> bool:
    def at(dim: Dim) -> Dim:
        return as_dim(substitute(dim, {n: tir.const(size, "int32")})) if isinstance(dim, tir.Expr) else dim

    got = [map_type_dims(type_, at) for type_ in symbolic]
    return len(got) == len(wanted) and all(
        isinstance(a, TensorType)
        and (a.dtype, a.ndim) == (b.dtype, b.ndim)
        and all(x == y or isinstance(x, Any) for x, y in zip(a.shape, b.shape))
        for a, b in zip(got, wanted)
    )


@pytest.mark.sample(128)
@pytest.mark.parametrize("name", sorted(name for name in CASES if any(call.args for call in CASES[name])))
def test_rules_hold_for_every_size(name: str) -> None:
    """Sizes that must be numbers, such as that of a kernel whose taps are written out, say so."""
    for call in CASES[name]:
        sizes = {dim for arg in call.args for leaf in leaves(arg) for dim in tensor_type_of(leaf).shape}
        for old in sorted(size for size in sizes if size > 1):
            known = numbers(call, old)
            if len(known) < 3:
                continue  # the size is tied to an attribute
            for n in (SizeVar("n"), Any()):
                try:
                    symbolic = result(call, old, n)
                except TypeMismatchError as error:
                    assert "must be known" in str(error), f"{name} {call.attrs}: {error}"
                    continue
                for size, wanted in known.items():
                    assert agree(symbolic, n, size, wanted), (name, call.attrs, symbolic, size, wanted)
                if isinstance(n, SizeVar) and not any(type_.has_any for types in known.values() for type_ in types):
                    assert not any(type_.has_any for type_ in symbolic), f"{name}: {symbolic} loses a size"
