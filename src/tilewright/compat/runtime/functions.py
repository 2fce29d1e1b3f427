"""`tvm.register_func` and `tvm.get_global_func`: Python functions known by name, to programs and to compiled code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.compat.runtime.array import NDArray
from tilewright.errors import InputError
from tilewright.runtime import packed

_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Let compiled code call `f` by name, its arrays as `NDArray`s of the caller's memory; without `f` a decorator."""
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if f is None:
        return lambda given: register_func(func_name, given, override)
    packed.register_func(func_name, with_arrays(f), override)
    _FUNCTIONS[func_name] = f
    return f


def offer_host_functions() -> None:
    """Let compiled code call the products of matrices that the classic stack's C++ part registered, in NumPy."""
    for library in ("cblas", "mkl", "mkldnn", "cublas"):
        for name in ("matmul", "batch_matmul"):
            known = f"tvm.contrib.{library}.{name}"
            if known not in _FUNCTIONS:
                register_func(known, _product, override=True)


def _product(lhs: Any, rhs: Any, out: Any, transa: bool = False, transb: bool = False, *_: Any) -> None:
    """out = lhs times rhs, of matrices or stacks of them, each transposed first on request."""
    a, b = lhs.numpy(), rhs.numpy()
    out.copyfrom(np.matmul(a.swapaxes(-1, -2) if transa else a, b.swapaxes(-1, -2) if transb else b))


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function registered as `name`. Raises `InputError` if there is none; with `allow_missing` returns None."""
    offer_host_functions()
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


def with_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, given arrays of NumPy as `NDArray`s of the same memory."""

    def call(*args: Any) -> Any:
        made = function(*[NDArray.from_numpy(a, copy=False) if isinstance(a, np.ndarray) else a for a in args])
        return with_arrays(made) if inspect.isfunction(made) else made

    return call
