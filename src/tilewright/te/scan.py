"""Scans: recurrences along a time axis, such as the cells of a recurrent network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.te.itervar import IterType, IterVar
from tilewright.te.operation import Operation, PlaceholderOp, Read
from tilewright.te.tag import current_tag
from tilewright.te.tensor import Tensor
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Var
from tilewright.tir.position import Position, caller


class ScanOp(Operation):
    """Tensors whose first dimension is time: `init` holds their first steps, `update` makes each later one.

    In `update` (and what it reads), the placeholders `states` stand for the result so far, to be read at earlier
    steps. `scan_axis` runs over the steps that are updated, in order. `inputs` lists further tensors that are read.
    """

    __slots__ = ("axis", "init", "inputs", "scan_axis", "states", "update")
    reduce_axis = ()

    def __init__(
        self,
        name: str,
        scan_axis: IterVar,
        init: Sequence[Tensor],
        update: Sequence[Tensor],
        states: Sequence[Tensor],
        inputs: Sequence[Tensor] = (),
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
        position: Position | None = None,
    ) -> None:
        self.name, self.tag, self.attrs, self.position = name, tag, dict(attrs or {}), position
        self.scan_axis = scan_axis
        self.axis = (scan_axis,)
        self.init, self.update, self.states = tuple(init), tuple(update), tuple(states)
        self.inputs = tuple(inputs)
        several = len(self.update) > 1
        self.outputs = tuple(
            Tensor(self, i, s.shape, s.dtype, f"{name}.v{i}" if several else name) for i, s in enumerate(self.states)
        )

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors of the first steps and the updates."""
        return tuple(dict.fromkeys((*self.init, *self.update)))

    def reads(self) -> list[Read]:
        """All of `init`; of `update` the step at hand."""
        first: list[Read] = [(t, (None,) * t.ndim) for t in self.init]
        return first + [(t, (self.scan_axis.var, *(None,) * (t.ndim - 1))) for t in self.update]

    def scan_reads(self, tensors: Sequence[Tensor]) -> bool:
        """True if one of `tensors` is a first step or an update."""
        return any(t in self.init or t in self.update for t in tensors)

    def with_inputs(self, tensors: Mapping[Tensor, Tensor]) -> ScanOp:
        """The same recurrence with other first steps and updates."""
        init, update = ([tensors.get(t, t) for t in part] for part in (self.init, self.update))
        return ScanOp(
            self.name, self.scan_axis, init, update, self.states, self.inputs, self.tag, self.attrs, self.position
        )


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Sequence[Tensor] = (),
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """The recurrence state[t] = init[t] for the first steps, then state[t] = update[t]; time is dimension 0.

    `state_placeholder` (a `te.placeholder` of the whole result's shape, or a list for several states) is what `update`
    reads earlier steps from, with `init` and `update` tensors alike in number, type and shape; the size of dimension
    0 of `init` is the number of first steps. Returns a tensor, or a list for several states. `s[scan].op.scan_axis` is
    the loop over time; what depends on the state is computed inside it.

        state = te.placeholder((t, n))
        first = te.compute((1, n), lambda _, i: X[0, i])
        total = te.compute((t, n), lambda t, i: state[t - 1, i] + X[t, i])
        te.scan(first, total, state)                                            # cumulative sums of the columns

    Raises TypeError naming the state for what does not fit.
    """
    several = isinstance(update, (list, tuple))
    parts = [list(x) if isinstance(x, (list, tuple)) else [x] for x in (init, update, state_placeholder)]
    firsts, updates, states = parts
    if not len(firsts) == len(updates) == len(states) or not states:
        raise TypeError(f"{name}: {len(firsts)} init, {len(updates)} update and {len(states)} state tensors")
    for first, made, state in zip(firsts, updates, states, strict=True):
        _check_state(name, first, made, state)
        if first.shape[0] is not firsts[0].shape[0] or state.shape[0] is not states[0].shape[0]:
            raise TypeError(f"{name}: state {state.name} has other steps than {states[0].name}")
    start, steps = firsts[0].shape[0], states[0].shape[0]
    axis = IterVar(Range(start, steps - start), Var(f"{name}.t", start.dtype), IterType.ORDERED)
    op = ScanOp(name, axis, firsts, updates, states, inputs, tag or current_tag(), attrs, caller())
    return list(op.outputs) if several else op.outputs[0]


def _check_state(name: str, first: Tensor, made: Tensor, state: Tensor) -> None:
    for tensor in (first, made, state):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: te.scan takes tensors; got {tensor!r}")
    if not isinstance(state.op, PlaceholderOp):
        raise TypeError(f"{name}: the state {state.name} must be a te.placeholder, not the result of {state.op!r}")
    if not state.dtype is first.dtype is made.dtype:
        raise TypeError(f"{name}: state {state.name} is {state.dtype}, its init {first.dtype}, its update {made.dtype}")
    if state.ndim < 1 or made.shape != state.shape or first.shape[1:] != state.shape[1:]:
        raise TypeError(
            f"{name}: state {state.name} has the shape {list(state.shape)}; its update has {list(made.shape)} and its "
            f"init {list(first.shape)}, which may differ in the first dimension only"
        )
