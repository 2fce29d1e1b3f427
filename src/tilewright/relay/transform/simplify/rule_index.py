"""Rules of a pass that each look for one pattern, found by the operator at its root.

    rule_of: RuleIndex[Rule] = RuleIndex()

    @rule_of("transpose")
    def transpose_of_transpose(call: Call) -> Expr | None: …

    rule_of.rules(call.op)

What is true of an operator whichever pass asks is a field of `Op` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from tilewright.relay.ir.registry import Op, get

Rule = TypeVar("Rule", bound=Callable[..., Any])


class RuleIndex(Generic[Rule]):
    """The rules of one pass, in the order in which they are written."""

    def __init__(self) -> None:
        self._rules: dict[Op, tuple[Rule, ...]] = {}

    def __call__(self, *operators: str) -> Callable[[Rule], Rule]:
        """Enter the rule that follows for calls of `operators`."""

        def enter(rule: Rule) -> Rule:
            for name in operators:
                self._rules[get(name)] = (*self.rules(get(name)), rule)
            return rule

        return enter

    def __iter__(self) -> Iterator[Rule]:
        """Each rule once."""
        return iter(dict.fromkeys(rule for rules in self._rules.values() for rule in rules))

    def rules(self, op: object) -> tuple[Rule, ...]:
        """The rules for calls of `op`, in the order they are tried; none for what is no operator."""
        return self._rules.get(op, ()) if isinstance(op, Op) else ()
