"""`tvm.register_func` and `tvm.get_global_func`: Python functions known by name, to programs and to compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.compat.classic.array import NDArray
from tilewright.errors import InputError
from tilewright.runtime import packed

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Let compiled code call `f` by name, its arrays as `NDArray`s of the caller's memory; without `f` a decorator."""
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if f is None:
        return lambda given: register_func(func_name, given, override)
    packed.register_func(func_name, _with_arrays(f), override)
    _FUNCTIONS[func_name] = f
    return f


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function registered as `name`. Raises `InputError` if there is none; with `allow_missing` gives None."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    try:
        return packed.get_func(name)
    except InputError:
        if allow_missing:
            return None
        raise InputError(
            f"there is no function registered as {name!r}; tvm.register_func adds one, and the functions that came "
            "with the classic stack's C++ part do not exist here"
        ) from None


def _with_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return function(*[NDArray.from_numpy(a, copy=False) if isinstance(a, np.ndarray) else a for a in args])

    return call
