"""Arguments of classic functions that mean one thing here: any other value is refused, so that none is dropped."""

from __future__ import annotations

from typing import Any

from tilewright.errors import UnsupportedError


def only(function: str, name: str, value: Any, *meant: Any) -> None:
    """Raise `UnsupportedError` where the argument `name` of `function` is neither None nor among `meant`."""
    if value is None or any(value is one or (type(value) is type(one) and value == one) for one in meant):
        return
    known = f" or pass {' or '.join(map(repr, meant))}" if meant else ""
    raise UnsupportedError(f"{function}: {name}={value!r} is not taken here; leave it out{known}")
