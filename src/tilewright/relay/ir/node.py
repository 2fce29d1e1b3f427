"""Declaration of graph nodes: each a class whose fields state their role.

    @node
    class Let(Expr):
        var: Var = binder()
        value: Expr = operand()
        body: Expr = operand()

`@node` makes it a frozen dataclass with slots and adds `FIELDS`, `operands()`, `bound()` and `with_operands(…)`,
over which walkers, the rewriter, structural keys and JSON are written once for all classes. A field without a part is a
plain value. A class whose operands depend on more than its fields (a callee may be a mere name) writes these methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

T = TypeVar("T")


class Node:
    """Base of expressions, types and patterns."""

    __slots__ = ()
    #: The constructor's arguments, in order.
    FIELDS: ClassVar[tuple[str, ...]] = ()
    #: Those that hold operands, those that hold variables bound here, and those that are names for printing.
    OPERANDS: ClassVar[tuple[str, ...]] = ()
    BINDERS: ClassVar[tuple[str, ...]] = ()
    LABELS: ClassVar[tuple[str, ...]] = ()

    def operands(self) -> tuple[Any, ...]:
        """The nodes that this one is made of, in order of evaluation."""
        return ()

    def bound(self) -> tuple[Any, ...]:
        """The variables that this node binds; they are not among its operands."""
        return ()

    def with_operands(self, kids: tuple[Any, ...]) -> Any:
        """The same node with other operands, as many."""
        given = iter(kids)
        values = {name: getattr(self, name) for name in self.FIELDS}
        for name in self.OPERANDS:
            old = values[name]
            values[name] = tuple([next(given) for _ in old]) if isinstance(old, tuple) else next(given)
        return type(self)(**values)

    def plain_fields(self) -> list[tuple[str, Any]]:
        """The fields that are plain values, by name; names for printing are not among them."""
        others = (*self.OPERANDS, *self.BINDERS, *self.LABELS)
        return [(name, getattr(self, name)) for name in self.FIELDS if name not in others]


#: All classes of nodes, in the order in which they are declared.
DECLARED: list[type[Node]] = []


def operand() -> Any:
    """A field that holds a node, or a tuple of nodes, that this one is made of."""
    return field(metadata={"part": "operand"})


def binder(default: Any = MISSING) -> Any:
    """A field that holds a variable, or a tuple of them, that this node binds."""
    return field(default=default, metadata={"part": "binder"})


def label(default: Any = MISSING) -> Any:
    """A field that is for printing: nodes that differ in it alone are alike."""
    return field(default=default, metadata={"part": "label"})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field, operand, binder, label))
def node(cls: type[T]) -> type[T]:
    """Declare a node that is compared by identity: an expression, a pattern, a type variable."""
    return _declared(cls, by_value=False)


@dataclass_transform(frozen_default=True, eq_default=True, field_specifiers=(field, operand, binder, label))
def value_node(cls: type[T]) -> type[T]:
    """Declare a node that is compared by its fields: a type."""
    return _declared(cls, by_value=True)


def _declared(cls: type[T], by_value: bool) -> type[T]:
    own_repr = cls.__repr__ is not object.__repr__
    made: Any = dataclass(frozen=True, eq=by_value, slots=True, repr=not own_repr)(cls)
    parts = [(one.name, one.metadata.get("part", "")) for one in fields(made)]
    made.FIELDS = tuple([name for name, _ in parts])
    for attribute, part in (("OPERANDS", "operand"), ("BINDERS", "binder"), ("LABELS", "label")):
        setattr(made, attribute, tuple([name for name, own in parts if own == part]))
    if "operands" not in cls.__dict__:
        made.operands = _getter(made.OPERANDS)
    if "bound" not in cls.__dict__:
        made.bound = _getter(made.BINDERS)
    DECLARED.append(made)
    return made


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A getter of the fields `names` of a node, tuples spread out."""
    if not names:
        return lambda self: ()
    if len(names) == 1:
        (name,) = names
        return lambda self: value if isinstance(value := getattr(self, name), tuple) else (value,)
    get = attrgetter(*names)

    def several(self: Any) -> tuple[Any, ...]:
        values = get(self)
        if not any(isinstance(value, tuple) for value in values):
            return values
        return tuple([item for value in values for item in (value if isinstance(value, tuple) else (value,))])

    return several
