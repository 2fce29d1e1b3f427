"""What the variables of a TorchScript program hold while it is converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Expr


@dataclass(eq=False)
class Traced:
    """A tensor, or a number (`kind` is then "int", "float" or "bool"), that a run computes.

    `fake` is PyTorch's stand-in for it, with its shape and type. Writing into it replaces what it holds: all who have
    it see that; a view is computed again where the tensor that it is of has changed.
    """

    expr: Any  # an expression, or a `Complex` of two
    fake: Any
    kind: str = ""
    version: int = 0
    view: View | None = field(default=None, repr=False)

    @property
    def tensor(self) -> Expr:
        """The expression of what is no complex tensor, which branches and loops cannot hand on."""
        if not isinstance(self.expr, Expr):
            raise UnsupportedError("complex numbers that a branch or a loop hands on are not supported")
        return self.expr


@dataclass(eq=False)
class View:
    """How a view is got of the tensor that it is of, and how what is written into it gets there."""

    base: Traced
    seen: int
    derive: Callable[[Traced], Traced]
    write_back: Callable[[Traced, Traced], Traced]


@dataclass(frozen=True)
class Module:
    """A submodule; `path` is its name from the root, with dots."""

    script: Any
    path: str

    def name(self, attribute: str) -> str:
        """What messages, and states, call an attribute of it."""
        return f"{self.path}.{attribute}" if self.path else attribute


def leaves(value: Any) -> Iterator[Any]:
    """The values in lists, tuples and dictionaries."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def is_known(value: Any) -> bool:
    """True where nothing in it is left to a run."""
    return not any(isinstance(leaf, Traced) for leaf in leaves(value))


def replaced(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` applied to its leaves, in lists and tuples of the same kinds."""
    if isinstance(value, list):
        return [replaced(item, change) for item in value]
    if isinstance(value, tuple):
        return tuple([replaced(item, change) for item in value])
    return change(value)
