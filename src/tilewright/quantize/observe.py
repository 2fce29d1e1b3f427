"""Compiled statistics of expressions of a model: extreme values, and counts of all values in the bins of histograms.

The float model and its statistics are one compiled model, so that only three numbers a tensor leave it, and counts. The
model is run once: a histogram widens by powers of two as larger values come, and its bins merge in pairs. Small models
take several samples at a time, where the graph lets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.compile import compile
from tilewright.errors import InputError
from tilewright.quantize.batch import of_batch
from tilewright.quantize.ranges import BINS, Array, Histogram
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Constant, Expr, Function, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.gather import take
from tilewright.relay.op.statistics import extremes, histogram
from tilewright.relay.op.transform import concatenate
from tilewright.support import trace

#: Samples at a time at most and at least, and the values of the tensors that a run has then at most: the caches hold
#: them, and what a run costs beside its kernels is small from there on.
_BATCH, _LEAST_BATCH, _VALUES = 32, 4, 1 << 22
#: The difference of extreme values, relative to the largest, that rounding makes in another order of sums.
_ROUNDING = 1e-4
_LIMITS = "limits of histograms"


class Observer:
    """Statistics of `tensors`, float32 expressions of `mod`'s main by name; without `counts` extreme values alone."""

    def __init__(self, mod: IRModule, tensors: Mapping[Any, Expr], counts: bool, threads: int | None = None) -> None:
        self.mod, self.counts, self.threads = mod, counts, threads
        self.names, self._roots = list(tensors), list(tensors.values())
        self._model: Any = None
        self._batch = 0

    def observe(self, samples: Sequence[Mapping[str, Any]], into: Mapping[Any, Histogram]) -> None:
        """Run the model over `samples`, and enter what is seen into the histograms."""
        if not self.names or not samples:
            return
        if self._model is None or len(samples) % self._batch:
            self._model, self._batch = self._compiled(samples)
        for start in range(0, len(samples), self._batch):
            trace.progress("calibrate", start, len(samples))
            self._run(samples, start, [into[name] for name in self.names])

    # ---------------------------------------------------------------------------------------------------- compilation
    def _compiled(self, samples: Sequence[Mapping[str, Any]]) -> tuple[Any, int]:
        main = self.mod["main"]
        batch = self._largest_batch(len(samples))
        wide = of_batch(main, self._roots, batch) if batch > 1 else None
        if wide is not None:
            model = self._with_statistics(*wide)
            if self._alike(model, samples, batch):
                return model, batch
        return self._with_statistics(main.params, self._roots), 1

    def _largest_batch(self, count: int) -> int:
        """The largest number of samples at a time that divides `count`, and is worth it."""
        values = sum(int(np.prod(tensor_type_of(one).shape)) for one in self._roots)
        most = min(_BATCH, _VALUES // max(values, 1))
        return next((batch for batch in range(most, _LEAST_BATCH - 1, -1) if count % batch == 0), 1)

    def _with_statistics(self, params: Sequence[Var], roots: Sequence[Expr]) -> Any:
        """The compiled model: extreme values [tensors * 3], then counts, from the inputs and limits [tensors]."""
        limits = Var(_LIMITS, TensorType((len(roots),), "float32"))
        ends = [extremes(root) for root in roots]
        counts = [
            histogram(root, own, take(limits, Constant(np.asarray(number, np.int32))), BINS)
            for number, (root, own) in enumerate(zip(roots, ends, strict=True))
        ]
        shown = Tuple([concatenate(ends, axis=0), *(counts if self.counts else ())])
        func = Function([*params, *([limits] if self.counts else ())], shown)
        return compile(infer_type(self.mod.with_function("main", func)), threads=self.threads)

    def _alike(self, model: Any, samples: Sequence[Mapping[str, Any]], batch: int) -> bool:
        """True if samples side by side are computed as each is by itself, after the interpreter."""
        pair = samples[: min(2, len(samples))]
        probe = self.mod.with_function("main", Function(self.mod["main"].params, Tuple(self._roots)))
        with np.errstate(all="ignore"):
            alone = [interpret(probe, sample) for sample in pair]
            given = self._given(
                [pair[i % len(pair)] for i in range(batch)], np.zeros(len(self.names), np.float32), model
            )
            ends = np.asarray(model.run(given)[0]).reshape(-1, 3)
            seen = [np.concatenate([np.ravel(one[i]) for one in alone]) for i in range(len(self.names))]
            wanted = np.array([(one.min(), one.max()) for one in seen])
            differ = np.abs(ends[:, :2] - wanted).max(axis=1)
            return bool(np.all(~(differ > _ROUNDING * np.abs(wanted).max(axis=1))))

    # ----------------------------------------------------------------------------------------------------------- runs
    def _run(self, samples: Sequence[Mapping[str, Any]], start: int, into: Sequence[Histogram]) -> None:
        limits = np.array([one.limit for one in into], np.float32)
        ends, *counts = self._results(samples[start : start + self._batch], limits)
        ends = np.asarray(ends).reshape(-1, 3)
        if not np.isfinite(ends[:, 2]).all():
            raise self._not_finite(samples, start)
        for number, (one, (least, largest, _)) in enumerate(zip(into, ends.tolist(), strict=True)):
            one.merge(least, largest, np.asarray(counts[number]) if self.counts else None)

    def _results(self, batch: Sequence[Mapping[str, Any]], limits: Array) -> list[Any]:
        return list(self._model.run(self._given(batch, limits, self._model)))

    def _given(self, batch: Sequence[Mapping[str, Any]], limits: Array, model: Any) -> dict[str, Any]:
        return {
            spec.name: limits
            if spec.name == _LIMITS
            else batch[0][spec.name]
            if len(batch) == 1
            else np.concatenate([one[spec.name] for one in batch])
            for spec in model.inputs
        }

    def _not_finite(self, samples: Sequence[Mapping[str, Any]], start: int) -> InputError:
        """The error that names the first sample of a batch with NaN or infinity, and the tensor."""
        limits = np.ones(len(self.names), np.float32)
        for number in range(start, start + self._batch):
            ends = np.asarray(self._results([samples[number]] * self._batch, limits)[0]).reshape(-1, 3)
            bad = [name for name, size in zip(self.names, ends[:, 2], strict=True) if not np.isfinite(size)]
            if bad:
                return InputError(
                    f"the float model computes NaN or infinity in {bad[0]} of calibration sample {number}"
                )
        return InputError(f"the float model computes NaN or infinity in calibration samples from {start} on")
