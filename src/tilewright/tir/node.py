"""Declaration of loop IR nodes: each a class with annotated fields.

`@node` turns the annotations into slots, a constructor and a generic tuple of fields, so that the walker, rewriter,
hasher, printer and checker are each written once over `FIELDS` and never per class.

Expressions are interned: constructing the same expression twice returns the same object, so equality is identity and
"unchanged" is `is`. Statements are not: two equal stores are two events.
"""

from __future__ import annotations

import inspect
import weakref
from typing import Any, TypeVar

from tilewright.support.trace import TALLY

T = TypeVar("T")


class Node:
    """Base of expressions and statements. `FIELDS` names the constructor's arguments in order."""

    __slots__ = ("__weakref__",)
    FIELDS: tuple[str, ...] = ()

    def fields(self) -> tuple[Any, ...]:
        """Values of all fields, in constructor order."""
        return tuple([getattr(self, name) for name in self.FIELDS])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; build a new node instead of setting {name!r}")

    def __repr__(self) -> str:
        # printing is written in terms of the nodes, so it imports this module
        from tilewright.tir.printer import to_text

        return to_text(self)


def node(cls: type[T]) -> type[T]:
    """Class decorator: rebuild `cls` with `__slots__` and `FIELDS` from its annotations (inherited ones first)."""
    own = tuple(name for name in inspect.get_annotations(cls) if not name.isupper())
    inherited = tuple(getattr(cls, "FIELDS", ()))
    namespace = {k: v for k, v in cls.__dict__.items() if k not in ("__dict__", "__weakref__", *own)}
    namespace["__slots__"] = tuple(name for name in own if name != "dtype")
    namespace["FIELDS"] = inherited + own
    namespace.setdefault("__annotations__", inspect.get_annotations(cls))
    rebuilt: Any = type(cls)(cls.__name__, cls.__bases__, namespace)  # type: ignore[misc]
    rebuilt.__qualname__ = cls.__qualname__
    return rebuilt


_table: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()


def intern(cls: type[T], dtype: Any, key: tuple[Any, ...], values: tuple[Any, ...]) -> T:
    """The one node of class `cls` with this key, made from `values` (one per field) if it does not exist yet.

    `key` must tell apart what Python's `==` does not: 1, 1.0 and True; 0.0 and -0.0; NaN payloads. Child expressions
    hash by identity, so they may stand in the key as they are.
    """
    full = (cls, dtype, *key)
    found = _table.get(full)
    if found is not None:
        return found
    TALLY["nodes built"] += 1
    made = object.__new__(cls)
    put = object.__setattr__
    put(made, "dtype", dtype)
    for name, value in zip(cls.FIELDS, values, strict=True):  # type: ignore[attr-defined]
        put(made, name, value)
    _table[full] = made
    return made
