"""Functions of `tvm.testing` that values are sent through: what comes back is what a caller of compiled code gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def echo(value: Any) -> Any:
    """`value`."""
    return value


def device_test(dev: Any, device_type: int, device_id: int) -> Any:
    """`dev`. Raises `AssertionError` unless it has this type and number."""
    assert (dev.device_type, dev.device_id) == (int(device_type), int(device_id))
    return dev


def test_wrap_callback(callback: Callable[[], Any]) -> Any:
    """The return value of `callback`."""
    return callback()


def test_check_eq_callback(message: str) -> Callable[[Any, Any], None]:
    """A function that raises `AssertionError` with `message` unless its two arguments are equal."""

    def check(a: Any, b: Any) -> None:
        assert a == b, message

    return check
