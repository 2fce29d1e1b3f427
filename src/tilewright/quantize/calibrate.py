"""Calibration: the float model, compiled, runs over the samples and shows the tensors that layers read.

For "minmax" the compiled model reduces each tensor to two numbers; the other methods count its values in a histogram.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.compile import compile
from tilewright.errors import InputError
from tilewright.quantize.data import Sample
from tilewright.quantize.layers import Layer, read_by
from tilewright.quantize.ranges import Codes, Histogram, codes_of, range_of
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.op.reduce import max as largest_of
from tilewright.relay.op.reduce import min as least_of
from tilewright.runtime.model import Model
from tilewright.support import trace


def compiled(mod: IRModule, results: Sequence[Expr], target: Any = "cpu", threads: int | None = None) -> Model:
    """The module compiled with `results`, expressions of its `main`, in place of its own."""
    main = mod["main"]
    probe = Function(main.params, Tuple(list(results)))
    return compile(mod.with_function("main", probe), target=target, threads=threads)


def run_compiled(func: Function, dataset: Iterable[Mapping[str, Any]]) -> list[list[np.ndarray[Any, Any]]]:
    """The results of a function, compiled once, on each of several inputs by name."""
    model = compile(infer_type(IRModule({GlobalVar("main"): func})))
    return [[np.asarray(value) for value in model.run(_used(model, batch))] for batch in dataset]


class Calibration:
    """Histograms of the tensors that `layers` of a module read, by name."""

    def __init__(self, mod: IRModule, layers: Sequence[Layer]) -> None:
        self.mod = mod
        self.tensors = {name: data for layer in layers for name, data in zip(layer.tensors, read_by(layer.call))}
        self.histograms = {name: Histogram() for name in self.tensors}

    def run(self, samples: Iterable[Sample], extremes_only: bool, threads: int | None = None) -> None:
        """Run the model over `samples`; with `extremes_only` the histograms know no more than the extreme values."""
        computed = {name: expr for name, expr in self.tensors.items() if not isinstance(expr, Var)}
        results = [
            one
            for expr in computed.values()
            for one in ([least_of(expr), largest_of(expr)] if extremes_only else [expr])
        ]
        model = compiled(self.mod, results, threads=threads) if results else None
        samples = list(samples)
        for number, sample in enumerate(samples):
            trace.progress("calibrate", number, len(samples))
            values = [] if model is None else [np.asarray(value) for value in model.run(_used(model, sample))]
            step = 2 if extremes_only else 1
            seen = {name: values[i * step : (i + 1) * step] for i, name in enumerate(computed)}
            for name in self.tensors:
                for value in seen[name] if name in seen else [sample[name]]:
                    self._add(name, value, number)

    def _add(self, name: str, value: np.ndarray[Any, Any], number: int) -> None:
        if not np.isfinite([value.min(initial=0), value.max(initial=0)]).all():
            raise InputError(f"the float model computes NaN or infinity in {name} of calibration sample {number}")
        self.histograms[name].add(value)

    def codes(self, method: str, dtype: str) -> dict[str, Codes]:
        """The codes of each tensor by `method`."""
        return {name: codes_of(*range_of(one, method, dtype), dtype) for name, one in self.histograms.items()}


def _used(model: Model, sample: Mapping[str, Any]) -> dict[str, Any]:
    return {spec.name: sample[spec.name] for spec in model.inputs}
