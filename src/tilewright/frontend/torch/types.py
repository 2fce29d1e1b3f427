"""Element types and dimensions of PyTorch as Relay's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from tilewright import tir
from tilewright.errors import UnsupportedError
from tilewright.frontend.idioms import broadcast_to, constant
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import Any as Any_
from tilewright.relay.ir.type import TensorType, as_dim
from tilewright.relay.op.host import shape_of
from tilewright.support.dtype import DType
from tilewright.te import size_var


def dtype_of(dtype: Any, where: str) -> DType:
    """The element type that a `torch.dtype` is. Raises `UnsupportedError` for complex and quantized ones."""
    try:
        return DType(str(dtype).removeprefix("torch."))
    except TypeError:
        raise UnsupportedError(f"{where} has the element type {dtype}, which is not supported") from None


#: The element type of the parts of complex numbers.
_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def part_type(dtype: Any, where: str) -> DType:
    """As `dtype_of`; of complex numbers the element type of their parts."""
    part = _PARTS.get(str(dtype).removeprefix("torch."))
    return dtype_of(dtype, where) if part is None else DType(part)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: reduce(lambda a, b: a + b, terms),
    "Mul": lambda *factors: reduce(lambda a, b: a * b, factors), "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b, "Mod": lambda a, b: a % b, "PythonMod": lambda a, b: a % b,
    "Max": lambda *values: reduce(tir.maximum, values), "Min": lambda *values: reduce(tir.minimum, values),
}  # fmt: skip

#: Whole numbers of a quotient of sizes, which are not negative.
_ROUNDED: dict[str, Callable[[Any, Any], Any]] = {
    "FloorToInt": lambda a, b: a // b,
    "TruncToInt": lambda a, b: a // b,
    "CeilToInt": lambda a, b: (a + b - 1) // b,
}

#: The largest denominator that a number which sizes are multiplied by may have: products stay within 64 bits.
_DENOMINATOR = 1 << 16


#: Functions of sizes whose values are no integers.
_QUOTIENTS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": op.add, "Mul": op.multiply, "IntTrueDiv": op.divide, "FloatTrueDiv": op.divide, "ToFloat": op.add,
    "Max": op.maximum, "Min": op.minimum, "FloatPow": op.power,
}  # fmt: skip


#: Functions of sizes that a run computes.
_OF_RUN: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": op.add, "Mul": op.multiply, "FloorDiv": op.floor_divide, "CleanDiv": op.floor_divide,
    "Mod": op.floor_mod, "PythonMod": op.floor_mod, "Max": op.maximum, "Min": op.minimum,
}  # fmt: skip


def names_of_sizes(placeholders: Sequence[Any]) -> dict[str, str]:
    """Names for the symbols of sizes, of a graph with these placeholders.

    A symbol has the name that `torch.export.Dim` gave it. Where there is none (files of `torch.export.save` keep none,
    `mark_dynamic` takes none) it is named after the first input that has it as an axis, ``x_0``, or that it is, ``n``.
    """
    given = {node.name for node in placeholders}
    found: dict[str, str] = {}

    def enter(symbol: Any, name: str) -> None:
        if name.isidentifier() and name not in found.values():
            found.setdefault(str(symbol), name)

    symbols = list(_symbols(placeholders))
    for symbol, environment, _ in symbols:
        named = getattr(environment, "source_name_to_debug_name", {})
        for source in _sources(environment, symbol):
            enter(symbol, named.get(source, ""))
    for symbol, environment, axis in symbols:
        of_source = [_identifier(source) for source in _sources(environment, symbol)]
        for name in [*of_source, axis]:
            if name not in given:  # a size and an input would have one name
                enter(symbol, name)
    return found


def _symbols(placeholders: Sequence[Any]) -> Iterator[tuple[Any, Any, str]]:
    """The symbols that inputs have as an axis, or are; with PyTorch's environment of them, and the axis as a name."""
    for node in placeholders:
        value = node.meta.get("val")
        axes = enumerate(value.shape) if hasattr(value, "shape") else [("size", value)]
        for axis, extent in axes:
            if type(extent).__name__ == "SymInt" and extent.node.expr.is_Symbol:
                yield extent.node.expr, extent.node.shape_env, f"{node.name}_{axis}"


def _sources(environment: Any, symbol: Any) -> list[str]:
    """The sources of a symbol in the program, as expressions of Python: "L['x'].size()[0]"."""
    sources = getattr(environment, "var_to_sources", {}).get(symbol) or ()
    return [source.name if isinstance(source.name, str) else source.name() for source in sources]


def _identifier(source: str) -> str:
    """The source of a symbol as an identifier: "L['more']['y'].size()[0]" becomes ``more_y_0``."""
    words = re.findall(r"\w+", source.replace(".size()", ""))
    return "_".join(word for word in words if word not in ("L", "G", "self", "_modules", "_parameters", "_buffers"))


