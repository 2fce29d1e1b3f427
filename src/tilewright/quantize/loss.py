"""The loss of a quantized model against the float model on the same samples, in one of three measures, and its bound.

relative    |ours - float| / |float| of all numbers of a result, over all samples; the largest of the results
argmax      the share of answers, the largest number along the last axis, that differ
accuracy    the share of right answers by labels that is lost
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.bound import ratio_bound, share_bound

Array = np.ndarray[Any, Any]
MEASURES = ("relative", "argmax", "accuracy")


def default_measure(outputs: Sequence[tuple[int | None, ...]], labels: Array | None) -> str:
    """The measure for results of these shapes: "argmax" for one row of classes a sample, "accuracy" with labels."""
    if labels is not None:
        return "accuracy"
    one_row = len(outputs) == 1 and len(outputs[0]) == 2 and (outputs[0][1] or 2) > 1
    return "argmax" if one_row else "relative"


def measure_of(wanted: str | None, outputs: Sequence[tuple[int | None, ...]], labels: Array | None) -> str:
    """The measure that is wanted, or the default. Raises `InputError` for accuracy without labels."""
    if wanted == "accuracy" and labels is None:
        raise InputError("the loss 'accuracy' needs the class of each sample; pass --labels FILE.npy")
    return wanted or default_measure(outputs, labels)


class Loss:
    """Losses gathered sample by sample."""

    def __init__(self) -> None:
        #: Squares of errors and of numbers, by result, a number a sample.
        self.errors: list[list[float]] = []
        self.norms: list[list[float]] = []
        self.answers: list[tuple[Array, Array]] = []
        self.labels: list[int] = []

    def add(self, exact: Sequence[Array], ours: Sequence[Array], label: int | None = None) -> None:
        """Compare the results of one sample."""
        if not self.errors:
            self.errors, self.norms = [[] for _ in exact], [[] for _ in exact]
        for i, (a, b) in enumerate(zip(exact, ours, strict=True)):
            wide = a.astype(np.float64)
            self.errors[i].append(float(np.sum((b - wide) ** 2)))
            self.norms[i].append(float(np.sum(wide**2)))
        if exact[0].ndim:
            self.answers.append((exact[0].argmax(-1).reshape(-1), ours[0].argmax(-1).reshape(-1)))
        if label is not None:
            self.labels.append(label)

    @property
    def relative(self) -> float:
        """The relative error of the worst result."""
        sums = ((sum(errors), sum(norms)) for errors, norms in zip(self.errors, self.norms))
        return max(((error / norm) ** 0.5 if norm else float(error > 0) for error, norm in sums), default=0.0)

    @property
    def argmax(self) -> float:
        """The share of answers that differ."""
        differ = [a != b for a, b in self.answers]
        return float(np.concatenate(differ).mean()) if differ else 0.0

    @property
    def accuracies(self) -> tuple[float, float]:
        """The shares of right answers, of the float model and of ours; needs labels and one answer a sample."""
        before, after = self._right()
        return float(before.mean()), float(after.mean())

    def _right(self) -> tuple[Array, Array]:
        """The samples whose answers are right: of the float model, and of ours."""
        if any(len(a) != 1 for a, _ in self.answers) or len(self.labels) != len(self.answers):
            raise InputError("labels need a first result with one row of classes a sample; leave them out")
        right = np.array([(a[0] == label, b[0] == label) for (a, b), label in zip(self.answers, self.labels)])
        return right[:, 0], right[:, 1]

    def by(self, measure: str) -> float:
        """The loss in one of `MEASURES`."""
        if measure == "accuracy":
            before, after = self.accuracies
            return before - after
        return self.argmax if measure == "argmax" else self.relative

    def bound(self, measure: str) -> float:
        """The loss of other samples, at most: an upper confidence bound. Infinity where the samples show none."""
        if measure == "relative":
            return max((ratio_bound(*pair) ** 0.5 for pair in zip(self.errors, self.norms)), default=0.0)
        if measure == "accuracy":
            before, after = self._right()
            lost, won = int(np.sum(before & ~after)), int(np.sum(after & ~before))
            return share_bound(lost, len(before)) - (1.0 - share_bound(len(before) - won, len(before)))
        differ = [int(np.sum(a != b)) for a, b in self.answers]
        counts = [len(a) for a, _ in self.answers]
        of_all = share_bound(sum(differ), sum(counts)) if counts else 0.0
        # answers of one sample are alike: their number says less than that of the samples
        return of_all if set(counts) <= {1} else max(of_all, ratio_bound(differ, counts))

    def holds(self, measure: str, budget: float) -> bool:
        """True if the loss is within `budget` on other samples too.

        Where so few samples could not show that, nothing may be lost on them (of one sample: no more than the budget).
        """
        if self.bound(measure) <= budget:
            return True
        if measure == "relative":
            return len(self.errors[0]) == 1 and self.relative <= budget
        return share_bound(0, len(self.answers)) > budget and self.by(measure) <= 0.0

    def summary(self) -> dict[str, float]:
        """All measures that there are, as the recipe keeps them."""
        found = {"relative": self.relative, "argmax": self.argmax}
        if self.labels:
            found["accuracy_float"], found["accuracy"] = self.accuracies
        return found


def signal_to_noise(exact: float, error: float) -> float:
    """Squares of numbers over squares of their errors, in decibels."""
    return float("inf") if error == 0 else 10.0 * float(np.log10(exact / error)) if exact else float("-inf")
