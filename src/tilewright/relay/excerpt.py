"""The lines of a program that an error is about, the place underlined."""

from __future__ import annotations

from tilewright.relay.expr import Expr, GlobalVar
from tilewright.relay.module import IRModule


def excerpt(mod: IRModule, node: Expr, hint: GlobalVar) -> str:
    """The line."""
    return ""
