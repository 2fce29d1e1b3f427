"""One value of ours beside the reference's: how far they are apart, whether that passes, whether it says anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontend.bounds import EXACT, Bound, Bounds

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """The difference of one value: largest absolute difference, largest reference value, its index, and if it passes.

    `compared` is False where both are empty, or nowhere further from zero than the absolute part of the bound: any two
    such values pass, and nothing was learnt. `beyond` of `size` elements differ by more than the bound.
    """

    name: str
    error: float
    scale: float
    where: tuple[int, ...]
    passed: bool
    compared: bool = True
    bound: Bound = EXACT
    beyond: int = 0
    size: int = 0

    def line(self) -> str:
        """The difference as one line of the report."""
        if self.passed and not self.compared:
            what = "no finite value" if self.scale == 0.0 and self.error else f"nothing above {self.bound.atol:g}"
            return f"{'nothing':8} {self.name}: {what} in both, nothing compared"
        relative = self.error / self.scale if self.scale else self.error
        verdict = "ok" if self.passed else "DIFFERS"
        figures = f"max|ours - ref| {self.error:.3g}, max|ref| {self.scale:.3g}, ratio {relative:.2g}"
        if not self.passed and self.size:
            figures = f"{self.beyond} of {self.size} elements, {figures}, largest at {list(self.where)}"
        return f"{verdict:8} {self.name}: {figures}"


def compare(name: str, ours: Array, reference: Array, rtol: float, atol: float) -> Difference:
    """Compare one array: passes if max|ours - ref| <= atol + rtol * max|ref|, with equal shape, NaN and infinities.

    Texts are equal or not.
    """
    bound = Bound(rtol, atol)
    if ours.shape != reference.shape:
        title = f"{name} (shape {list(ours.shape)}, expected {list(reference.shape)})"
        return Difference(title, np.inf, 1.0, (), False, bound=bound)
    if reference.dtype.kind in "OUST":
        unequal = ours.astype(str) != reference.astype(str)
        beyond, size = int(unequal.sum()), unequal.size
        return Difference(name, float(beyond > 0), 1.0, _first(unequal), not beyond, size > 0, bound, beyond, size)
    a, b = ours.astype(np.float64), reference.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):  # inf - inf
        distance = np.where(same, 0.0, np.abs(a - b))
    distance = np.where(np.isnan(distance), np.inf, distance)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    error = float(distance.max()) if distance.size else 0.0
    compared, allowed = scale > atol or bool(np.isinf(b).any()), atol + rtol * scale
    beyond = int((distance > allowed).sum())
    return Difference(name, error, scale, _first(distance), not beyond, compared, bound, beyond, distance.size)


def _first(distance: Array) -> tuple[int, ...]:
    """The index of the largest element."""
    return tuple(int(i) for i in np.unravel_index(int(distance.argmax()), distance.shape)) if distance.size else ()


def compare_values(name: str, ours: Any, reference: Any, bounds: Bounds) -> Iterator[Difference]:
    """The same for results of models: arrays, and sequences, maps and optionals of such, item by item."""
    if isinstance(ours, list | tuple) and isinstance(reference, list | tuple) and len(ours) == len(reference):
        for index, (mine, other) in enumerate(zip(ours, reference)):
            yield from compare_values(f"{name}[{index}]", mine, other, bounds)
    elif isinstance(ours, Mapping) and isinstance(reference, Mapping) and ours.keys() == reference.keys():
        for key in reference:
            yield from compare_values(f"{name}[{key!r}]", ours[key], reference[key], bounds)
    elif any(isinstance(value, list | tuple | Mapping | None) for value in (ours, reference)):
        same = ours is None and reference is None
        title = name if same else f"{name} ({_kind(ours)}, expected {_kind(reference)})"
        yield Difference(title, 0.0 if same else np.inf, 0.0, (), same, not same)
    else:
        mine, other = np.asarray(ours), np.asarray(reference)
        bound = bounds.of(other.dtype)
        yield compare(name, mine, other, bound.rtol, bound.atol)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return f"{len(value)} items" if isinstance(value, list | tuple | Mapping) else "a tensor"
