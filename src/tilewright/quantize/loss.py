"""The loss of a quantized model against the float model on the same samples, in one of three measures.

relative    |ours - float| / |float| of all numbers of a result, over all samples; the largest of the results
argmax      the share of answers, the largest number along the last axis, that differ
accuracy    the share of right answers by labels that is lost
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError

Array = np.ndarray[Any, Any]
MEASURES = ("relative", "argmax", "accuracy")


def default_measure(outputs: Sequence[tuple[int | None, ...]], labels: Array | None) -> str:
    """The measure for results of these shapes: "argmax" for one row of classes a sample, "accuracy" with labels."""
    if labels is not None:
        return "accuracy"
    one_row = len(outputs) == 1 and len(outputs[0]) == 2 and (outputs[0][1] or 2) > 1
    return "argmax" if one_row else "relative"


class Loss:
    """Losses gathered sample by sample."""

    def __init__(self) -> None:
        self.errors: list[float] = []
        self.norms: list[float] = []
        self.answers: list[tuple[Array, Array]] = []
        self.labels: list[int] = []

    def add(self, exact: Sequence[Array], ours: Sequence[Array], label: int | None = None) -> None:
        """Compare the results of one sample."""
        if not self.errors:
            self.errors, self.norms = [0.0] * len(exact), [0.0] * len(exact)
        for i, (a, b) in enumerate(zip(exact, ours, strict=True)):
            wide = a.astype(np.float64)
            self.errors[i] += float(np.sum((b - wide) ** 2))
            self.norms[i] += float(np.sum(wide**2))
        if exact[0].ndim:
            self.answers.append((exact[0].argmax(-1).reshape(-1), ours[0].argmax(-1).reshape(-1)))
        if label is not None:
            self.labels.append(label)

    @property
    def relative(self) -> float:
        """The relative error of the worst result."""
        return max(
            ((error / norm) ** 0.5 if norm else float(error > 0) for error, norm in zip(self.errors, self.norms)),
            default=0.0,
        )

    @property
    def argmax(self) -> float:
        """The share of answers that differ."""
        differ = [a != b for a, b in self.answers]
        return float(np.concatenate(differ).mean()) if differ else 0.0

    @property
    def accuracies(self) -> tuple[float, float]:
        """The shares of right answers, of the float model and of ours; needs labels and one answer a sample."""
        if any(len(a) != 1 for a, _ in self.answers) or len(self.labels) != len(self.answers):
            raise InputError("labels need a first result with one row of classes a sample; leave them out")
        right = np.array([(a[0] == label, b[0] == label) for (a, b), label in zip(self.answers, self.labels)])
        return float(right[:, 0].mean()), float(right[:, 1].mean())

    def by(self, measure: str) -> float:
        """The loss in one of `MEASURES`."""
        if measure == "accuracy":
            before, after = self.accuracies
            return before - after
        return self.argmax if measure == "argmax" else self.relative

    def summary(self) -> dict[str, float]:
        """All measures that there are, as the recipe keeps them."""
        found = {"relative": self.relative, "argmax": self.argmax}
        if self.labels:
            found["accuracy_float"], found["accuracy"] = self.accuracies
        return found


def signal_to_noise(exact: float, error: float) -> float:
    """Squares of numbers over squares of their errors, in decibels."""
    return float("inf") if error == 0 else 10.0 * float(np.log10(exact / error)) if exact else float("-inf")
