"""Contexts and values of `tvm.autotvm` that say how classic templates are configured.

This package's kernels have templates of their own, which a cost model configures: what is given here changes nothing in
them, and nothing in what they compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from tilewright.errors import UnsupportedError


def context(target: Any, extra_files: Any = None) -> AbstractContextManager[None]:
    """The context of records that came with the classic stack; here kernels are chosen by a cost model all the same.

    Raises `UnsupportedError` for `extra_files`, records of the program's own, which should have an effect.
    """
    if extra_files:
        raise UnsupportedError("autotvm.tophub.context: records of tuned schedules are not read; leave extra_files out")
    return nullcontext()


class FallbackContext:
    """The context without records; a program's own subclass may keep configurations by (target, workload)."""

    def __init__(self) -> None:
        self.memory: dict[Any, FallbackConfigEntity] = {}

    def query(self, target: Any, workload: Any) -> FallbackConfigEntity:
        """The configuration of a workload on a target."""
        return self._query_inside(target, workload)

    def _query_inside(self, target: Any, workload: Any) -> FallbackConfigEntity:
        return self.memory.setdefault((str(target), workload), FallbackConfigEntity())

    def __enter__(self) -> FallbackContext:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to undo."""


class FallbackConfigEntity(dict[str, Any]):
    """A configuration by the names of its knobs."""

    is_fallback = True


@dataclass
class SplitEntity:
    """The lengths that an axis is split into."""

    size: Sequence[int]


@dataclass
class OtherOptionEntity:
    """The value of a knob that is no axis."""

    val: Any


def get_config() -> FallbackConfigEntity:
    """The configuration of the task at hand: an empty one, as there are no records of any."""
    return FallbackConfigEntity()
