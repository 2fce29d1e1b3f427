"""Recurrent layers (LSTM, GRU, RNN) as scans over time: what depends on the state, the input product already taken.

A step multiplies the state with the recurrent weights of all gates, adds the gates' inputs and applies the cell:

    inside[s, d, b, g, u] = sum over k of state[s - 1, d, b, k] * weight[d, u // block, k, g, u % block]
    state[s, d, b, u]     = cell(inside[s, d, b, :, u] + gates[time(s, d, b), b, d, :, u], state[s - 1, d, b, u])

Step s of the scan is s - 1 in time, or for a reverse direction counts from the end. Units are padded to whole blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te, tir
from tilewright.errors import UnsupportedError
from tilewright.runtime.host_ops.recurrent import GATES
from tilewright.te import Tensor
from tilewright.tir import IntImm
from tilewright.tir.dot_product import GROUP
from tilewright.topi import tag
from tilewright.topi.nn.quantized_state import ByteWeights, byte_product
from tilewright.topi.recurrent import Activation, Recurrence
from tilewright.topi.util import constant_shape

#: Units of a block where the weights arrive unpacked.
UNIT_BLOCK = 16

#: Step, direction, batch and unit.
Index = tuple[Any, Any, Any, Any]
#: The recurrent product of a gate at a position.
Inside = Callable[[int], Any]


def recurrent(
    gates: Tensor,
    weight: Tensor,
    hidden: Tensor,
    recurrence: Recurrence,
    cell: Tensor | None = None,
    peephole: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    scale: Tensor | None = None,
    columns: Tensor | None = None,
    zero: Tensor | None = None,
) -> list[Tensor]:
    """Y [T, D, B, H], Y_h [D, B, H] and, for an LSTM, Y_c [D, B, H] of D directions.

    `gates` [T, B, D * G * H] are the inputs of the G gates with the biases, in the order of ONNX; `weight` the
    recurrent weights [D, G * H, H], or packed as [D, P, H, G, block] with P * block >= H units. `hidden` and `cell`
    [D, B, H] are the first states, `peephole` [D, 3 * H] the weights from an LSTM's cell to its input, output and
    forget gate, `bias` [D, H] what a GRU that is `linear_before_reset` adds to the candidate's product, and `lengths`
    [B] the steps of each sequence. Weights of int8, packed as [D, P, H / 4, G, block, 4], have a `scale`, the sums
    `columns` and perhaps a `zero` point for each unit of a gate, [D, G * H] (`quantized_state`).
    """
    layer = _Layer.of(gates, weight, hidden, recurrence, peephole, bias, lengths, (scale, columns, zero))
    shape = (layer.steps + 1, *layer.state_shape)
    first = _first_steps(layer, [x for x in (hidden, cell) if x is not None])
    states = [te.placeholder(shape, gates.dtype, f"{name}_state") for name, _ in zip("hc", first)]
    made = te.scan(first, _update(layer, states), states, name="recurrent", tag=tag.RECURRENT)
    last = [
        te.compute(x.shape, lambda d, b, u, y=y: y(layer.steps, d, b, u), name="last_state", tag=tag.INJECTIVE)
        for x, y in zip((hidden, cell), made)
        if x is not None
    ]
    return [_sequence(layer, made[0], layer.depth), *last]


@dataclass(frozen=True)
class _Layer:
    """The operands of one layer's steps: inputs of the gates by step, packed weights, and the padded vectors."""

    recurrence: Recurrence
    gates: Callable[..., Any]
    weight: Tensor
    peephole: Callable[..., Any] | None
    bias: Callable[..., Any] | None
    lengths: Tensor | None
    steps: Any
    state_shape: tuple[int, Any, int]
    depth: int
    numbers: ByteWeights | None

    @staticmethod
    def of(
        gates: Tensor,
        weight: Tensor,
        hidden: Tensor,
        recurrence: Recurrence,
        peephole: Tensor | None,
        bias: Tensor | None,
        lengths: Tensor | None,
        of_bytes: tuple[Tensor | None, Tensor | None, Tensor | None],
    ) -> _Layer:
        directions, _, size = _state_sizes(hidden)
        count = GATES[recurrence.kind]
        packed = weight if weight.ndim > 3 else _packed(weight, count, 1 if of_bytes[0] is None else GROUP)
        blocks, block = constant_shape(packed)[1], constant_shape(packed)[4]
        units = blocks * block

        def parts(x: Tensor | None, number: int) -> Callable[..., Any] | None:
            return None if x is None else _parts(x, number, size, units)

        scale, columns, zero = of_bytes
        numbers = None
        if scale is not None and columns is not None:
            factors, sums = (_parts(x, count, size, units) for x in (scale, columns))
            numbers = ByteWeights(factors, sums, parts(zero, count), recurrence.codes)
        read = _parts(gates, directions * count, size, units)
        return _Layer(
            recurrence,
            lambda t, b, d, g, u: read(t, b, d * count + g, u),
            packed,
            parts(peephole, 3),
            parts(bias, 1),
            lengths,
            gates.shape[0],
            (directions, gates.shape[1], units),
            size,
            numbers,
        )

    @property
    def units(self) -> int:
        """The units of a state, whole blocks of them."""
        return self.state_shape[2]

    def time(self, step: Any, direction: Any, batch: Any) -> Any:
        """The moment whose inputs step `step` (from 1) of a direction reads."""
        end = self.steps if self.lengths is None else self.lengths(batch)
        backward = tir.maximum(end - step, 0) if self.lengths is not None else end - step
        return self.by_direction(direction, [backward if r else step - 1 for r in self.recurrence.reverse])

    def by_direction(self, direction: Any, values: Sequence[Any]) -> Any:
        """The value of the direction at hand."""
        if len(values) == 1 or values[0] is values[1]:
            return values[0]
        return tir.select(tir.eq(direction, 0), values[0], values[1])

    def activate(self, index: int, direction: Any, x: Any) -> Any:
        """Activation function `index` of the direction at hand, of `x` clipped."""
        chosen = [functions[index] for functions in self.recurrence.activations]
        limit = self.recurrence.clip
        of_cell = self.recurrence.kind == "lstm" and index == 2
        if limit and not of_cell:
            x = tir.minimum(tir.maximum(x, tir.const(-limit, x.dtype)), tir.const(limit, x.dtype))
        if all(activation == chosen[0] for activation in chosen):
            return activation_of(chosen[0], x)
        return self.by_direction(direction, [activation_of(activation, x) for activation in chosen])

    def kept(self, step: Any, batch: Any, fresh: Any, old: Any) -> Any:
        """`fresh` while the sequence lasts, then `old`."""
        return fresh if self.lengths is None else tir.select(step <= self.lengths(batch), fresh, old)

    def product(self, state: Tensor, gates: Sequence[int], name: str) -> Callable[..., Any]:
        """The product of some neighbouring gates with the state before each step, at (s, d, b, gate, unit)."""
        first, count = gates[0], len(gates)
        block = constant_shape(self.weight)[4]
        back = 1 if isinstance(state.op, te.PlaceholderOp) else 0
        if self.numbers is not None:
            return byte_product(state, self.weight, self.numbers, first, count, self.depth, back, name)
        k = te.reduce_axis((0, self.depth), name="k")
        return te.compute(
            (self.steps + 1, *self.state_shape[:2], count, self.units),
            lambda s, d, b, g, u: te.sum(
                state(s - back, d, b, k) * self.weight(d, u // block, k, first + g, u % block), axis=k
            ),
            name=name,
            tag=tag.RECURRENT_PRODUCT,
        )


# ------------------------------------------------------------------------------------------------------- cells
def _rnn_cell(layer: _Layer, at: Index, inside: Inside, old: Sequence[Any]) -> list[Any]:
    """The next states at a position, of the recurrent products `inside(gate)` and the states before."""
    s, d, b, u = at
    x = inside(0) + layer.gates(layer.time(s, d, b), b, d, 0, u)
    return [layer.kept(s, b, layer.activate(0, d, x), old[0])]


def _lstm_cell(layer: _Layer, at: Index, inside: Inside, old: Sequence[Any]) -> list[Any]:
    """Gates in the order input, output, forget, candidate."""
    s, d, b, u = at
    time = layer.time(s, d, b)

    def gate(index: int, peeped: Any = None) -> Any:
        x = inside(index) + layer.gates(time, b, d, index, u)
        return x if layer.peephole is None or peeped is None else x + layer.peephole(d, index, u) * peeped

    into = layer.activate(0, d, gate(0, old[1]))
    one = tir.const(1.0, into.dtype)
    forget = one - into if layer.recurrence.input_forget else layer.activate(0, d, gate(2, old[1]))
    fresh = forget * old[1] + into * layer.activate(1, d, gate(3))
    shown = layer.activate(0, d, gate(1, fresh)) * layer.activate(2, d, fresh)
    return [layer.kept(s, b, shown, old[0]), layer.kept(s, b, fresh, old[1])]


def _gru_gate(layer: _Layer, at: Index, inside: Inside, index: int) -> Any:
    """The update gate (0) or the reset gate (1)."""
    s, d, b, u = at
    return layer.activate(0, d, inside(index) + layer.gates(layer.time(s, d, b), b, d, index, u))


def _gru_cell(layer: _Layer, at: Index, inside: Inside, old: Sequence[Any], update: Any = None) -> list[Any]:
    """Gates in the order update, reset, candidate; `inside(2)` is of the reset state, if the reset comes first."""
    s, d, b, u = at
    product = inside(2)
    if layer.recurrence.linear_before_reset:
        biased = product if layer.bias is None else product + layer.bias(d, 0, u)
        product = _gru_gate(layer, at, inside, 1) * biased
    proposal = layer.activate(1, d, layer.gates(layer.time(s, d, b), b, d, 2, u) + product)
    kept = _gru_gate(layer, at, inside, 0) if update is None else update
    return [layer.kept(s, b, proposal + kept * (old[0] - proposal), old[0])]


_CELLS: dict[str, Callable[..., list[Any]]] = {"rnn": _rnn_cell, "lstm": _lstm_cell, "gru": _gru_cell}


def _update(layer: _Layer, states: list[Tensor]) -> list[Tensor]:
    """The states after each step, made of those before."""
    kind = layer.recurrence.kind
    if kind == "gru" and not layer.recurrence.linear_before_reset:
        return _reset_first(layer, states[0])
    inside = layer.product(states[0], range(GATES[kind]), "inside")

    def step(s: Any, d: Any, b: Any, u: Any) -> list[Any]:
        old = [state(s - 1, d, b, u) for state in states]
        return _CELLS[kind](layer, (s, d, b, u), lambda gate: inside(s, d, b, gate, u), old)

    return list(te.compute(states[0].shape, step, name="cell", tag=tag.RECURRENT_CELL))


def _reset_first(layer: _Layer, state: Tensor) -> list[Tensor]:
    """A GRU that resets the state before the candidate's product: two products, one after the other."""
    inside = layer.product(state, range(2), "inside")

    def reset(s: Any, d: Any, b: Any, u: Any) -> list[Any]:
        update, kept = (
            _gru_gate(layer, (s, d, b, u), lambda gate: inside(s, d, b, gate, u), index) for index in (0, 1)
        )
        return [update, kept * state(s - 1, d, b, u)]

    update, remembered = te.compute(state.shape, reset, name="reset_state", tag=tag.RECURRENT_CELL)
    candidate = layer.product(remembered, [2], "candidate")

    def step(s: Any, d: Any, b: Any, u: Any) -> list[Any]:
        old = [state(s - 1, d, b, u)]
        return _gru_cell(layer, (s, d, b, u), lambda gate: candidate(s, d, b, 0, u), old, update(s, d, b, u))

    return list(te.compute(state.shape, step, name="cell", tag=tag.RECURRENT_CELL))


def _first_steps(layer: _Layer, given: Sequence[Tensor]) -> list[Tensor]:
    """The states [1, D, B, units] before the first step, or [2, …] with those after it where they need no product."""
    if not layer.recurrence.zero_state or not isinstance(layer.steps, IntImm) or layer.steps.value < 2:
        return [_padded_state(x, layer) for x in given]
    zero = tir.const(0.0, given[0].dtype)

    def element(s: Any, d: Any, b: Any, u: Any) -> list[Any]:
        at = (tir.const(1), d, b, u)
        after = _CELLS[layer.recurrence.kind](layer, at, lambda gate: zero, [zero] * len(given))
        return [tir.select(tir.eq(s, 0), zero, value) for value in after]

    return list(te.compute((2, *layer.state_shape), element, name="first_state", tag=tag.INJECTIVE))


# ----------------------------------------------------------------------------------------------- what is around
def _packed(weight: Tensor, count: int, together: int) -> Tensor:
    """Recurrent weights [D, G * H, H] as [D, P, H, G, block], zeros behind the last unit; with as many inputs
    `together`, [D, P, H / together, G, block, together], zeros behind the last input too."""
    directions, _, size = constant_shape(weight)
    blocks, groups = -(-size // UNIT_BLOCK), -(-size // together)
    padded = blocks * UNIT_BLOCK != size or groups * together != size

    def element(d: Any, p: Any, k: Any, g: Any, lane: Any, *inner: Any) -> Any:
        u, position = p * UNIT_BLOCK + lane, k * together + inner[0] if inner else k
        found = weight(d, g * size + u, position)
        inside = tir.all(u < size, position < size)
        return tir.if_then_else(inside, found, tir.const(0, found.dtype)) if padded else found

    shape = (directions, blocks, groups, count, UNIT_BLOCK, *((together,) if together > 1 else ()))
    return te.compute(shape, element, name="packed_weight", tag=tag.INJECTIVE)


def _parts(x: Tensor, count: int, size: int, units: int) -> Callable[..., Any]:
    """Reads `x` [..., count * size] as [..., count, units]; a padded copy where the units are not whole blocks."""
    if units == size:
        return lambda *i: x(*i[:-2], i[-2] * size + i[-1])
    zero = tir.const(0, x.dtype)
    copy = te.compute(
        (*x.shape[:-1], count, units),
        lambda *i: tir.if_then_else(i[-1] < size, x(*i[:-2], i[-2] * size + i[-1]), zero),
        name=f"{x.name}_padded",
        tag=tag.INJECTIVE,
    )
    return lambda *i: copy(*i)


def _state_sizes(state: Tensor) -> tuple[int, Any, int]:
    """Directions, batch and units of a state [D, B, H]; the batch may be symbolic."""
    directions, batch, size = state.shape
    if not isinstance(directions, IntImm) or not isinstance(size, IntImm):
        raise UnsupportedError(f"{state.name} has the symbolic shape {state.shape}; a layer needs constant units")
    return int(directions.value), batch, int(size.value)


def _padded_state(x: Tensor, layer: _Layer) -> Tensor:
    """A first state [D, B, H] as step 0, [1, D, B, units]; its batch may be written otherwise than the gates'."""
    size, zero = _state_sizes(x)[2], tir.const(0, x.dtype)

    def element(_: Any, d: Any, b: Any, u: Any) -> Any:
        return x(d, b, u) if layer.units == size else tir.if_then_else(u < size, x(d, b, u), zero)

    return te.compute((1, *layer.state_shape), element, name="first_state", tag=tag.INJECTIVE)


def _sequence(layer: _Layer, states: Tensor, size: int) -> Tensor:
    """The states in the order of time, [T, D, B, size]; zeros behind the end of a sequence."""
    directions, batch, _ = layer.state_shape

    def element(t: Any, d: Any, b: Any, u: Any) -> Any:
        end = layer.steps if layer.lengths is None else layer.lengths(b)
        step = layer.by_direction(d, [end - t if r else t + 1 for r in layer.recurrence.reverse])
        if layer.lengths is None:
            return states(step, d, b, u)
        return tir.if_then_else(t < end, states(step, d, b, u), tir.const(0, states.dtype))

    return te.compute((layer.steps, directions, batch, size), element, name="sequence", tag=tag.INJECTIVE)


# -------------------------------------------------------------------------------------------------- activations
def activation_of(activation: Activation, x: Any) -> Any:
    """An activation function of ONNX, of an expression."""
    alpha, beta = (tir.const(value, x.dtype) for value in (activation.alpha, activation.beta))
    return _FUNCTIONS[activation.name](x, alpha, beta)


def _elu(x: Any, alpha: Any, _: Any) -> Any:
    zero = tir.const(0, x.dtype)
    return tir.select(x < zero, alpha * tir.expm1(tir.minimum(x, zero)), x)


def _softplus(x: Any, *_: Any) -> Any:
    return tir.maximum(x, tir.const(0, x.dtype)) + tir.log1p(tir.exp(-tir.abs(x)))


def _hard_sigmoid(x: Any, alpha: Any, beta: Any) -> Any:
    return tir.minimum(tir.maximum(alpha * x + beta, tir.const(0, x.dtype)), tir.const(1, x.dtype))


_FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Sigmoid": lambda x, *_: tir.sigmoid(x),
    "Tanh": lambda x, *_: tir.tanh(x),
    "Relu": lambda x, *_: tir.maximum(x, tir.const(0, x.dtype)),
    "Softplus": _softplus,
    "Softsign": lambda x, *_: x / (tir.abs(x) + 1),
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": lambda x, alpha, _: tir.select(x < tir.const(0, x.dtype), alpha * x, x),
    "ThresholdedRelu": lambda x, alpha, _: tir.select(x > alpha, x, tir.const(0, x.dtype)),
    "Elu": _elu,
    "ScaledTanh": lambda x, alpha, beta: alpha * tir.tanh(beta * x),
    "Affine": lambda x, alpha, beta: alpha * x + beta,
}
