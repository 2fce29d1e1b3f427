"""The end of a conversion: calls get the name of their source, and those on constants are folded."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, rebuild


class Finisher:
    """Finishes the expressions of one model, each once however many converters read it."""

    def __init__(self, fold: Callable[[Call], Expr | None] | None = None) -> None:
        """`fold` gives the value of a call on constants, or None where the call is to stay."""
        self._fold = fold
        self._finished: set[Expr] = set()

    def finish(self, root: Expr, span: str, done: dict[Expr, Expr]) -> Expr:
        """`root` with `span` as the source of calls that have none, and those folded whose operands are all constant.

        `done` maps what was finished to its new form: values that share it stay results of one operator.
        """
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done or node in self._finished:
                stack.pop()
                continue
            missing = [kid for kid in children(node) if kid not in done and kid not in self._finished]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            fresh = rebuild(node, tuple([done.get(kid, kid) for kid in children(node)]))
            if isinstance(fresh, Call):
                folded = None if self._fold is None else self._fold(fresh)
                fresh = folded or Call(fresh.op, fresh.args, fresh.attrs, fresh.span or span)
            type_of(fresh)
            done[node] = fresh
            self._finished.add(fresh)
        return done.get(root, root)
