"""Measurements by their input, in memory, by the classic interface.

database = DummyDatabase()
database.save(inp, result)
database.load(inp)                                  # the last result; all of them with get_all=True
database.filter(lambda inp, results: …)             # pairs of an input and its last result
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.autotvm.classic.measure import MeasureInput, MeasureResult
from tilewright.autotvm.classic.record import measure_str_key


class DummyDatabase:
    """Results by task, target, configuration and hash of the code; nothing of it outlives the program."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Any], tuple[MeasureInput, list[MeasureResult]]] = {}

    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        """The last result of an input, or a list of all in the order in which they were saved; None where none is."""
        found = self._known.get(_key(inp))
        if found is None:
            return None
        return list(found[1]) if get_all else found[1][-1]

    def load_batch(self, inputs: Sequence[MeasureInput], get_all: bool = False) -> list[Any]:
        """`load` of each input."""
        return [self.load(inp, get_all) for inp in inputs]

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Keep a result; beside those there are with `extend`, else instead of them."""
        before = self._known[_key(inp)][1] if extend and _key(inp) in self._known else []
        self._known[_key(inp)] = inp, [*before, res]

    def filter(
        self, func: Callable[[MeasureInput, list[MeasureResult]], bool]
    ) -> list[tuple[MeasureInput, MeasureResult]]:
        """The inputs for which `func(inp, results)` is true, each with its last result."""
        return [(inp, results[-1]) for inp, results in self._known.values() if func(inp, list(results))]

    def flush(self) -> None:
        """Forget everything."""
        self._known.clear()


def _key(inp: MeasureInput) -> tuple[str, Any]:
    return measure_str_key(inp), inp.config.code_hash
