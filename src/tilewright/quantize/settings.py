"""Checks of what a user asks of quantization."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tilewright.errors import InputError


def require_known(name: str, value: Any, known: Collection[Any]) -> None:
    """Raise `InputError` unless `value` is one of `known`, of which None means that nothing is chosen."""
    if value not in known:
        listed = ", ".join(str(one) for one in known if one is not None)
        raise InputError(f"{name} is one of {listed}; got {value!r}")


def require_share(max_loss: float | None) -> None:
    """Raise `InputError` unless the budget of loss is None or a share of one."""
    if max_loss is not None and not 0.0 <= max_loss < 1.0:
        raise InputError(f"max_loss is a share of one, such as 0.005; got {max_loss}")
