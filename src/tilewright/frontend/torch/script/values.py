"""Values of the variables of a TorchScript program while it is converted."""

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
    """The derivation of a view from its tensor, and of the tensor from what is written into the view."""

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
        """The name of an attribute in messages and states."""
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


# Operators of TorchScript on lists, dictionaries, texts and known numbers, which exist while it is converted only.
def _set_item(where: Any, key: Any, value: Any) -> Any:
    where[key] = value
    return where


def _append(items: list[Any], value: Any) -> list[Any]:
    items.append(value)
    return items


def _extend(items: list[Any], more: list[Any]) -> None:
    items.extend(more)


def _slice(items: Any, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return items[slice(start, end, step)]


LISTS: dict[str, Callable[..., Any]] = {
    "aten::__getitem__": lambda where, key: where[key], "aten::_set_item": _set_item, "aten::append": _append,
    "aten::extend": _extend, "aten::insert": lambda items, position, value: items.insert(position, value),
    "aten::pop": lambda items, position=-1: items.pop(position), "aten::len": len, "aten::list": list,
    "aten::dict": lambda items=(): dict(items), "aten::keys": lambda where: list(where),
    "aten::values": lambda where: list(where.values()), "aten::items": lambda where: list(where.items()),
    "aten::get": lambda where, key, default=None: where.get(key, default), "prim::min": min, "prim::max": max,
    "aten::slice": _slice, "aten::__contains__": lambda where, key: key in where,
    "prim::rangelist": lambda count: list(range(count)),
}  # fmt: skip
