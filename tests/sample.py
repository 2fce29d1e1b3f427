"""A choice among the cases of a test with many combinations of parameters, for runs without `--long`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping


def sample(cases: Mapping[str, Collection[tuple[str, int]]], count: int) -> set[str]:
    """The names of `count` of the cases, or all where there are fewer; the same in every run.

    `cases` maps names to (parameter, index of its value). Each case taken has the most values that none before had, so
    that every value of every parameter is met as soon as `count` allows; ties go by a digest of the name.
    """
    left = sorted(cases, key=lambda name: hashlib.sha256(name.encode()).digest())
    taken: set[str] = set()
    met: set[tuple[str, int]] = set()
    while left and len(taken) < count:
        best = max(left, key=lambda name: len(set(cases[name]) - met))
        left.remove(best)
        taken.add(best)
        met |= set(cases[best])
    return taken
