"""Data types in expressions: constructors, patterns, and the match that takes values apart.

match (%list) {
  Cons(%head, _) => %head,
  Nil => 0f,
}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import ClassVar

from tilewright.relay.ir.expr import Expr, Var
from tilewright.relay.ir.node import Node, binder, node, operand
from tilewright.relay.ir.type import FuncType, GlobalTypeVar, Type, TypeCall, TypeVar


@node
class Constructor(Expr):
    """One way to make a value of the data type `belong_to`, number `tag` among its constructors: `Cons`.

    A call makes the value, even of a constructor without fields: `Call(nil, [])`.
    """

    is_name: ClassVar[bool] = True
    name: str = field()
    inputs: tuple[Type, ...] = field()
    belong_to: GlobalTypeVar = field()
    tag: int = 0

    def __init__(self, name: str, inputs: Iterable[Type], belong_to: GlobalTypeVar, tag: int = 0) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "inputs", tuple(inputs))
        object.__setattr__(self, "belong_to", belong_to)
        object.__setattr__(self, "tag", tag)

    @property
    def name_hint(self) -> str:
        """The name, in the classic spelling."""
        return self.name


@node
class TypeData(Type):
    """The definition of a data type: `constructors`, whose fields may mention `type_vars` and the type itself."""

    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...]
    constructors: tuple[Constructor, ...]

    def __init__(
        self, header: GlobalTypeVar, type_vars: Iterable[TypeVar], constructors: Iterable[Constructor]
    ) -> None:
        object.__setattr__(self, "header", header)
        object.__setattr__(self, "type_vars", tuple(type_vars))
        object.__setattr__(self, "constructors", tuple(constructors))
        for constructor in self.constructors:
            constructor.set_inferred_type(self.constructor_type(constructor))

    def constructor_type(self, constructor: Constructor) -> FuncType:
        """`fn [A](A, List[A]) -> List[A]`, also for a constructor without fields: the type that it has from here on."""
        return FuncType(constructor.inputs, TypeCall(self.header, self.type_vars), self.type_vars)

    def __str__(self) -> str:
        params = f"[{', '.join(map(str, self.type_vars))}]" if self.type_vars else ""
        return f"type {self.header}{params}"


class Pattern(Node):
    """Base of what may stand left of `=>`."""

    __slots__ = ()


@node
class PatternWildcard(Pattern):
    """`_`: anything."""


@node
class PatternVar(Pattern):
    """`%x`: anything, bound to `var` in the clause."""

    var: Var = binder()


@node
class PatternConstructor(Pattern):
    """`Cons(%x, _)`: a value made by `constructor` whose fields match `patterns`."""

    constructor: Constructor = field()
    patterns: tuple[Pattern, ...] = operand()

    def __init__(self, constructor: Constructor, patterns: Iterable[Pattern] = ()) -> None:
        object.__setattr__(self, "constructor", constructor)
        object.__setattr__(self, "patterns", tuple(patterns))


@node
class PatternTuple(Pattern):
    """`(%x, _)`: a tuple whose fields match `patterns`."""

    patterns: tuple[Pattern, ...] = operand()

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        object.__setattr__(self, "patterns", tuple(patterns))


@node
class Clause(Node):
    """`lhs => rhs` of a match."""

    lhs: Pattern
    rhs: Expr


@node
class Match(Expr):
    """The right side of the first of `clauses` whose pattern fits `data`.

    `complete` says that some clause always fits; type inference checks it. Without it (`match?`) a value that no
    clause fits is an error at run time.
    """

    data: Expr = operand()
    clauses: tuple[Clause, ...] = operand()
    complete: bool = True

    def __init__(self, data: Expr, clauses: Iterable[Clause], complete: bool = True) -> None:
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "clauses", tuple(clauses))
        object.__setattr__(self, "complete", complete)

    def operands(self) -> tuple[Expr, ...]:
        """The value and the right sides."""
        return (self.data, *[clause.rhs for clause in self.clauses])

    def bound(self) -> tuple[Var, ...]:
        """The variables of the patterns."""
        return tuple([var for clause in self.clauses for var in pattern_vars(clause.lhs)])

    def with_operands(self, kids: tuple[Expr, ...]) -> Match:
        """The same match of another value, with other right sides."""
        clauses = [Clause(clause.lhs, rhs) for clause, rhs in zip(self.clauses, kids[1:], strict=True)]
        return Match(kids[0], clauses, self.complete)


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """The variables that `pattern` binds, left to right."""
    for part in walk_pattern(pattern):
        yield from part.bound()


def walk_pattern(pattern: Pattern) -> Iterator[Pattern]:
    """`pattern` and all patterns inside it, itself first."""
    yield pattern
    for part in pattern.operands():
        yield from walk_pattern(part)
