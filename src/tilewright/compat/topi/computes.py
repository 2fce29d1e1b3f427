"""Classic computations made of descriptions (`descriptions.py` finds them), or of a Relay operator alone.

Each is made when its name is first read: `topi_computes.conv3d_ncdhw`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tilewright.compat.topi.descriptions import description
from tilewright.compat.topi.through_relay import as_compute


def __getattr__(name: str) -> Callable[..., Any]:
    return _made(name)


@cache
def _made(name: str) -> Callable[..., Any]:
    return as_compute(description(name))
