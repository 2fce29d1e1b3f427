"""Contexts of `tvm.autotvm` that say which tuned records are used. None are, so they change nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tilewright.errors import UnsupportedError


def context(target: Any, extra_files: Any = None) -> AbstractContextManager[None]:
    """The context of records that came with the classic stack; here kernels are chosen by a cost model all the same.

    Raises `UnsupportedError` for `extra_files`, records of the program's own, which should have an effect.
    """
    if extra_files:
        raise UnsupportedError("autotvm.tophub.context: records of tuned schedules are not read; leave extra_files out")
    return nullcontext()


def FallbackContext() -> AbstractContextManager[None]:
    """The context without any records."""
    return nullcontext()
