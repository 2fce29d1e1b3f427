"""Improvements of choices, each kept where the results on the samples for the search err less with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.quantize.channels import Channels, Scales
from tilewright.quantize.data import Split
from tilewright.quantize.equalize import ALPHAS, scaled_weight, sites
from tilewright.quantize.layers import Layer
from tilewright.quantize.recipe import Choice, as_float32
from tilewright.quantize.rounding import adapted, moments
from tilewright.quantize.search import Trial
from tilewright.quantize.trained import packed
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import post_order
from tilewright.support import trace

Choices = Mapping[str, Choice]
#: Samples that corrections are means over at most: a dense layer has one number a channel in each.
_CORRECTED = 32


@dataclass(frozen=True)
class Improvements:
    """Improvements of choices for the layers `free` of a module, judged by a trial of its samples."""

    mod: IRModule
    free: Sequence[Layer]
    trial: Trial
    parts: Split
    threads: int | None = None

    def equalized(self, choices: Choices, scales: Scales, method: str, dtype: str) -> dict[str, Choice]:
        """The choices with factors for channels (`equalize`), their codes by `method` and weights by `scales`."""
        found = sites(post_order(self.mod["main"].body), self.free)
        if not found:
            return dict(choices)
        calibration = [self.trial.samples[number] for number in self.parts.calibration]
        channels = Channels(self.mod, found, calibration, self.threads)
        tried = [dict(choices)]
        for alpha in ALPHAS:
            tried.append(channels.choices(choices, channels.factors(alpha), method, dtype, scales))
        effects = [self.trial.effects(one, list(one), self.parts.search) for one in tried]
        mixed = dict(choices)
        for site in found:
            names = [layer.name for layer in site.layers]
            best = min(range(len(tried)), key=lambda i: sum(effects[i][name].error for name in names))
            mixed.update({name: tried[best][name] for name in names})
        return self._best([*tried, mixed])

    def adapted(self, choices: Choices) -> dict[str, Choice]:
        """The choices with codes of weights by the data that they meet (`rounding`), and corrections by its means."""
        made = dict(choices)
        calibration = [self.trial.samples[number] for number in self.parts.calibration]
        known = moments(self.mod, self.free, choices, calibration, self.threads)
        for number, layer in enumerate(layer for layer in self.free if layer.name in known):
            trace.progress("round weights", number, len(known))
            own = choices[layer.name]
            weight = scaled_weight(layer, np.asarray(own.factors, np.float32)) if own.factors else layer.weight
            codes, lost = adapted(weight, np.asarray(own.weight_scales, np.float32), known[layer.name])
            made[layer.name] = replace(own, weight_codes=packed(codes), correction=as_float32(lost))
        return self._best([choices, made])

    def corrected(self, choices: Choices) -> dict[str, Choice]:
        """The choices with corrections by what integers lose of channels on average over samples for ranges."""
        alone = self.trial.alone(choices, self.parts.calibration, most=_CORRECTED)
        made = dict(choices)
        for name, own in choices.items():
            if own.weight_scales:
                made[name] = replace(own, correction=as_float32(np.add(own.correction or 0.0, alone[name].shift)))
        return self._best([choices, made])

    def _best(self, tried: Sequence[Choices]) -> dict[str, Choice]:
        """The choices whose results err least with all layers in integers; of equals the first."""
        search = self.parts.search
        errors = [self.trial.loss(one, list(one), search).relative for one in tried]
        return dict(tried[errors.index(min(errors))])
