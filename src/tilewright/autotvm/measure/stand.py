"""The measuring stand: arrays of a task in memory, and compiled configurations of it run on them, in turns.

This runs in the process of the runner, which may die of what it runs. Blocks of calls of the candidate, the incumbent
and the reference loop alternate, so that what disturbs the machine meets all of them; of each the tenth percentile is
told, which other programs on the machine move least.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.autotvm.measure.loop import LOOP_STEPS
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.task.task import OUTPUT, WEIGHT, Argument
from tilewright.codegen.build import Compiled
from tilewright.errors import TilewrightError
from tilewright.runtime.memory import Array, Region
from tilewright.runtime.module import Module, Prepared
from tilewright.support.dtype import DType

#: A candidate is given up when after so many rounds its best block is so many times as long as the incumbent's.
_HOPELESS = ((3, 1.3), (8, 1.1))

#: Random integers stay below this, so that sums of products of them are exact.
_INTEGER_LIMIT = 8

#: How far results may be apart: so many units in the last place of the largest, in the type of the sums, and in that of
#: the result.
_UNITS, _NARROW_UNITS = 512, 4


class WrongResult(TilewrightError):
    """A configuration computes something else than the reference."""


@dataclass(frozen=True)
class Timing:
    """Seconds of a call of the candidate, the incumbent and the reference loop: tenth percentiles over `blocks` blocks.

    `wins` is the share of the rounds in which the candidate was the faster one.
    """

    candidate: float
    incumbent: float
    loop: float
    wins: float
    blocks: int

    @property
    def ratio(self) -> float:
        """The candidate's time over the incumbent's."""
        return self.candidate / self.incumbent


class Stand:
    """Arrays for a task, and what the reference makes of them."""

    def __init__(
        self,
        arguments: Sequence[Argument],
        reference: Compiled,
        loop: Compiled,
        threads: int | None,
        options: MeasureOptions,
    ) -> None:
        self.options, self.threads = options, threads
        generator = np.random.default_rng(zlib.crc32(repr(arguments).encode()))
        self.arrays = [_filled(argument, generator) for argument in arguments]
        self.turns = _copies(arguments, self.arrays, options.cold_bytes)
        self.outputs = [index for index, argument in enumerate(arguments) if argument.role == OUTPUT]
        self.loop = _prepared(loop.load(1), [np.ones(LOOP_STEPS, np.float32), np.zeros(1, np.float32)])
        self._modules: dict[bytes, Prepared] = {}
        self._run_once(reference)
        self.expected = [self.arrays[index].copy() for index in self.outputs]

    def _run_once(self, code: Compiled) -> Module:
        module = code.load(self.threads)
        for index in self.outputs:
            _poison(self.arrays[index])
        module[code.functions[0].name](*self.arrays)
        return module

    def check(self, code: Compiled) -> None:
        """Run a configuration and compare its results. Raises `WrongResult` where they differ."""
        module = self._run_once(code)
        for index, expected in zip(self.outputs, self.expected):
            _compare(self.arrays[index], expected, self.options.tolerance)
        self._modules[code.object_code] = self._timed(module)

    def _timed(self, module: Module) -> Prepared:
        return _prepared(module, self.arrays, self.turns)

    def _of(self, code: Compiled) -> Prepared:
        """A configuration ready to be timed; few stay loaded."""
        found = self._modules.pop(code.object_code, None) or self._timed(code.load(self.threads))
        self._modules[code.object_code] = found
        while len(self._modules) > 4:
            del self._modules[next(iter(self._modules))]
        return found

    def compare(self, candidate: Compiled, incumbent: Compiled, blocks: int, patient: bool = False) -> Timing:
        """Time a candidate in turns with the incumbent, `blocks` blocks of each.

        A clearly slower candidate is given up after a few, unless `patient`.
        """
        ours, other = self._of(candidate), self._of(incumbent)
        numbers = {run: self._number(run) for run in (ours, other)}
        times: dict[Prepared, list[float]] = {ours: [], other: [], self.loop: []}
        for done in range(blocks):
            order = (ours, other) if done % 2 else (other, ours)
            times[self.loop].append(self.loop.seconds())
            for run in order:
                times[run].append(run.seconds(numbers[run]))
            if not patient and any(
                done + 1 == rounds and min(times[ours]) > worse * min(times[other]) for rounds, worse in _HOPELESS
            ):
                break
        wins = sum(a < b for a, b in zip(times[ours], times[other])) / len(times[ours])
        low = {run: float(np.quantile(taken, 0.1)) for run, taken in times.items()}
        return Timing(low[ours], low[other], low[self.loop], wins, done + 1)

    def _number(self, run: Prepared) -> int:
        """Calls of a block."""
        run.seconds()
        return max(1, int(self.options.block_seconds / max(run.seconds(), 1e-9)))


def _prepared(module: Module, arrays: list[Array], turns: dict[int, list[Array]] | None = None) -> Prepared:
    (info, *_) = module.functions.values()
    return module[info.name].prepared(*arrays, turns=turns)


def _filled(argument: Argument, generator: np.random.Generator) -> Array:
    """Random values; products of them stay in the range of every type."""
    dtype = DType(argument.dtype)
    array = _array(argument.shape, dtype.numpy)
    if argument.role == OUTPUT:
        return array
    if dtype.is_float:
        array[...] = generator.standard_normal(argument.shape, np.float32).astype(dtype.numpy)
    elif dtype.is_bool:
        array[...] = generator.random(argument.shape) < 0.5
    else:
        low, high = dtype.limits()
        array[...] = generator.integers(max(low, -_INTEGER_LIMIT), min(high, _INTEGER_LIMIT), argument.shape)
    return array


def _array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return Region(nbytes).array().view(dtype).reshape(shape)


def _copies(arguments: Sequence[Argument], arrays: list[Array], cold_bytes: int) -> dict[int, list[Array]]:
    """As many copies of the weights as make `cold_bytes` bytes, which take turns."""
    weights = [index for index, argument in enumerate(arguments) if argument.role == WEIGHT]
    own = sum(arrays[index].nbytes for index in weights)
    count = -(-cold_bytes // own) if own else 1
    found: dict[int, list[Array]] = {}
    for index in weights if count > 1 else []:
        found[index] = [arrays[index]]
        for _ in range(count - 1):
            copy = _array(arrays[index].shape, arrays[index].dtype)
            copy[...] = arrays[index]
            found[index].append(copy)
    return found


def _poison(array: Array) -> None:
    """Bytes that no kernel leaves behind where it should have written."""
    array.reshape(-1).view(np.uint8)[...] = 0xA5


def _compare(found: Array, expected: Array, tolerance: float | None) -> None:
    if found.dtype.kind in "biu":
        wrong = found != expected
    else:
        a, b = found.astype(np.float64), expected.astype(np.float64)
        largest = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
        allowed = largest * (_tolerance(found.dtype) if tolerance is None else tolerance)
        wrong = ~((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise WrongResult(
            f"{int(wrong.sum())} of {wrong.size} results differ; at {[int(i) for i in place]} it is {found[place]}, "
            f"should be {expected[place]}"
        )


def _tolerance(dtype: np.dtype[Any]) -> float:
    """Of the largest result: sums in another order differ in their last places, and are then rounded to the type."""
    own = float(ml_dtypes.finfo(dtype).eps)
    return max(_UNITS * min(own, float(np.finfo(np.float32).eps)), _NARROW_UNITS * own)
