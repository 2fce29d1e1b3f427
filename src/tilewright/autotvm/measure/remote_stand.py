"""The measuring stand on a device of a fleet: arrays of a task there, and configurations compared in turns there.

What crosses the wire is the code of a configuration, once, and results to compare; the inputs once a session. All that
is timed is timed by the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.autotvm.measure.loop import LOOP_STEPS
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.stand import compare_results, filled, generator_for, poison
from tilewright.autotvm.measure.timing import (
    HOPELESS,
    Timing,
    block_count,
    calls_a_block,
    is_hopeless,
    timing_of,
)
from tilewright.autotvm.task.task import OUTPUT, WEIGHT, Argument
from tilewright.rpc.client import RemoteArray, RemoteLibrary, Session, Turn
from tilewright.runtime.memory import Array

#: What a configuration is in a comparison.
_CANDIDATE, _INCUMBENT = "candidate", "incumbent"


@dataclass(frozen=True)
class Upload:
    """A file for a device, with the name of the function in it."""

    contents: bytes
    function: str


class RemoteStand:
    """Arrays for a task on a device. `expected` are the reference's results if already computed."""

    def __init__(
        self,
        remote: Session,
        arguments: Sequence[Argument],
        reference: Upload,
        loop: Upload,
        threads: int | None,
        options: MeasureOptions,
        expected: list[Array] | None = None,
    ) -> None:
        self.remote, self.options, self.threads = remote, options, threads
        self._loaded: dict[tuple[str, Upload], RemoteLibrary] = {}
        generator = generator_for(arguments)
        self.arrays = [remote.array(filled(argument, generator)) for argument in arguments]
        self.outputs = [index for index, argument in enumerate(arguments) if argument.role == OUTPUT]
        self._untouched = {index: remote.array(_poisoned(self.arrays[index])) for index in self.outputs}
        self._turns = self._copies(arguments)
        self._loop = self._load(loop), loop.function
        self._loop_arrays = [
            remote.array(np.ones(LOOP_STEPS, np.float32)),
            remote.array(np.zeros(1, np.float32)),
        ]
        self.expected = self._results(reference) if expected is None else expected

    def check(self, code: Upload) -> None:
        """Run a configuration and compare its results here. Raises `WrongResult` where they differ."""
        for found, expected in zip(self._results(code, _CANDIDATE), self.expected, strict=True):
            compare_results(found, expected, self.options.tolerance)

    def forget(self) -> None:
        """Load what is compared anew next time: at other addresses, with other working memory."""
        self._loaded.clear()

    def compare(self, candidate: Upload, incumbent: Upload, blocks: int, patient: bool = False) -> Timing:
        """As `Stand.compare`, by the device's clock; it runs iterations up to those after which one may stop."""
        ours, other = self._turn(candidate, _CANDIDATE), self._turn(incumbent, _INCUMBENT)
        loop = Turn(*self._loop, self._loop_arrays)
        once = [taken[-1] for taken in self.remote.turns([ours, other], 2)]
        turns = [loop, *(self._many(turn, taken) for turn, taken in zip((ours, other), once, strict=True))]
        blocks = block_count(blocks, sum(once), self.options)
        times: list[list[float]] = [[], [], []]
        stops = [] if patient else [rounds for rounds, _ in HOPELESS if rounds < blocks]
        for stop in [*stops, blocks]:
            for all_of, more in zip(times, self.remote.turns(turns, stop - len(times[0])), strict=True):
                all_of.extend(more)
            if not patient and is_hopeless(times[1], times[2]):
                break
        return timing_of(times[1], times[2], times[0])

    def _many(self, turn: Turn, once: float) -> Turn:
        return Turn(turn.library, turn.function, turn.args, calls_a_block(once, self.options))

    def _turn(self, code: Upload, part: str) -> Turn:
        args: list[Any] = [self._turns.get(index, array) for index, array in enumerate(self.arrays)]
        return Turn(self._of(code, part), code.function, args)

    def _results(self, code: Upload, part: str = "") -> list[Array]:
        """The arrays after the code ran on them; nothing of an earlier run is left in them."""
        for index, untouched in self._untouched.items():
            self.arrays[index].copyfrom(untouched)
        library = self._of(code, part) if part else self._load(code)
        library[code.function](*self.arrays)
        return [self.arrays[index].numpy() for index in self.outputs]

    def _of(self, code: Upload, part: str) -> RemoteLibrary:
        """Loaded code, once for each part that it plays; few stay."""
        key = part, code
        found = self._loaded.pop(key, None) or self._load(code)
        self._loaded[key] = found
        while len(self._loaded) > 4:
            del self._loaded[next(iter(self._loaded))]
        return found

    def _load(self, code: Upload) -> RemoteLibrary:
        loaded = self.remote.load_module(self.remote.upload(code.contents), threads=self.threads)
        assert isinstance(loaded, RemoteLibrary)
        return loaded

    def _copies(self, arguments: Sequence[Argument]) -> dict[int, list[RemoteArray]]:
        """As many copies of the weights as make `cold_bytes` bytes, made on the device, which take turns."""
        weights = [index for index, argument in enumerate(arguments) if argument.role == WEIGHT]
        own = sum(self.arrays[index].nbytes for index in weights)
        count = -(-self.options.cold_bytes // own) if own else 1
        found = {}
        for index in weights if count > 1 else []:
            first = self.arrays[index]
            more = [self.remote.empty(first.shape, first.dtype).copyfrom(first) for _ in range(count - 1)]
            found[index] = [first, *more]
        return found


def _poisoned(array: RemoteArray) -> Array:
    """Bytes that no kernel leaves behind, in the shape of `array`."""
    made = np.empty(array.shape, array.numpy_dtype)
    poison(made)
    return made
