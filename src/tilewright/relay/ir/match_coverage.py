"""Exhaustiveness of the clauses of a match: the check behind `match` as opposed to `match?`.

The clauses that can still matter are narrowed constructor by constructor, as a value is taken apart (Maranget,
"Warnings for pattern matching", 2007, the usefulness of a wildcard after the last clause).
"""

from __future__ import annotations

from tilewright.relay.ir.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.typing_rules import TypeErrorAt
from tilewright.relay.ir.visitor import post_order

Row = tuple[Pattern, ...]


def check_matches(root: Expr, mod: IRModule) -> None:
    """Raise `TypeErrorAt` for a `match` in `root` with a value that no clause fits, and show one such value."""
    for node in post_order(root):
        if isinstance(node, Match) and node.complete:
            missing = uncovered(node, mod)
            if missing is not None:
                raise TypeErrorAt(node, f"the match has no clause for {missing}; add one, or write match? instead")


def uncovered(match: Match, mod: IRModule) -> str | None:
    """A value, as a pattern, that no clause of `match` fits; None if there is none."""
    found = _witness([(clause.lhs,) for clause in match.clauses], 1, mod)
    return None if found is None else found[0]


def _witness(rows: list[Row], width: int, mod: IRModule) -> list[str] | None:
    """`width` values, as patterns, that no row fits."""
    if width == 0:
        return None if rows else []
    heads = [row[0] for row in rows]
    for head in heads:
        if isinstance(head, PatternTuple):
            return _split(rows, width, len(head.patterns), None, mod)
    named = [head for head in heads if isinstance(head, PatternConstructor)]
    if not named:
        rest = _witness([row[1:] for row in rows if isinstance(row[0], PatternVar | PatternWildcard)], width - 1, mod)
        return None if rest is None else ["_", *rest]
    for constructor in mod.type_data(named[0].constructor.belong_to).constructors:
        found = _split(rows, width, len(constructor.inputs), constructor.name, mod)
        if found is not None:
            return found
    return None


def _split(rows: list[Row], width: int, arity: int, name: str | None, mod: IRModule) -> list[str] | None:
    """A witness whose first value is built by the constructor `name` (None: a tuple) of `arity` fields."""
    narrowed: list[Row] = []
    for head, *rest in rows:
        if isinstance(head, PatternVar | PatternWildcard):
            narrowed.append((*[PatternWildcard()] * arity, *rest))
        elif isinstance(head, PatternTuple) or (isinstance(head, PatternConstructor) and head.constructor.name == name):
            narrowed.append((*head.patterns, *rest))
    found = _witness(narrowed, arity + width - 1, mod)
    if found is None:
        return None
    inner = ", ".join(found[:arity])
    head_text = f"({inner})" if name is None else f"{name}({inner})" if arity else name
    return [head_text, *found[arity:]]