class Sizes:
    """Size variables by the names of the program's author or PyTorch's own, scalars for those that a run finds."""

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}
        self.names: dict[str, str] = {}  # those that the program's author has for PyTorch's symbols
        self.given: set[str] = set()  # symbols that the inputs have as sizes, whatever they come from
        self._found: dict[str, Callable[[], Expr]] = {}

    def dim(self, value: Any, where: str) -> Any:
        """An extent: an integer as it is, a `torch.SymInt` as an expression over size variables.

        One that depends on the values of tensors is `Any`.
        """
        if isinstance(value, int):
            return int(value)
        if self._of_values(value.node.expr):
            return Any_()
        return as_dim(self._expression(value.node.expr, where))

    def text(self, expr: Any) -> str:
        """A SymPy expression for messages, its symbols by their names."""
        return re.sub(r"\w+", lambda symbol: self.names.get(symbol[0], symbol[0]), str(expr))

    def shape(self, value: Any, where: str) -> tuple[Any, ...]:
        """The extents of a tensor."""
        return tuple(self.dim(extent, where) for extent in value.shape)

    def tensor_type(self, value: Any, where: str) -> TensorType:
        """The Relay type of a (fake) tensor; one of complex numbers has their parts in one more axis."""
        more = (2,) if value.dtype.is_complex else ()
        return TensorType((*self.shape(value, where), *more), part_type(value.dtype, where))

    def quotient(self, expr: Any, where: str) -> Expr:
        """A number that is computed from sizes, as a scalar of float64 that a run computes."""
        kind = type(expr).__name__
        if expr.is_number:
            return constant(float(expr), "float64")
        if expr.is_integer:
            return op.cast(self.of_run(expr, where), dtype="float64")
        if kind not in _QUOTIENTS:
            raise UnsupportedError(f"{where} is the number {self.text(expr)}, which is known at run time only")
        return reduce(_QUOTIENTS[kind], [self.quotient(part, where) for part in expr.args])

    def note(self, value: Any, made: Any) -> None:
        """Remember where a run finds the sizes that the result `value`, which became `made`, is the first to have."""
        if not isinstance(made, Expr):
            return
        if type(value).__name__ == "SymInt":
            self._enter(value, lambda: op.reshape(op.cast(made, dtype="int64"), newshape=()))
        for axis, extent in enumerate(getattr(value, "shape", ())):
            self._enter(extent, lambda axis=axis: _extent_of_run(made, axis))  # type: ignore[misc]

    def _of_values(self, expr: Any) -> bool:
        """True for a size that depends on values of tensors, unless the inputs tell it."""
        return any(name.startswith(("u", "zu")) for name in map(str, expr.free_symbols) if name not in self.given)

    def _enter(self, value: Any, find: Callable[[], Expr]) -> None:
        if type(value).__name__ == "SymInt" and value.node.expr.is_Symbol and self._of_values(value.node.expr):
            self._found.setdefault(str(value.node.expr), find)

    def of_run(self, expr: Any, where: str) -> Expr:
        """A size, as an integer or SymPy expression, as a scalar of int64 that a run computes.

        Raises `UnsupportedError` for one of values that no tensor of the graph has as a size.
        """
        if isinstance(expr, int) or expr.is_Integer:
            return constant(int(expr), "int64")
        if not self._of_values(expr):
            ones = broadcast_to(constant(1, "int64"), (as_dim(self._expression(expr, where)),))
            return op.sum(ones, axis=(0,))
        kind = type(expr).__name__
        if expr.is_Symbol and str(expr) in self._found:
            return self._found[str(expr)]()
        if kind not in _OF_RUN:
            raise UnsupportedError(
                f"{where} has the size {self.text(expr)}, which a run would have to find: it is not supported"
            )
        return reduce(_OF_RUN[kind], [self.of_run(part, where) for part in expr.args])

    def _expression(self, expr: Any, where: str) -> Any:
        """A SymPy expression as one of the loop IR."""
        kind = type(expr).__name__
        if expr.is_Integer:
            return tir.convert(int(expr))
        if expr.is_Symbol:
            name = str(expr)
            return self.variables.setdefault(name, size_var(self.names.get(name, name)))
        if kind in _ROUNDED and (quotient := _quotient_of(expr.args[0])) is not None:
            return _ROUNDED[kind](*[self._expression(part, where) for part in quotient])
        parts = [self._expression(part, where) for part in expr.args]
        if kind == "Pow" and expr.args[1].is_Integer and int(expr.args[1]) > 0:
            return reduce(lambda a, b: a * b, parts[:1] * int(expr.args[1]))
        if kind not in _FUNCTIONS:
            raise UnsupportedError(f"{where} has the size {self.text(expr)}, which is not supported")
        return _FUNCTIONS[kind](*parts)


def _quotient_of(expr: Any) -> tuple[Any, Any] | None:
    """Numerator and denominator, both whole, of a SymPy expression of sizes; None where it is no such quotient."""
    # torch is optional, and brings sympy
    import sympy

    kind = type(expr).__name__
    if expr.is_integer:
        return expr, sympy.Integer(1)
    if expr.is_Float:
        exact = Fraction(float(expr))
        small = exact >= 0 and exact.denominator <= _DENOMINATOR and exact.numerator <= _DENOMINATOR**2
        return (sympy.Integer(exact.numerator), sympy.Integer(exact.denominator)) if small else None
    if kind == "ToFloat":
        return _quotient_of(expr.args[0])
    parts = [_quotient_of(part) for part in expr.args]
    if kind not in ("Mul", "IntTrueDiv", "FloatTrueDiv") or None in parts:
        return None
    (a, b), *rest = parts  # type: ignore[misc]
    for c, d in rest:  # type: ignore[misc]
        a, b = (a * c, b * d) if kind == "Mul" else (a * d, b * c)
    return a, b


def _extent_of_run(value: Expr, axis: int) -> Expr:
    return op.take(shape_of(value, "int64"), constant(axis, "int64"), axis=0, mode="clip")


def is_empty(shape: Sequence[Any]) -> bool:
    """True if a tensor of this shape is known to have no elements."""
    return any(isinstance(extent, int) and extent == 0 for extent in shape)


def is_static(shape: Sequence[Any]) -> bool:
    """True if all extents are integers."""
    return all(isinstance(extent, int) for extent in shape)
