"""Strides that tensors of PyTorch have, as an order of axes in memory and as functions of a graph's inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.errors import UnsupportedError

#: Size, stride, and whether the elements fill the memory in the order of the layout.
Where = tuple[tuple[int, ...], tuple[int, ...], bool]


@dataclass(frozen=True)
class Layout:
    """The layout of a tensor in memory: `order` are its axes from the outermost to the innermost, None for their own
    order.

    `is_needed` is False where C order is the layout, `is_dense` True where no element of the memory is left out or
    shared; `is_exact` False where sizes or strides are unknown and C order is taken instead.
    """

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    order: tuple[int, ...] | None = None
    is_needed: bool = True
    is_dense: bool = True
    is_exact: bool = True

    @property
    def is_transposed(self) -> bool:
        """True where the strides are known to be those of C order with the axes permuted, of extents of 1 as well."""
        numbers = (*self.size, *self.stride)
        if self.order is None or not all(isinstance(number, int) for number in numbers) or 0 in self.size:
            return False
        return [self.stride[axis] for axis in self.order] == c_strides([self.size[axis] for axis in self.order])

    def where(self, sizes: SizesOfInputs) -> Callable[[Sequence[Any]], Where]:
        """A function of the graph's inputs."""
        rank, order = len(self.size), self.order

        def checked(*numbers: int) -> Where:
            size, stride = numbers[:rank], numbers[rank:]
            return size, stride, _is_dense(size, stride, order or range(rank))

        if all(isinstance(number, int) for number in (*self.size, *self.stride)):
            fixed = checked(*self.size, *self.stride)
            return lambda _args: fixed
        return sizes.function([*self.size, *self.stride], "a result", checked)


def layout_of(value: Any) -> Layout:
    """The layout of a (fake) tensor."""
    size, stride = tuple(value.shape), tuple(value.stride())
    found = [_hint(number) for number in (*size, *stride)]
    hints = [hint for hint in found if hint is not None]
    if len(hints) < len(found):
        return Layout(size, stride, is_needed=False, is_exact=False)
    extents, steps = hints[: len(size)], hints[len(size) :]
    own = range(len(size))
    if [plain(step) for step in stride] == c_strides([plain(extent) for extent in size]) and 0 not in extents:
        return Layout(size, stride, is_needed=False)
    if _is_dense(extents, steps, own):
        return Layout(size, stride)
    order = tuple(sorted(own, key=lambda axis: -steps[axis]))
    if _is_dense(extents, steps, order):
        return Layout(size, stride, order)
    overlaps = any(step == 0 and extent > 1 for extent, step in zip(extents, steps))
    return Layout(size, stride, is_needed=not overlaps, is_dense=False, is_exact=not overlaps)


def c_strides(extents: Sequence[Any]) -> list[Any]:
    """The strides of C order."""
    strides, step = [], 1
    for extent in reversed(extents):
        strides.append(step)
        step = step * extent
    return strides[::-1]


def plain(number: Any) -> Any:
    """An integer as it is, a `torch.SymInt` as its expression: comparing these adds no guard."""
    return number if isinstance(number, int) else number.node.expr


class SizesOfInputs:
    """Sizes that follow from those of a graph's inputs, as functions of these."""

    def __init__(self, placeholders: Sequence[Any]) -> None:
        self._positions: dict[Any, tuple[int, int | None]] = {}
        for position, node in enumerate(placeholders):
            value = node.meta.get("val")
            listed = (
                [(None, value)] if type(value).__name__ == "SymInt" else list(enumerate(getattr(value, "shape", ())))
            )
            for axis, extent in listed:
                if type(extent).__name__ == "SymInt" and extent.node.expr.is_Symbol:
                    self._positions.setdefault(extent.node.expr, (position, axis))

    def function(
        self, numbers: Sequence[Any], where: str, use: Callable[..., Any] = lambda *found: found
    ) -> Callable[[Sequence[Any]], Any]:
        """A function of the inputs that returns what `use` makes of the `numbers`, by default the tuple of them.

        Raises `UnsupportedError` where one of them does not follow from the inputs.
        """
        # torch is optional, and brings sympy
        import sympy

        wanted = [sympy.sympify(plain(number)) for number in numbers]
        symbols = sorted({symbol for expr in wanted for symbol in expr.free_symbols}, key=str)
        if any(symbol not in self._positions for symbol in symbols):
            raise UnsupportedError(f"{where} is a size that a run computes, which is not supported")
        needed = [self._positions[symbol] for symbol in symbols]

        @cache
        def value_at(*extents: int) -> Any:
            known = dict(zip(symbols, map(sympy.Integer, extents)))
            return use(*(int(expr.xreplace(known)) for expr in wanted))

        def value(args: Sequence[Any]) -> Any:
            return value_at(
                *(args[position] if axis is None else args[position].shape[axis] for position, axis in needed)
            )

        return value


def _hint(number: Any) -> int | None:
    """The value that a size had when PyTorch traced; None for one that only a run finds."""
    if isinstance(number, int):
        return number
    found = number.node.hint
    return None if found is None else int(found)


def _is_dense(size: Sequence[int], stride: Sequence[int], order: Sequence[int]) -> bool:
    """True where the elements lie one after the other, by the axes in `order`."""
    if 0 in size:
        return True
    wanted = c_strides([size[axis] for axis in order])
    return all(size[axis] == 1 or stride[axis] == step for axis, step in zip(order, wanted))
