"""The functions that classic programs try a server with: `session.get_function("rpc.test.addone")(1)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.compat.runtime.array import NDArray
from tilewright.compat.runtime.functions import get_global_func, register_func


def _expect_ones(array: Any) -> None:
    np.testing.assert_equal(array.numpy(), np.ones((3, 4)))


def _raise(message: str) -> None:
    raise ValueError(message)


def _array_questions(name: str) -> Callable[..., Any]:
    """A question about an array of zeros that the server holds, or about one that it is given.

    References are Python's own: "ref_count" raises when it is called. Raises `KeyError` for another name.
    """
    zeros = NDArray.from_numpy(np.zeros(10, "float32"))
    known: dict[str, Callable[..., Any]] = {
        "get_arr": lambda: zeros,
        "ref_count": _raising("references are not counted here"),
        "get_elem": lambda index: zeros.numpy()[index],
        "get_arr_elem": lambda array, index: array.numpy()[index],
    }
    return known[name]


def _raising(message: str) -> Callable[[], None]:
    def fail() -> None:
        raise RuntimeError(message)

    return fail


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rpc.test.addone": lambda x: x + 1,
    "rpc.test.strcat": lambda text, number: f"{text}:{number}",
    "rpc.test.except": _raise,
    "rpc.test.runtime_str_concat": lambda x, y: x + y,
    "rpc.test.remote_array_func": _expect_ones,
    "rpc.test.add_to_lhs": lambda x: lambda y: x + y,
    "rpc.test.remote_return_nd": _array_questions,
    "testing.echo": lambda first, *_: first,
    "testing.test_raise_error_callback": _raising,
}


def offer_test_functions() -> None:
    """Register them, where the program has none of its own by these names."""
    for name, function in _FUNCTIONS.items():
        if get_global_func(name, allow_missing=True) is None:
            register_func(name, function)
