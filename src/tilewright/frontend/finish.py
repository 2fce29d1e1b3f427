"""The end of a conversion: calls get the name of their source, and those on constants are folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.symbolic import attr_exprs
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, rebuild


class Finisher:
    """Finishes the expressions of one model, each once however many converters read it."""

    def __init__(self, fold: Callable[[Call], Expr | None] | None = None) -> None:
        """`fold` returns the value of a call on constants, or None where the call is to stay."""
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


# ----------------------------------------------------------- Calls on constants as constants, while a model is imported
#: A constant operation is folded when its result is not larger than its operands by more than this: broadcasting a
#: scalar to an image is left to the kernel that uses it, transposing a weight is not.
MOST_GROWTH_BYTES = 1 << 20


def fold_call(call: Call) -> Expr | None:
    """The value of a call on constants, unless it is much larger than them; None for any other call."""
    data: list[np.ndarray] = []
    arguments: list[Any] = []
    for arg in call.args:
        fields = arg.fields if isinstance(arg, Tuple) else (arg,)
        if not all(isinstance(item, Constant) for item in fields):
            return None
        values = tuple(item.data for item in fields)  # type: ignore[attr-defined]
        data.extend(values)
        arguments.append(values if isinstance(arg, Tuple) else values[0])
    # a range from a symbolic size on may have a static length
    if not isinstance(call.op, Op) or next(attr_exprs(call.attrs), None) is not None:
        return None
    try:
        leaves = tensor_types(type_of(call))
    except TypeError:
        return None
    if not all(leaf.is_static and not leaf.dtype.is_string for leaf in leaves):
        return None
    if sum(leaf.nbytes for leaf in leaves) > sum(value.nbytes for value in data) + MOST_GROWTH_BYTES:
        return None
    result = call_reference(call, arguments)
    return Tuple(Constant(item) for item in result) if isinstance(result, tuple) else Constant(result)
