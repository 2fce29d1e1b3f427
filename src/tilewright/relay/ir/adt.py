"""Data types in expressions: constructors, patterns, and the match that takes values apart.

match (%list) {
  Cons(%head, _) => %head,
  Nil => 0f,
}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilewright.relay.ir.expr import Expr, Var
from tilewright.relay.ir.type import FuncType, GlobalTypeVar, Type, TypeCall, TypeVar


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Constructor(Expr):
    """One way to make a value of the data type `belong_to`, number `tag` among its constructors: `Cons`.

    A call makes the value, even of a constructor without fields: `Call(nil, [])`.
    """

    name: str
    inputs: tuple[Type, ...]
    belong_to: GlobalTypeVar
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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


class Pattern:
    """Base of what may stand left of `=>`."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class PatternWildcard(Pattern):
    """`_`: anything."""


@dataclass(frozen=True, eq=False, slots=True)
class PatternVar(Pattern):
    """`%x`: anything, bound to `var` in the clause."""

    var: Var


@dataclass(frozen=True, eq=False, slots=True)
class PatternConstructor(Pattern):
    """`Cons(%x, _)`: a value made by `constructor` whose fields match `patterns`."""

    constructor: Constructor
    patterns: tuple[Pattern, ...] = ()

    def __init__(self, constructor: Constructor, patterns: Iterable[Pattern] = ()) -> None:
        object.__setattr__(self, "constructor", constructor)
        object.__setattr__(self, "patterns", tuple(patterns))


@dataclass(frozen=True, eq=False, slots=True)
class PatternTuple(Pattern):
    """`(%x, _)`: a tuple whose fields match `patterns`."""

    patterns: tuple[Pattern, ...]

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        object.__setattr__(self, "patterns", tuple(patterns))


@dataclass(frozen=True, eq=False, slots=True)
class Clause:
    """`lhs => rhs` of a match."""

    lhs: Pattern
    rhs: Expr


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Match(Expr):
    """The right side of the first of `clauses` whose pattern fits `data`.

    `complete` says that some clause always fits; type inference checks it. Without it (`match?`) a value that no
    clause fits is an error at run time.
    """

    data: Expr
    clauses: tuple[Clause, ...]
    complete: bool = True

    def __init__(self, data: Expr, clauses: Iterable[Clause], complete: bool = True) -> None:
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "clauses", tuple(clauses))
        object.__setattr__(self, "complete", complete)


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """The variables that `pattern` binds, left to right."""
    for part in walk_pattern(pattern):
        if isinstance(part, PatternVar):
            yield part.var


def walk_pattern(pattern: Pattern) -> Iterator[Pattern]:
    """`pattern` and all patterns inside it, itself first."""
    yield pattern
    if isinstance(pattern, PatternConstructor | PatternTuple):
        for part in pattern.patterns:
            yield from walk_pattern(part)
