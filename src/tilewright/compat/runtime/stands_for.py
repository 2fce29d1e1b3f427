"""Classes of classic programs that stand for this package's own, or for functions that make values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StandsFor(type):
    """A class whose instances are those of `own`, made by `build`."""

    own: Any
    build: Callable[..., Any]

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return cls.build(*args, **options)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.own)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.own)


def stands_for(own: Any, build: Callable[..., Any], name: str = "", **constants: Any) -> Any:
    """A class whose instances are those of `own`; calling it calls `build`. It has the `constants` as attributes."""
    members = {"own": own, "build": staticmethod(build), "__doc__": own.__doc__, **constants}
    return StandsFor(name or own.__name__, (), members)
