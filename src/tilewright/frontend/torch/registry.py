"""The tables of converters of ATen operators: of real tensors, and of operators that read or return complex ones.

The schema of an operator is the signature of its converter (`signature.py`): parameters are arguments by their names,
the first ones also by their order, as tensors where they are annotated so.

    @converts("aten.lerp")
    def convert_lerp(start: Typed, end: Typed, weight: Typed) -> Expr: ...

A converter returns the expression of the node's output, a list of them, or None for what returns nothing. It is
registered under the name of an operator, ``aten.add``, for all of its overloads, or under that of one overload,
``aten.max.dim``, which then comes first.
"""

from __future__ import annotations

from tilewright.frontend.converters import Converter, Converters

converts = Converters("torch")
#: Those of operators that read or return complex tensors, which are `Complex` to them.
converts_complex = Converters("torch complex")


def find_converter(overload: str, of_complex: bool = False) -> Converter | None:
    """The converter of an overload, ``aten.add.Tensor``, or None when there is none."""
    table = converts_complex if of_complex else converts
    return table.find(overload) or table.find(overload.rpartition(".")[0])


def supported_operators() -> list[str]:
    """Every operator and overload that has a converter, sorted."""
    return sorted({*converts.supported(), *converts_complex.supported()})
