"""`tir.stmt_functor`: walking and rewriting loop IR with functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.tir import expr as e
from tilewright.tir import op, visitor
from tilewright.tir import stmt as s
from tilewright.tir.node import Node
from tilewright.tir.visitor import Rewriter


def post_order_visit(stmt: Any, fvisit: Callable[[Any], object]) -> None:
    """Call `fvisit` on each node of a statement, expression or function once, parts before the whole."""
    visitor.post_order(stmt, fvisit)


def substitute(node: Any, vmap: Mapping[e.Var, Any]) -> Any:
    """`node` with variables replaced by expressions or numbers."""
    return visitor.substitute(node, {var: op.convert(value) for var, value in vmap.items()})


class _Transformer(Rewriter):
    def __init__(self, before: Any, after: Any, wanted: tuple[type, ...]) -> None:
        super().__init__()
        self.before, self.after, self.wanted = before, after, wanted

    def __call__(self, node: Any) -> Any:
        if not isinstance(node, self.wanted):
            return super().__call__(node)
        made = self.before(node) if self.before is not None else None
        if made is None:
            made = super().__call__(node)
            changed = self.after(made) if self.after is not None else None
            made = made if changed is None else changed
        return made


def ir_transform(
    stmt: Any,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Sequence[str] | None = None,
) -> Any:
    """`stmt` rewritten: what `preorder` returns stands for a node and ends the walk there, None goes on into it.

    `postorder` then gets the node with its parts rewritten; None keeps it. `only_enable` names the classes of nodes,
    such as "tir.For", that the functions are called for.
    """
    names = {name.rpartition(".")[2] for name in only_enable or ()}
    names = {{"Store": "BufferStore", "Load": "BufferLoad"}.get(name, name) for name in names}
    wanted = tuple(cls for name in names for cls in [getattr(s, name, None) or getattr(e, name)])
    return _Transformer(preorder, postorder, wanted or (Node,))(stmt)


def stmt_list(stmt: s.Stmt) -> list[s.Stmt]:
    """The statements of a sequence, or the one statement."""
    return list(stmt.stmts) if isinstance(stmt, s.SeqStmt) else [stmt]
