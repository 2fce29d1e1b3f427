"""Rates that depend on the number of the step, as part of the compiled step: training resumes where its rate was.

`Sequence((Linear(0, 1e-3, 100), 100), (Cosine(1e-3, 0, 900), 900))` warms up for 100 steps, then falls to 0. Steps
count from 0; after its last step a schedule keeps its last value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, const


@runtime_checkable
class Schedule(Protocol):
    """A rate for each step."""

    def at(self, step: Expr) -> Expr:
        """The rate of a step, whose number is a float32 scalar."""


#: A constant rate, or one for each step.
Rate = float | Schedule


@dataclass(frozen=True)
class Linear:
    """From `start` to `end` in equal parts over `steps`."""

    start: float
    end: float
    steps: int

    def at(self, step: Expr) -> Expr:
        """The rate of a step."""
        return _done(step, self.steps) * _number(self.end - self.start) + _number(self.start)


@dataclass(frozen=True)
class Polynomial:
    """From `start` to `end` over `steps`: what is left of the way is the power `power` of the steps that are left."""

    start: float
    end: float
    steps: int
    power: float = 2.0

    def at(self, step: Expr) -> Expr:
        """The rate of a step."""
        left = _number(1.0) - _done(step, self.steps)
        return op.power(left, _number(self.power)) * _number(self.start - self.end) + _number(self.end)


@dataclass(frozen=True)
class Cosine:
    """From `start` to `end` over `steps` along half a wave of the cosine (Loshchilov and Hutter, SGDR, 2016)."""

    start: float
    end: float
    steps: int

    def at(self, step: Expr) -> Expr:
        """The rate of a step."""
        wave = op.cos(_done(step, self.steps) * _number(math.pi)) + _number(1.0)
        return wave * _number((self.start - self.end) / 2) + _number(self.end)


@dataclass(frozen=True)
class Exponential:
    """`start` times `factor` to the number of the step by `every`; with `stairs` that number rounded down."""

    start: float
    factor: float
    every: int = 1
    stairs: bool = False

    def at(self, step: Expr) -> Expr:
        """The rate of a step."""
        count = step * _number(1 / self.every) if not self.stairs else op.floor((step + 0.5) * _number(1 / self.every))
        return op.exp(count * _number(math.log(self.factor))) * _number(self.start)


class Sequence:
    """Schedules one after the other, each with its number of steps; the last goes on."""

    def __init__(self, *parts: tuple[Schedule, int]) -> None:
        """Raises `InputError` where there is none, or one without steps."""
        if not parts or any(steps < 1 for _, steps in parts):
            raise InputError("a sequence of schedules needs one part at least, each of one step or more")
        self.parts = parts

    def at(self, step: Expr) -> Expr:
        """The rate of a step."""
        *earlier, (last, _) = self.parts
        begins = [sum(steps for _, steps in self.parts[:index]) for index in range(len(self.parts))]
        rate = last.at(op.maximum(step - _number(begins[-1]), _number(0.0)))
        for (part, steps), begin in reversed(list(zip(earlier, begins, strict=False))):
            rate = op.where(op.less(step, _number(begin + steps)), part.at(step - _number(begin)), rate)
        return rate


def one_cycle(
    peak: float, steps: int, warm_up: float = 0.3, divided: float = 25.0, finally_divided: float = 1e4
) -> Sequence:
    """From `peak / divided` up to `peak` and down to the first by `finally_divided`, by cosines (Smith, 2017)."""
    first, up = peak / divided, max(int(warm_up * steps) - 1, 1)
    return Sequence((Cosine(first, peak, up), up), (Cosine(peak, first / finally_divided, steps - up - 1), steps - up))


def _done(step: Expr, steps: int) -> Expr:
    """The part of the steps that is done, at most 1."""
    if steps < 1:
        raise InputError(f"a schedule of {steps} steps has no rate; it needs one step at least")
    return op.minimum(step * _number(1 / steps), _number(1.0))


def _number(value: float) -> Expr:
    return const(value, "float32")
