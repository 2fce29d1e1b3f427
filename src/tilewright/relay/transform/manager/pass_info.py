"""Metadata of a pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PassInfo:
    """The level from which a pass runs, its name, and the names of the passes it wants to have run before it."""

    opt_level: int
    name: str
    required: tuple[str, ...] = ()
    traceable: bool = False
