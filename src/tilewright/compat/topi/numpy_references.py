"""Classic references in NumPy made of the same descriptions as the computations (`topi_computes`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tilewright.compat.topi.descriptions import description
from tilewright.compat.topi.through_relay import as_reference


@cache
def __getattr__(name: str) -> Callable[..., Any]:
    return as_reference(description(name))
