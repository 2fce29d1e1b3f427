"""The backward pass cut into stages: the gradients of a bucket are there at the end of each, to be exchanged meanwhile.

The first stage is the forward pass with the first bucket. A value that a later stage needs is returned by the stage
that computes it and taken by the later one; what depends on parameters and constants by cheap operators alone is
computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, free_vars, post_order, substitute
from tilewright.target import Target
from tilewright.training.distribute.buckets import seconds_of

_CHEAP = (OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE)


@dataclass(frozen=True)
class Stage:
    """A part of the step: `main(takes…) -> (results…, kept…)`, the latter for stages behind it."""

    module: IRModule
    takes: tuple[str, ...]
    kept: tuple[str, ...]


def by_readiness(
    forward: Sequence[Expr], gradients: Sequence[Expr], target: Target, threads: int
) -> tuple[list[int], list[float]]:
    """The positions of gradients in the order in which they are computed, and the seconds until each is there."""
    seconds = {node: seconds_of(node, target, threads) for node in post_order(*forward, *gradients)}
    own = [sum(seconds[node] for node in post_order(*forward, gradient)) for gradient in gradients]
    order = sorted(range(len(gradients)), key=lambda index: (own[index], index))
    done: set[Expr] = set()
    ready, now = [], 0.0
    for index in order:
        fresh = [node for node in post_order(*forward, gradients[index]) if node not in done]
        done.update(fresh)
        now += sum(seconds[node] for node in fresh)
        ready.append(now)
    return order, ready


def cut(roots: Sequence[Sequence[Expr]], attrs: Mapping[str, Any] | None = None) -> list[Stage]:
    """Stages with these results, in order, whose functions have `attrs`; one computes what those before have not."""
    return _Cut(roots).stages(attrs or {})


class _Cut:
    """The stage that each node belongs to, and the variable of each value that goes from one to another."""

    def __init__(self, roots: Sequence[Sequence[Expr]]) -> None:
        self.roots = roots
        self.owner: dict[Expr, int] = {}
        self.light: dict[Expr, bool] = {}
        self.count = 0
        self.passed: list[dict[Expr, Var]] = []  # for each stage the values that it takes
        for number, some in enumerate(roots):
            taken: dict[Expr, Var] = {}
            for node in post_order(*some, operands=lambda node, number=number: self._operands(node, number)):  # type: ignore[misc]
                if self._is_passed(node, number):
                    taken[node] = self._variable(node)
                else:
                    self.owner.setdefault(node, number)
            self.passed.append(taken)

    def _variable(self, node: Expr) -> Var:
        """The variable of a value, one for all stages."""
        for taken in self.passed:
            if node in taken:
                return taken[node]
        kind = type_of(node)
        var = Var(f"kept{self.count}", kind)
        var.set_inferred_type(kind)
        self.count += 1
        return var

    def _operands(self, node: Expr, number: int) -> Sequence[Expr]:
        return () if self._is_passed(node, number) else children(node)

    def _is_passed(self, node: Expr, number: int) -> bool:
        """True for a tensor that an earlier stage has computed; a field of a tuple is its stage's as the tuple is."""
        if isinstance(node, TupleGetItem) and not isinstance(node.tuple_value, Tuple):
            return self.owner.get(node.tuple_value, number) < number
        earlier = isinstance(node, Call) and self.owner.get(node, number) < number
        return earlier and isinstance(type_of(node), TensorType) and not self._is_light(node)

    def _is_light(self, node: Expr) -> bool:
        """True for what cheap operators make of variables and constants."""
        if node not in self.light:
            for inner in post_order(node, operands=lambda n: () if n in self.light else children(n)):
                if inner not in self.light:
                    cheap = isinstance(inner, Call) and isinstance(inner.op, Op) and inner.op.pattern in _CHEAP
                    leaf = isinstance(inner, Var | Constant)
                    self.light[inner] = leaf or (cheap and all(self.light[kid] for kid in children(inner)))
        return self.light[node]

    def stages(self, attrs: Mapping[str, Any]) -> list[Stage]:
        made = []
        for number, (some, taken) in enumerate(zip(self.roots, self.passed, strict=True)):
            kept = {node: var for later in self.passed[number + 1 :] for node, var in later.items()}
            own = {node: var for node, var in kept.items() if self._home(node) == number}
            body = substitute(Tuple([*some, *own]), {**taken})
            takes = free_vars(body)
            names = [f"result{index}" for index in range(len(some))] + [var.name for var in own.values()]
            main = Function(takes, body, attrs={"output_names": names, **attrs})
            module = infer_type(IRModule.from_expr(main))
            made.append(Stage(module, tuple(v.name for v in takes), tuple(v.name for v in own.values())))
        return made

    def _home(self, node: Expr) -> int:
        """The stage that returns a value."""
        return self.owner[node.tuple_value if isinstance(node, TupleGetItem) else node]
