"""The measuring stand: arrays of a task in memory, and compiled configurations of it run on them, in turns.

This runs in the process of the runner, which may die of what it runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.autotvm.measure.loop import LOOP_STEPS
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.timing import Timing, block_count, calls_a_block, is_hopeless, timing_of
from tilewright.autotvm.task.task import OUTPUT, WEIGHT, Argument
from tilewright.backend.compiled import AnyCompiled
from tilewright.errors import TilewrightError
from tilewright.runtime.gpu.module import DeviceModule
from tilewright.runtime.gpu.prepared import DevicePrepared
from tilewright.runtime.memory import Array, Region
from tilewright.runtime.module import Module, Prepared
from tilewright.support.dtype import DType

#: A call with its arguments in place, here or on a device.
AnyPrepared = Prepared | DevicePrepared

#: What a configuration is in a comparison.
_CANDIDATE, _INCUMBENT = "candidate", "incumbent"

#: Random integers stay below this, so that sums of products of them are exact.
_INTEGER_LIMIT = 8

#: How far results may be apart: so many units in the last place of the largest, in the type of the sums, and in that of
#: the result.
_UNITS, _NARROW_UNITS = 512, 4


class WrongResult(TilewrightError):
    """A configuration computes something else than the reference."""


class Stand:
    """Arrays for a task, and what the reference makes of them."""

    def __init__(
        self,
        arguments: Sequence[Argument],
        reference: AnyCompiled,
        loop: AnyCompiled,
        threads: int | None,
        options: MeasureOptions,
    ) -> None:
        self.options, self.threads = options, threads
        generator = generator_for(arguments)
        self.arrays = [filled(argument, generator) for argument in arguments]
        self.turns = _copies(arguments, self.arrays, options.cold_bytes)
        self.outputs = [index for index, argument in enumerate(arguments) if argument.role == OUTPUT]
        self.loop = _prepared(loop.load(1), [np.ones(LOOP_STEPS, np.float32), np.zeros(1, np.float32)])
        self._modules: dict[tuple[str, bytes], AnyPrepared] = {}
        self._run_once(reference)
        self.expected = [self.arrays[index].copy() for index in self.outputs]

    def _run_once(self, code: AnyCompiled) -> Module | DeviceModule:
        module = code.load(self.threads)
        for index in self.outputs:
            poison(self.arrays[index])
        module[code.functions[0].name](*self.arrays)
        return module

    def check(self, code: AnyCompiled) -> None:
        """Run a configuration and compare its results. Raises `WrongResult` where they differ."""
        module = self._run_once(code)
        for index, expected in zip(self.outputs, self.expected):
            compare_results(self.arrays[index], expected, self.options.tolerance)
        self._modules[_CANDIDATE, code.object_code] = self._timed(module)

    def _timed(self, module: Module | DeviceModule) -> AnyPrepared:
        return _prepared(module, self.arrays, self.turns)

    def _of(self, code: AnyCompiled, part: str) -> AnyPrepared:
        """A configuration ready to be timed, once for each part that it plays; few stay loaded."""
        key = part, code.object_code
        found = self._modules.pop(key, None) or self._timed(code.load(self.threads))
        self._modules[key] = found
        while len(self._modules) > 4:
            del self._modules[next(iter(self._modules))]
        return found

    def forget(self) -> None:
        """Load what is compared anew next time: at other addresses, with other working memory."""
        self._modules.clear()

    def compare(self, candidate: AnyCompiled, incumbent: AnyCompiled, blocks: int, patient: bool = False) -> Timing:
        """Time a candidate in turns with the incumbent, `blocks` blocks of each; of long calls fewer.

        A clearly slower candidate is given up after a few, unless `patient`.
        """
        ours, other = self._of(candidate, _CANDIDATE), self._of(incumbent, _INCUMBENT)
        once = {run: _once(run) for run in (ours, other)}
        numbers = {run: calls_a_block(taken, self.options) for run, taken in once.items()}
        blocks = block_count(blocks, sum(once.values()), self.options)
        times: dict[AnyPrepared, list[float]] = {ours: [], other: [], self.loop: []}
        for done in range(blocks):
            order = (ours, other) if done % 2 else (other, ours)
            times[self.loop].append(self.loop.seconds())
            for run in order:
                times[run].append(run.seconds(numbers[run]))
            if not patient and is_hopeless(times[ours], times[other]):
                break
        return timing_of(times[ours], times[other], times[self.loop])


#: A call that takes so many seconds is timed well by a single one.
_LONG = 0.01


def _once(run: AnyPrepared) -> float:
    """Seconds of a call, more or less."""
    first = run.seconds()
    return first if first > _LONG else run.seconds()


def _prepared(
    module: Module | DeviceModule, arrays: list[Array], turns: dict[int, list[Array]] | None = None
) -> AnyPrepared:
    (info, *_) = module.functions.values()
    return module[info.name].prepared(*arrays, turns=turns)


def generator_for(arguments: Sequence[Argument]) -> np.random.Generator:
    """The random generator of the values of these arguments: the same wherever a task is measured."""
    return np.random.default_rng(zlib.crc32(repr(arguments).encode()))


def filled(argument: Argument, generator: np.random.Generator) -> Array:
    """The argument's own values, or random ones, products of which stay in the range of every type."""
    dtype = DType(argument.dtype)
    array = _array(argument.shape, dtype.numpy)
    if argument.values is not None:
        array[...] = argument.values
        return array
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


def poison(array: Array) -> None:
    """Fill an output with a byte pattern that shows elements that were not written."""
    array.reshape(-1).view(np.uint8)[...] = 0xA5


def compare_results(found: Array, expected: Array, tolerance: float | None) -> None:
    """Raise `WrongResult` where results are not those expected, but for rounding."""
    if found.dtype.kind in "biu":
        wrong = found != expected
    else:
        a, b = found.astype(np.float64), expected.astype(np.float64)
        largest = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
        allowed = largest * (_tolerance(found.dtype) if tolerance is None else tolerance)
        wrong = ~((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if wrong.any():
        position = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise WrongResult(
            f"{int(wrong.sum())} of {wrong.size} results differ; at {[int(i) for i in position]} "
            f"it is {found[position]}, "
            f"should be {expected[position]}"
        )


def _tolerance(dtype: np.dtype[Any]) -> float:
    """Of the largest result: sums in another order differ in their last places, and are then rounded to the type."""
    own = float(ml_dtypes.finfo(dtype).eps)
    return max(_UNITS * min(own, float(np.finfo(np.float32).eps)), _NARROW_UNITS * own)
