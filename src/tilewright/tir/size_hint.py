"""A likely value of a size, for choices that are right at any size and good at this one."""

from __future__ import annotations

from typing import Any

from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import Expr, IntImm, SizeVar
from tilewright.tir.visitor import collect_vars

#: What a size counts as that nothing is known of.
DEFAULT_HINT = 256


def size_hint(size: Any) -> int:
    """The value of `size` (an int, an expression, or something unknown) where each size variable has its hint."""
    if isinstance(size, int):
        return size
    if isinstance(size, IntImm):
        return int(size.value)
    if not isinstance(size, Expr):
        return DEFAULT_HINT
    values = {var: var.hint if isinstance(var, SizeVar) else DEFAULT_HINT for var in collect_vars(size)}
    return max(1, int(evaluate(size, values)))
