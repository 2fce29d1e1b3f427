"""Trials of factors for channels: ranges of the data by channel, and of the data divided by factors.

One compiled model shows the tensors of all sites divided by factors that are inputs of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.quantize.calibrate import compiled
from tilewright.quantize.data import Sample
from tilewright.quantize.equalize import Site, scaled_weight
from tilewright.quantize.layers import Layer
from tilewright.quantize.observe import Observer
from tilewright.quantize.ranges import Codes, Histogram, codes_of, range_of
from tilewright.quantize.recipe import Choice, as_float32
from tilewright.relay.ir.expr import Function, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.op.reduce import max as largest_of
from tilewright.relay.op.tensor import abs as magnitude
from tilewright.relay.op.tensor import divide
from tilewright.relay.op.transform import reshape

Array = np.ndarray[Any, Any]
#: The scales of a layer's weights, for data of some codes, by a method.
Scales = Callable[[Layer, Array, Codes, str], tuple[float, ...]]
#: Samples that are run for each set of factors at most.
_SAMPLES = 16


class Channels:
    """The sites of a module over some samples."""

    def __init__(self, mod: IRModule, sites: Sequence[Site], samples: Sequence[Sample], threads: int | None) -> None:
        self.sites, self.samples = sites, samples[:_SAMPLES]
        params, shown = [], []
        for number, site in enumerate(sites):
            param = Var(f"factors:{number}", TensorType((site.channels,), "float32"))
            column = [-1 if i == site.axis else 1 for i in range(tensor_type_of(site.expr).ndim)]
            params.append(param)
            shown.append(divide(site.expr, reshape(param, column)))
        self._divided = Observer(_with_params(mod, params), dict(enumerate(shown)), counts=True, threads=threads)
        most = [
            largest_of(magnitude(site.expr), axis=[i for i in range(tensor_type_of(site.expr).ndim) if i != site.axis])
            for site in sites
        ]
        model = compiled(mod, most, threads=threads)
        runs = [model.run({spec.name: one[spec.name] for spec in model.inputs}) for one in self.samples]
        self.largest = [np.max([np.asarray(run[number]) for run in runs], axis=0) for number in range(len(sites))]

    def factors(self, alpha: float) -> list[Array]:
        """The factors of each site."""
        return [site.factors(largest, alpha) for site, largest in zip(self.sites, self.largest, strict=True)]

    def choices(
        self, choices: Mapping[str, Choice], factors: Sequence[Array], method: str, dtype: str, scales: Scales
    ) -> dict[str, Choice]:
        """The choices with these factors, their codes by `method` and their weights by `scales`."""
        histograms = {number: Histogram() for number in range(len(self.sites))}
        given = {f"factors:{number}": one for number, one in enumerate(factors)}
        self._divided.observe([{**sample, **given} for sample in self.samples], histograms)
        made = dict(choices)
        for site, own, histogram in zip(self.sites, factors, histograms.values(), strict=True):
            codes = codes_of(*range_of(histogram, method, dtype), dtype)
            for layer in site.layers:
                made[layer.name] = replace(
                    made[layer.name], codes=(codes,), factors=as_float32(own),
                    weight_scales=scales(layer, scaled_weight(layer, own), codes, method),
                )  # fmt: skip
        return made


def _with_params(mod: IRModule, params: Sequence[Var]) -> IRModule:
    main = mod["main"]
    return infer_type(mod.with_function("main", Function([*main.params, *params], main.body)))
