"""Gradients of recurrent layers, backwards through time.

A cell is a function element by element of its gates' inputs and of the state before, so its derivatives are taken for
all steps at once, at the states that the layer returned; only the cells of an LSTM are found again one by one. What
runs step after step is then two multiplications an element and one product with the weights, and the gradient of the
weights is one product over all steps. The steps are written out: their number must be known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import substitute
from tilewright.relay.op import math, nn, reduce, tensor, transform
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.relay.op.gradients.common import shape_of, tensor_type
from tilewright.relay.op.nn.recurrent import inputs_by_name, recurrence_of
from tilewright.runtime.host_ops.recurrent import GATES
from tilewright.topi.recurrent import Activation, Recurrence

Number = Callable[[float], Expr]

#: The activation functions: (x, alpha, beta, a scalar of the type of x).
_FUNCTIONS: dict[str, Callable[[Expr, float, float, Number], Expr]] = {
    "Sigmoid": lambda x, a, b, n: tensor.sigmoid(x),
    "Tanh": lambda x, a, b, n: tensor.tanh(x),
    "Relu": lambda x, a, b, n: nn.relu(x),
    "Softplus": lambda x, a, b, n: nn.relu(x) + math.log1p(tensor.exp(tensor.negative(tensor.abs(x)))),
    "Softsign": lambda x, a, b, n: x / (n(1) + tensor.abs(x)),
    "HardSigmoid": lambda x, a, b, n: tensor.clip(n(a) * x + n(b), 0, 1),
    "LeakyRelu": lambda x, a, b, n: tensor.where(tensor.less(x, n(0)), n(a) * x, x),
    "ThresholdedRelu": lambda x, a, b, n: tensor.where(tensor.greater(x, n(a)), x, n(0)),
    "Elu": lambda x, a, b, n: tensor.where(tensor.less(x, n(0)), n(a) * math.expm1(tensor.minimum(x, n(0))), x),
    "ScaledTanh": lambda x, a, b, n: n(a) * tensor.tanh(n(b) * x),
    "Affine": lambda x, a, b, n: n(a) * x + n(b),
}


class _Cell:
    """The elementwise computation of one direction."""

    def __init__(self, options: Recurrence, activations: Sequence[Activation], number: Number) -> None:
        self.options, self.activations, self.number = options, activations, number

    def activate(self, index: int, x: Expr) -> Expr:
        """Activation function `index` of `x`, which is clipped but for that of an LSTM's cell."""
        limit, chosen = self.options.clip, self.activations[index]
        if limit and not (self.options.kind == "lstm" and index == 2):
            x = tensor.clip(x, -limit, limit)
        return _FUNCTIONS[chosen.name](x, chosen.alpha, chosen.beta, self.number)

    def rnn(self, gates: Sequence[Expr], _hidden: Expr) -> list[Expr]:
        """(h,) of the gate's input."""
        return [self.activate(0, gates[0])]

    def lstm(self, gates: Sequence[Expr], cell: Expr, peephole: Sequence[Expr] = ()) -> list[Expr]:
        """(h, c) of the inputs of input, output, forget and candidate gate, and the cell before."""
        into, out, forget, candidate = gates
        if peephole:
            into, forget = into + peephole[0] * cell, forget + peephole[2] * cell
        allowed = self.activate(0, into)
        kept = self.number(1) - allowed if self.options.input_forget else self.activate(0, forget)
        fresh = kept * cell + allowed * self.activate(1, candidate)
        shown = self.activate(0, out + peephole[1] * fresh if peephole else out)
        return [shown * self.activate(2, fresh), fresh]

    def gru(self, gates: Sequence[Expr], hidden: Expr) -> list[Expr]:
        """(h,) of the inputs of the update gate and the candidate, and the state before."""
        update = self.activate(0, gates[0])
        return [(self.number(1) - update) * self.activate(1, gates[1]) + update * hidden]

    def late_gru(self, gates: Sequence[Expr], hidden: Expr) -> list[Expr]:
        """(h,) where the reset gate acts on the candidate's product: update, reset, candidate's input and product."""
        update, reset, given, product = gates
        return self.gru([update, given + self.activate(0, reset) * product], hidden)


