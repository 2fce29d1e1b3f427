"""Python functions that compiled code calls by name: `register_func("name", function)`.

Compiled code calls the one C function `tilewright_call_packed(addresses, words)`. `addresses` holds the address of each
array argument; `words` (int64) describes the call: the length of the function's name in bytes and the name, eight bytes
a word; the number of arguments; for each its kind, and what that needs:

    0  an integer            the value
    1  a float               the bits of the value as float64
    2  an array              its type's name in two words, its number of dimensions, and the dimensions

A failure is kept until the compiled function returns, since it cannot be stopped in between, and raised then.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.support.dtype import DType

INTEGER, FLOAT, ARRAY = range(3)
SYMBOL = "tilewright_call_packed"

_functions: dict[str, Callable[..., Any]] = {}
_failures: list[BaseException] = []


def register_func(name: str, function: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Let compiled code call `function` by `name`; without `function`, a decorator.

    It gets NumPy arrays that share the caller's memory, ints and floats; what it returns is ignored. Raises InputError
    if the name is taken, unless `override`.
    """
    if function is None:
        return lambda given: register_func(name, given, override) or given
    if name in _functions and not override:
        raise InputError(f"a function {name!r} is registered already; pass override=True to replace it")
    _functions[name] = function
    return None


def get_func(name: str) -> Callable[..., Any]:
    """The function registered as `name`. Raises InputError if there is none."""
    if name not in _functions:
        known = ", ".join(sorted(_functions)) or "none"
        raise InputError(f"compiled code calls the function {name!r}, which is not registered; registered are: {known}")
    return _functions[name]


def raise_failure() -> None:
    """Raise what the last packed call raised, if it has not been raised yet."""
    if _failures:
        failure = _failures[0]
        _failures.clear()
        raise failure


def name_words(text: str, count: int | None = None) -> list[int]:
    """The bytes of a name as int64, padded with zeros, to `count` words if given."""
    data = text.encode()
    size = -(-len(data) // 8) if count is None else count
    return list(struct.unpack(f"<{size}q", data.ljust(8 * size, b"\0")))


def imports() -> dict[str, int]:
    """The C function's symbol and address."""
    address = ctypes.cast(_callback, ctypes.c_void_p).value
    assert address is not None
    return {SYMBOL: address}


class _Words:
    """Reads the description of a call from its start."""

    def __init__(self, address: int) -> None:
        self.address = address

    def next(self) -> int:
        """The next word."""
        value = ctypes.c_int64.from_address(self.address).value
        self.address += 8
        return value

    def text(self, length: int, words: int) -> str:
        """A name of `length` bytes (or up to its padding, if 0) in so many words."""
        data = ctypes.string_at(self.address, 8 * words)
        self.address += 8 * words
        return (data[:length] if length else data.rstrip(b"\0")).decode()


def _argument(words: _Words, addresses: list[int]) -> Any:
    kind = words.next()
    if kind == INTEGER:
        return words.next()
    if kind == FLOAT:
        return struct.unpack("<d", struct.pack("<q", words.next()))[0]
    dtype = DType(words.text(0, 2)).numpy
    shape = [words.next() for _ in range(words.next())]
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_uint8 * size).from_address(addresses.pop(0))
    return np.frombuffer(memory, dtype).reshape(shape)


def _dispatch(addresses: int, description: int) -> None:
    try:
        words = _Words(description)
        length = words.next()
        name = words.text(length, -(-length // 8))
        count = words.next()
        positions = [ctypes.c_uint64.from_address(addresses + 8 * i).value for i in range(count)]
        get_func(name)(*[_argument(words, positions) for _ in range(count)])
    except BaseException as failure:  # C code cannot pass it on: `raise_failure` does
        _failures.append(failure)


_callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(_dispatch)
