"""Rules of a program for operators, in force within a `with` block: those of one pass.

_RULES = ScopedRules("tilewright_legalizations")
with _RULES.using("nn.conv2d", rule):
    _RULES.in_force()                      # {"nn.conv2d": rule}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from tilewright.relay.ir.expr import Attrs, Expr
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import Type

#: (attributes, operands, the types that operands and result had) -> what stands in for the call, or None to keep it.
CallRule = Callable[[Attrs, Sequence[Expr], Sequence[Type]], "Expr | None"]


class ScopedRules:
    """The rules of the enclosing blocks, by operator; of this thread and task alone."""

    def __init__(self, name: str) -> None:
        self._rules: ContextVar[Mapping[str, CallRule]] = ContextVar(name)

    def in_force(self) -> Mapping[str, CallRule]:
        """The innermost rule of each operator that has one."""
        return self._rules.get({})

    @contextmanager
    def using(self, op_name: str, rule: CallRule) -> Iterator[None]:
        """Within the block `rule` is in force. Raises `UnsupportedError` for an unknown operator."""
        get(op_name)
        token = self._rules.set({**self.in_force(), op_name: rule})
        try:
            yield
        finally:
            self._rules.reset(token)