class _Direction:
    """One direction of a layer: its inputs, its states before every step, and the way back through the steps.

    Sequences are [T, B, …] in the order of time, whatever the direction.
    """

    def __init__(self, call: Call, index: int) -> None:
        self.kind = str(call.op.name).removeprefix("nn.")  # type: ignore[union-attr]
        given = inputs_by_name(self.kind, call.attrs, call.args)
        self.options = recurrence_of(self.kind, call.attrs)
        self.dtype = tensor_type(call.args[0]).dtype
        self.reverse = self.options.reverse[index]
        self.cell = _Cell(self.options, self.options.activations[index], self.number)
        self.steps, self.batch, _ = shape_of(given["gates"])
        self.size = shape_of(given["hidden"])[2]
        if not isinstance(self.steps, int):
            raise UnsupportedError(f"the gradient of nn.{self.kind} needs a fixed number of steps, not {self.steps}")
        width = GATES[self.kind] * self.size
        self.gates = _along(given["gates"], 2, index * width, (index + 1) * width)
        self.states = {name: _field(given[name], index) for name in ("hidden", "cell") if name in given}
        self.extra = {name: _field(given[name], index) for name in ("peephole", "bias") if name in given}
        self.weight = _field(given["weight"], index)
        self.mask = self._mask(given.get("lengths"))
        self.before = self._before(_field(transform.transpose(TupleGetItem(call, 0), (1, 0, 2, 3)), index))

    def number(self, value: float) -> Expr:
        """A scalar of the layer's element type."""
        return Constant(np.asarray(value, self.dtype.numpy))

    def order(self) -> list[int]:
        """The steps in the order in which the layer takes them."""
        return list(range(self.steps))[:: -1 if self.reverse else 1]

    def _mask(self, lengths: Expr | None) -> Expr | None:
        """[T, B, 1]: 1 where the step is one of the sequence's, 0 behind its end."""
        if lengths is None:
            return None
        steps = Constant(np.arange(self.steps, dtype="int32").reshape(self.steps, 1))
        inside = tensor.less(steps, transform.expand_dims(lengths, 0))
        return transform.expand_dims(tensor.cast(inside, str(self.dtype)), 2)

    def _before(self, sequence: Expr) -> Expr:
        """The state before each step, [T, B, H]."""
        first = transform.expand_dims(self.states["hidden"], 0)
        if self.steps == 1:
            return first
        if not self.reverse:
            return transform.concatenate((first, _along(sequence, 0, 0, self.steps - 1)), axis=0)
        later = _along(sequence, 0, 1, self.steps)
        if self.mask is not None:
            there = _along(self.mask, 0, 1, self.steps)
            later = there * later + (self.number(1) - there) * first
        return transform.concatenate((later, first), axis=0)

    def product(self, states: Expr, rows: tuple[int, int]) -> Expr:
        """`states` [T, B, H] times the weights of some gates."""
        return nn.dense(states, _along(self.weight, 0, rows[0] * self.size, rows[1] * self.size))

    def gate(self, values: Expr, index: int) -> Expr:
        """One gate of [T, B, G * H]."""
        return _along(values, 2, index * self.size, (index + 1) * self.size)

    def derivatives(self, function: Callable[..., list[Expr]], leaves: Sequence[Expr]) -> list[list[Expr]]:
        """For each result of `function(gates, state)`, its derivative by each of `leaves`, element by element."""
        stand_ins = [Var(f"x{i}", type_of(leaf)) for i, leaf in enumerate(leaves)]
        outputs = function(stand_ins[:-1], stand_ins[-1])
        mapping = dict(zip(stand_ins, leaves, strict=True))
        found = [[substitute(d, mapping) for d in adjoints(out, stand_ins)] for out in outputs]  # type: ignore[arg-type]
        return found if self.mask is None else [[self.mask * d for d in row] for row in found]

    def carry(self, fresh: Expr, old: Expr, step: int) -> Expr:
        """The adjoint of the state before `step`: `fresh`, and past the end of a sequence the incoming one, `old`."""
        if self.mask is None:
            return fresh
        return fresh + (self.number(1) - _at(self.mask, step)) * old

    def seed(self, sequence: Expr, last: Expr, step: int) -> Expr:
        """The gradient of the state after `step`: of the layer's result there, and what flows back from later ones."""
        own = _at(sequence, step)
        return (own if self.mask is None else _at(self.mask, step) * own) + last


