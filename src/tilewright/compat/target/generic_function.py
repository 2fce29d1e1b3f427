"""`tvm.target.generic_func`: one function with an implementation for each kind of target.

    @generic_func
    def twice(x): …             # where no other fits

    @twice.register(["cuda", "gpu"])
    def on_gpu(x): …

A call takes the one of the first of the current target's keys that has any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.compat.target.target import Target
from tilewright.errors import InputError

_BY_NAME: dict[str, Any] = {}


def generic_func(fdefault: Callable[..., Any]) -> Any:
    """`fdefault` as a function that calls what is registered for the current target, itself where nothing is."""
    known: dict[str, Callable[..., Any]] = {}

    def call(*args: Any, **options: Any) -> Any:
        target = Target.current()
        keys = () if target is None else target.keys
        chosen = next((known[key] for key in keys if key in known), dispatch.fdefault)
        return chosen(*args, **options)

    dispatch: Any = functools.wraps(fdefault)(call)

    def register(key: str | Sequence[str], func: Callable[..., Any] | None = None, override: bool = False) -> Any:
        if func is None:
            return lambda given: register(key, given, override)
        for name in [key] if isinstance(key, str) else key:
            if name in known and not override:
                raise InputError(f"{fdefault.__name__} has a function for {name!r} already; override=True replaces it")
            known[name] = func
        return func

    dispatch.fdefault, dispatch.register, dispatch.dispatch_dict = fdefault, register, known
    return dispatch


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that makes its function the default of the generic function `func_name`, which is made if need be."""

    def decorate(fdefault: Callable[..., Any]) -> Any:
        made = _BY_NAME.setdefault(func_name, generic_func(fdefault))
        made.fdefault = fdefault
        return made

    return decorate
