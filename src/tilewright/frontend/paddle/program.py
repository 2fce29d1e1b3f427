"""A Paddle program in the terms of today's, whichever of both forms its file has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Operation:
    """One operator: `inputs` and `results` are names of values, None for an input that is left out, lists for several.

    `counts` says how many tensors a result holds that is a list of them.
    """

    kind: str
    name: str
    inputs: list[Any]
    results: list[str]
    attrs: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class Value:
    """The declaration of a tensor in a file; -1 is a symbolic dimension."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass
class Program:
    """The main block: inputs and parameters by name, operators in order, and the values that are its results.

    `unstored` are the names of parameters that no file has, such as the state of dropout; nothing reads them.
    """

    label: str
    inputs: list[tuple[str, Value]] = field(default_factory=list)
    parameters: list[tuple[str, Value]] = field(default_factory=list)
    unstored: set[str] = field(default_factory=set)
    operations: list[Operation] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def result_names(self, names: Sequence[str]) -> list[str]:
        """Names for the results that differ from each other."""
        return [name if names.count(name) == 1 else f"{name}_{index}" for index, name in enumerate(names)]