def _along(data: Expr, axis: int, begin: int, end: int) -> Expr:
    return transform.strided_slice(data, begin=(begin,), end=(end,), axes=(axis,))


def _field(data: Expr, index: int) -> Expr:
    """`data[index]`."""
    return transform.squeeze(_along(data, 0, index, index + 1), 0)


_at = _field


def _sum_of_products(gradients: Expr, states: Expr) -> Expr:
    """[G * H, H]: over all steps and sequences of [T, B, G * H] and [T, B, H]."""
    flat = [
        transform.transpose(transform.reshape(x, (-1, tensor_type_of(x).shape[2])), (1, 0)) for x in (gradients, states)
    ]
    return nn.dense(flat[0], flat[1])


#: Gradients of a direction's inputs by name, and "weight" and "gates" among them.
Gradients = dict[str, Expr]


def _rnn(way: _Direction, g: Sequence[Expr]) -> Gradients:
    inside = way.gates + way.product(way.before, (0, 1))
    ((by_gate, _),) = way.derivatives(way.cell.rnn, [inside, way.before])
    backwards = transform.transpose(way.weight, (1, 0))
    found, last = {}, g[1]
    for step in reversed(way.order()):
        found[step] = way.seed(g[0], last, step) * _at(by_gate, step)
        last = way.carry(nn.dense(found[step], backwards), last, step)
    gates = _stacked(found)
    return {"gates": gates, "weight": _sum_of_products(gates, way.before), "hidden": last}


def _stacked(found: Mapping[int, Expr]) -> Expr:
    return transform.stack([found[step] for step in sorted(found)])


def _lstm(way: _Direction, g: Sequence[Expr]) -> Gradients:
    peephole = [_peep(way, k) for k in range(3)] if "peephole" in way.extra else []
    inside = way.gates + way.product(way.before, (0, 4))
    gates = [way.gate(inside, k) for k in range(4)]
    cells, after = _cells(way, gates, peephole)

    def both(stand_ins: Sequence[Expr], cell: Expr) -> list[Expr]:
        return way.cell.lstm(stand_ins, cell, peephole)

    shown, kept = way.derivatives(both, [*gates, cells])
    backwards = transform.transpose(way.weight, (1, 0))
    found, last, cell = {}, g[1], g[2]
    for step in reversed(way.order()):
        hidden = way.seed(g[0], last, step)
        parts = [hidden * _at(a, step) + cell * _at(b, step) for a, b in zip(shown, kept, strict=True)]
        found[step] = transform.concatenate(parts[:4], axis=1)
        last = way.carry(nn.dense(found[step], backwards), last, step)
        cell = way.carry(parts[4], cell, step)
    result = _stacked(found)
    gradients = {"gates": result, "weight": _sum_of_products(result, way.before), "hidden": last, "cell": cell}
    if peephole:
        seen = ((0, cells), (1, after), (2, cells))
        sums = [reduce.sum(way.gate(result, k) * states, axis=(0, 1)) for k, states in seen]
        gradients["peephole"] = transform.concatenate(sums, axis=0)
    return gradients


def _peep(way: _Direction, index: int) -> Expr:
    return _along(way.extra["peephole"], 0, index * way.size, (index + 1) * way.size)


def _cells(way: _Direction, gates: Sequence[Expr], peephole: Sequence[Expr]) -> tuple[Expr, Expr]:
    """The cells before and after every step, [T, B, H]."""
    before, after, cell = {}, {}, way.states["cell"]
    for step in way.order():
        before[step] = cell
        fresh = way.cell.lstm([_at(gate, step) for gate in gates], cell, peephole)[1]
        cell = (
            fresh if way.mask is None else tensor.where(tensor.greater(_at(way.mask, step), way.number(0)), fresh, cell)
        )
        after[step] = cell
    return _stacked(before), _stacked(after)


