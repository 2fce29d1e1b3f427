"""A training graph cut in two halves of about the same time, with little to send from one to the other.

A half is made of nodes: what comes before some node in the order of evaluation, and the rest. Values of the first half
that the second reads are sent, and gradients of those that hold floating point come back.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import InputError
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Tuple, Var
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import children, free_vars, post_order, substitute
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.target import Target
from tilewright.training.distribute.buckets import Link, seconds_of
from tilewright.training.distribute.cut import Stage, cut

#: A step takes about three times what its forward pass does, for each product has two gradients.
_STEP = 3


@dataclass(frozen=True)
class Halves:
    """The stages of a step on a microbatch, with gradients added to `sum of NAME` of each parameter.

    `forward(inputs, parameters) -> (values, kept)`; `backward(gradients of values, kept, sums) -> sums`;
    `back(values, inputs, parameters, sums) -> (loss, outputs, gradients of values, sums)`.
    """

    forward: Stage
    backward: Stage
    back: Stage
    values: tuple[Var, ...]
    gradients: tuple[Var, ...]
    parameters: tuple[tuple[Var, ...], tuple[Var, ...]]


@dataclass(frozen=True)
class Cut:
    """A cut behind the node at `position` in the order of evaluation, and the nodes whose values are sent."""

    position: int
    sent: tuple[Expr, ...]


def halve(results: Sequence[Expr], parameters: Sequence[Var], nodes: Sequence[Expr]) -> Halves:
    """The halves, between which the values of `nodes` are sent, of a step whose `results` are its loss and outputs."""
    values = [Var(f"value{number}", type_of(node)) for number, node in enumerate(nodes)]
    back = substitute(Tuple([*results]), dict(zip(nodes, values, strict=True)))
    floats = [number for number, var in enumerate(values) if tensor_type_of(var).dtype.is_float]
    front = set(free_vars(*nodes))
    first, second = [p for p in parameters if p in front], [p for p in parameters if p not in front]
    later = list(children(back))
    found = adjoints(later[0], [*[values[number] for number in floats], *second])
    gradients = [Var(f"gradient of value{number}", type_of(values[number])) for number in floats]
    seeded: Expr | None = None
    for number, gradient in zip(floats, gradients, strict=True):
        part = op.sum(nodes[number] * gradient)
        seeded = part if seeded is None else seeded + part
    assert seeded is not None
    sums = _added(first, adjoints(seeded, first))
    forward, backward = cut([nodes, sums])
    (last,) = cut([[*later, *found[: len(floats)], *_added(second, found[len(floats) :])]])
    return Halves(forward, backward, last, tuple(values), tuple(gradients), (tuple(first), tuple(second)))


def _added(parameters: Sequence[Var], gradients: Sequence[Expr]) -> list[Expr]:
    return [Var(sum_name(p.name), type_of(p)) + gradient for p, gradient in zip(parameters, gradients, strict=True)]


def sum_name(parameter: str) -> str:
    """The name of the sum of a parameter's gradients, which stages take and return."""
    return f"sum of {parameter}"


def cuts(results: Sequence[Expr], parameters: Sequence[Var]) -> list[Cut]:
    """The cuts that leave parameters to both halves, and all uses of each to one. Raises `InputError` for none."""
    order = post_order(*results)
    last, wanted = _last_uses(order, results), set(parameters).intersection(order)
    live: dict[Expr, None] = {}
    before, found = 0, []
    for position, node in enumerate(order):
        for kid in children(node):
            if kid in live and last[kid] == position:
                del live[kid]
        before += node in wanted
        if last[node] > position and not isinstance(node, Constant):
            live[node] = None
        sent = [one for one in live if not isinstance(one, Var)]
        if 0 < before < len(wanted) and _is_cut(sent, live, wanted):
            found.append(Cut(position, tuple(sent)))
    if not found:
        raise InputError(
            "the loss cannot be cut in two halves: at each cut a half has no parameter, or a parameter is used in both"
        )
    return found


def best_cut(
    results: Sequence[Expr], among: Sequence[Cut], target: Target, threads: int, link: Link, microbatches: int
) -> int:
    """The number of the cut by which a step is over soonest, by the cost model.

    A step takes the time of one microbatch through both halves and the link, and that of the slowest of the three for
    each other.
    """
    until = list(itertools.accumulate(seconds_of(node, target, threads) for node in post_order(*results)))

    def took(cut: Cut) -> tuple[float, float]:
        front, whole = _STEP * until[cut.position], _STEP * until[-1]
        link_seconds = link.latency + sum(tensor_type_of(one).nbytes for one in cut.sent) / link.rate
        slowest = max(front, whole - front, link_seconds)
        return whole + 2 * link_seconds + (microbatches - 1) * slowest, slowest  # of one microbatch, equal halves too

    return min(range(len(among)), key=lambda number: (*took(among[number]), number))


def _last_uses(order: Sequence[Expr], results: Sequence[Expr]) -> dict[Expr, int]:
    """The position of the last node that reads each; results are read at the end."""
    last = {node: position for position, node in enumerate(order)}
    for position, node in enumerate(order):
        for kid in children(node):
            last[kid] = position
    return last | dict.fromkeys(results, len(order))


def _is_cut(sent: Sequence[Expr], live: dict[Expr, None], parameters: set[Var]) -> bool:
    """True where tensors alone are sent, one at least with a gradient, and no parameter is used behind the cut too."""
    kinds = [type_of(one) for one in sent]
    tensors = [kind for kind in kinds if isinstance(kind, TensorType)]
    if len(tensors) < len(kinds) or not any(kind.dtype.is_float for kind in tensors):
        return False
    return not any(isinstance(one, Var) and one in parameters for one in live)
