"""The interface of cost models: learn from measured configurations, and rank others.

    model = TreesModel()                                # or GruModel(), AnalyticModel(), Transferred(trained)
    model.fit(samples)                                  # rows that have times, by task
    mean, doubt = model.score(samples)                  # the higher the faster; how far its parts differ

A score is in units of the logarithm of speed, as far as the model learned that; only those of one task compare.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.feature.samples import Samples

Floats = NDArray[np.float32]


class CostModel(ABC):
    """A model by its `name`."""

    name = ""

    @property
    @abstractmethod
    def trained(self) -> bool:
        """True once there was something to learn from."""

    @abstractmethod
    def fit(self, samples: Samples) -> None:
        """Learn from measured configurations, of what was learned before nothing."""

    def for_residuals(self) -> CostModel:
        """An untrained model of this kind for what a trained one gets wrong: some hundredths, whose size counts. Pairs
        alone push a few configurations as far apart as their order requires, past all that the trained one knew."""
        return self

    @abstractmethod
    def score(self, samples: Samples) -> tuple[Floats, Floats]:
        """For each configuration how good it is, and how sure that is not."""


class AnalyticModel(CostModel):
    """The expectation of the schedule templates themselves (docs/findings.md); it learns nothing."""

    name = "analytic"

    @property
    def trained(self) -> bool:
        return False

    def fit(self, samples: Samples) -> None:
        """Nothing is learned."""

    def score(self, samples: Samples) -> tuple[Floats, Floats]:
        return samples.prior, np.zeros_like(samples.prior)


class Transferred(CostModel):
    """A model trained on other tasks or another processor, and a local one that learns what it gets wrong of this task.

    As in "Learning to Optimize Tensor Programs" (NeurIPS 2018), section 4, the two add up.
    """

    name = "transferred"

    def __init__(self, general: CostModel, local: CostModel) -> None:
        self.general, self.local = general, local.for_residuals()

    @property
    def trained(self) -> bool:
        return self.general.trained or self.local.trained

    def fit(self, samples: Samples) -> None:
        self.local.fit(self._with_prior(samples)[0])

    def score(self, samples: Samples) -> tuple[Floats, Floats]:
        known, doubt = self._with_prior(samples)
        if not self.local.trained:
            return known.prior, doubt
        mean, more = self.local.score(known)
        return mean, np.sqrt(doubt**2 + more**2)

    def _with_prior(self, samples: Samples) -> tuple[Samples, Floats]:
        """Samples whose prior is the general model's score."""
        mean, doubt = self.general.score(samples)
        return samples.with_prior(mean), doubt


def relevance(samples: Samples) -> Floats:
    """For each row the best time of its group over its own: 1 for the best, towards 0 for the slowest."""
    best = np.full(int(samples.groups.max()) + 1, np.inf, np.float32)
    np.minimum.at(best, samples.groups, samples.seconds)
    return np.asarray(best[samples.groups] / samples.seconds, np.float32)