def _gru(way: _Direction, g: Sequence[Expr]) -> Gradients:
    """The reset gate acts on the state, before the candidate's product."""
    two = _along(way.gates, 2, 0, 2 * way.size) + way.product(way.before, (0, 2))
    reset_input = way.gate(two, 1)
    reset = way.cell.activate(0, reset_input)
    kept = reset * way.before
    candidate = way.gate(way.gates, 2) + way.product(kept, (2, 3))
    ((by_update, by_candidate, by_state),) = way.derivatives(way.cell.gru, [way.gate(two, 0), candidate, way.before])
    ((by_reset, _),) = way.derivatives(lambda x, _: [way.cell.activate(0, x[0])], [reset_input, way.before])
    first = transform.transpose(_along(way.weight, 0, 0, 2 * way.size), (1, 0))
    second = transform.transpose(_along(way.weight, 0, 2 * way.size, 3 * way.size), (1, 0))
    found, last = {}, g[1]
    for step in reversed(way.order()):
        hidden = way.seed(g[0], last, step)
        inner = hidden * _at(by_candidate, step)
        resetting = nn.dense(inner, second)
        gates = [hidden * _at(by_update, step), resetting * _at(way.before, step) * _at(by_reset, step)]
        found[step] = transform.concatenate([*gates, inner], axis=1)
        through = nn.dense(transform.concatenate(gates, axis=1), first) + resetting * _at(reset, step)
        last = way.carry(through + hidden * _at(by_state, step), last, step)
    result = _stacked(found)
    weights = [
        _sum_of_products(_along(result, 2, 0, 2 * way.size), way.before),
        _sum_of_products(way.gate(result, 2), kept),
    ]
    return {"gates": result, "weight": transform.concatenate(weights, axis=0), "hidden": last}


def _late_gru(way: _Direction, g: Sequence[Expr]) -> Gradients:
    """The reset gate acts on the candidate's product and its bias."""
    products = way.product(way.before, (0, 3))
    gates = [way.gate(way.gates, k) + way.gate(products, k) for k in range(2)]
    inner = way.gate(products, 2)
    if "bias" in way.extra:
        inner = inner + way.extra["bias"]
    leaves = [*gates, way.gate(way.gates, 2), inner, way.before]
    ((by_update, by_reset, by_given, by_inner, by_state),) = way.derivatives(way.cell.late_gru, leaves)
    backwards = transform.transpose(way.weight, (1, 0))
    given, made, last = {}, {}, g[1]
    for step in reversed(way.order()):
        hidden = way.seed(g[0], last, step)
        two = [hidden * _at(d, step) for d in (by_update, by_reset)]
        given[step] = transform.concatenate([*two, hidden * _at(by_given, step)], axis=1)
        made[step] = transform.concatenate([*two, hidden * _at(by_inner, step)], axis=1)
        last = way.carry(nn.dense(made[step], backwards) + hidden * _at(by_state, step), last, step)
    result = _stacked(made)
    gradients = {"gates": _stacked(given), "weight": _sum_of_products(result, way.before), "hidden": last}
    if "bias" in way.extra:
        gradients["bias"] = reduce.sum(way.gate(result, 2), axis=(0, 1))
    return gradients


def _gradient(call: Call, g: Expr) -> list[Expr | None]:
    options = recurrence_of(str(call.op.name).removeprefix("nn."), call.attrs)  # type: ignore[union-attr]
    rule = {"rnn": _rnn, "lstm": _lstm, "gru": _late_gru if options.linear_before_reset else _gru}[options.kind]
    fields = [g.fields[i] if isinstance(g, Tuple) else TupleGetItem(g, i) for i in range(3 if rule is _lstm else 2)]
    sequence = transform.transpose(fields[0], (1, 0, 2, 3))
    found = []
    for index in range(len(options.reverse)):
        way = _Direction(call, index)
        found.append(rule(way, [_field(x, index) for x in (sequence, *fields[1:])]))
    named = inputs_by_name(options.kind, call.attrs, call.args)
    return [_joined(name, [each[name] for each in found]) if name in found[0] else None for name in named]


def _joined(name: str, parts: Sequence[Expr]) -> Expr:
    """The gradient of an input of all directions from that of each."""
    return transform.concatenate(parts, axis=2) if name == "gates" else transform.stack(parts)


for _kind in GATES:
    set_gradient(f"nn.{_kind}", _gradient)
