"""The patterns: what each one stands for. `matcher` says how they match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.relay.ir.expr import Attrs, Expr
from tilewright.relay.ir.registry import Op, get
from tilewright.relay.ir.type import Type


class DFPattern:
    """Base of all patterns. A pattern that stands in two positions matches the same node in both."""

    __slots__ = ()

    def __call__(self, *args: DFPattern | None) -> CallPattern:
        """Calls of what this matches, with arguments that match `args`; `pattern(None)`: with any arguments."""
        return CallPattern(self, None if args == (None,) else args)  # type: ignore[arg-type]

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """This pattern, on a node that has these attributes."""
        return AttrPattern(self, Attrs(attrs))

    def has_type(self, type_: Type) -> TypePattern:
        """This pattern, on a node of this type."""
        return TypePattern(self, type_)

    def has_dtype(self, dtype: Any) -> DataTypePattern:
        """This pattern, on a tensor of this data type."""
        return DataTypePattern(self, str(dtype))

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """This pattern, on a tensor of this shape; `Any()` stands for any dimension."""
        return ShapePattern(self, tuple(shape))

    def optional(self, option: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """This pattern, or what `option` builds on top of it."""
        return AltPattern(option(self), self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """This pattern, all of whose inputs come from `parent` through nodes that match `path`."""
        return DominatorPattern(parent, path or wildcard(), self)

    def match(self, expr: Expr) -> bool:
        """True if `expr` itself is such a piece of graph."""
        # matching is written in terms of the patterns, so it imports this module
        from tilewright.relay.dataflow_pattern.matcher import match

        return match(self, expr)

    def partition(
        self, expr: Expr, attrs: Mapping[str, Any] | None = None, check: Callable[[Expr], bool] = lambda found: True
    ) -> Expr:
        """`expr` with each such piece made a function of its own; see `partition`."""
        from tilewright.relay.dataflow_pattern.partition import partition

        return partition(self, expr, attrs, check)


@dataclass(frozen=True, eq=False, slots=True)
class WildcardPattern(DFPattern):
    """Anything."""


@dataclass(frozen=True, eq=False, slots=True)
class VarPattern(DFPattern):
    """A variable, of this name unless it is empty."""

    name: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class ConstantPattern(DFPattern):
    """A constant."""


@dataclass(frozen=True, eq=False, slots=True)
class ExprPattern(DFPattern):
    """This operator, or an expression of this structure."""

    expr: Expr | Op


@dataclass(frozen=True, eq=False, slots=True)
class CallPattern(DFPattern):
    """A call of `op` on `args`; of any arguments if `args` is None. `add` and `multiply` match either way round."""

    op: DFPattern
    args: tuple[DFPattern, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class FunctionPattern(DFPattern):
    """A function with these parameters (None: any) and body."""

    params: tuple[DFPattern, ...] | None
    body: DFPattern


@dataclass(frozen=True, eq=False, slots=True)
class LetPattern(DFPattern):
    """A binding."""

    var: DFPattern
    value: DFPattern
    body: DFPattern


@dataclass(frozen=True, eq=False, slots=True)
class IfPattern(DFPattern):
    """A branch."""

    cond: DFPattern
    true_branch: DFPattern
    false_branch: DFPattern


@dataclass(frozen=True, eq=False, slots=True)
class TuplePattern(DFPattern):
    """A tuple of these fields; any tuple if `fields` is None."""

    fields: tuple[DFPattern, ...] | None


@dataclass(frozen=True, eq=False, slots=True)
class TupleGetItemPattern(DFPattern):
    """A field of a tuple, the one at `index` unless it is None."""

    tuple_value: DFPattern
    index: int | None = None

    @property
    def tuple(self) -> DFPattern:
        """The pattern of the tuple, by its classic name."""
        return self.tuple_value


@dataclass(frozen=True, eq=False, slots=True)
class AltPattern(DFPattern):
    """`left`, or else `right`."""

    left: DFPattern
    right: DFPattern


@dataclass(frozen=True, eq=False, slots=True)
class AttrPattern(DFPattern):
    """`pattern`, with these attributes: of a call, of a function, or of an operator (`TOpPattern`, its category)."""

    pattern: DFPattern
    attrs: Attrs


@dataclass(frozen=True, eq=False, slots=True)
class TypePattern(DFPattern):
    """`pattern`, of this type."""

    pattern: DFPattern
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class DataTypePattern(DFPattern):
    """`pattern`, a tensor of this data type."""

    pattern: DFPattern
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class ShapePattern(DFPattern):
    """`pattern`, a tensor of this shape."""

    pattern: DFPattern
    shape: tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class DominatorPattern(DFPattern):
    """`child`, whose inputs all come from one `parent`, through any number of nodes that match `path`.

    Variables and constants may enter on the way. What lies between is used by nothing else.
    """

    parent: DFPattern
    path: DFPattern
    child: DFPattern


def wildcard() -> WildcardPattern:
    """Anything."""
    return WildcardPattern()


def is_var(name: str = "") -> VarPattern:
    """A variable, of this name unless it is empty."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def is_expr(expr: Expr | Op) -> ExprPattern:
    """An expression of the structure of `expr`."""
    return ExprPattern(expr)


def is_op(name: str) -> ExprPattern:
    """The operator called `name`; call it with patterns of its arguments. UnsupportedError if there is none."""
    return ExprPattern(get(name))


def is_tuple(fields: Sequence[DFPattern] | None = None) -> TuplePattern:
    """A tuple of these fields; any tuple without them."""
    return TuplePattern(None if fields is None else tuple(fields))


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A field of a tuple, the one at `index` if given."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """A branch."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """A binding."""
    return LetPattern(var, value, body)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """`pattern` (anything), with these attributes."""
    return (pattern or wildcard()).has_attr(attrs)


def has_type(type_: Type, pattern: DFPattern | None = None) -> TypePattern:
    """`pattern` (anything), of this type."""
    return (pattern or wildcard()).has_type(type_)


def has_dtype(dtype: Any, pattern: DFPattern | None = None) -> DataTypePattern:
    """`pattern` (anything), a tensor of this data type."""
    return (pattern or wildcard()).has_dtype(dtype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> ShapePattern:
    """`pattern` (anything), a tensor of this shape."""
    return (pattern or wildcard()).has_shape(shape)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """`child`, whose inputs all come from `parent` through nodes that match `path`."""
    return DominatorPattern(parent, path, child)
