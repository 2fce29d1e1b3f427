"""Calibration: the float model, compiled, runs over the samples with statistics of the tensors that layers read.

For "minmax" these are extreme values alone; the other methods count all values in a histogram.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.compile import compile
from tilewright.quantize.data import Sample
from tilewright.quantize.layers import Layer, read_by
from tilewright.quantize.observe import Observer
from tilewright.quantize.ranges import Codes, Histogram, codes_of, range_of
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.model import Model


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
        """Run the model over `samples`; with `extremes_only` the histograms know no more than the extreme values.

        Raises `InputError` where the model computes NaN or infinity.
        """
        Observer(self.mod, self.tensors, not extremes_only, threads).observe(list(samples), self.histograms)

    def codes(self, method: str, dtype: str) -> dict[str, Codes]:
        """The codes of each tensor by `method`."""
        return {name: codes_of(*range_of(one, method, dtype), dtype) for name, one in self.histograms.items()}


def _used(model: Model, sample: Mapping[str, Any]) -> dict[str, Any]:
    return {spec.name: sample[spec.name] for spec in model.inputs}
