"""Walking and rewriting loop IR, written once over the generic fields of nodes.

Expressions are interned DAGs: every walk here visits a shared expression once, and every rewrite gives back the same
object where nothing changed, so "unchanged" is `is`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tilewright.tir.expr import Expr, Var
from tilewright.tir.node import Node
from tilewright.tir.stmt import PrimFunc

N = TypeVar("N", bound=Any)


def children(node: Node) -> tuple[Node, ...]:
    """The expressions and statements directly inside `node`, in field order; variables bound by it are included."""
    found: list[Node] = []
    for name in type(node).FIELDS:
        value = getattr(node, name)
        if isinstance(value, Node):
            found.append(value)
        elif type(value) is tuple:
            found += [item for item in value if isinstance(item, Node)]
    return tuple(found)


def post_order(node: Any, visit: Callable[[Any], None]) -> None:
    """Call `visit` on every distinct node inside `node` (a node or a function), children first, each once."""
    seen: set[int] = set()

    def walk(current: Any) -> None:
        if id(current) in seen:
            return
        seen.add(id(current))
        for child in children(current):
            walk(child)
        visit(current)

    walk(node.body if isinstance(node, PrimFunc) else node)


class Rewriter:
    """Rebuilds an expression, statement or function bottom up; subclasses override `visit_CLASS(node)` where they differ.

    An overriding method calls `self.generic(node)` to rebuild from rewritten children. Expressions are memoized by
    identity for the life of the rewriter; a subclass whose result depends on where an expression stands must clear
    `self.memo` when its context changes.
    """

    _methods: dict[type, Callable[[Any, Any], Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._methods = {}

    def __init__(self) -> None:
        self.memo: dict[Expr, Expr] = {}

    def __call__(self, node: N) -> N:
        """The rewritten node; the same object if nothing changed."""
        if isinstance(node, Expr):
            found = self.memo.get(node)
            if found is None:
                found = self.memo[node] = self._method(type(node))(self, node)
            return found
        if isinstance(node, PrimFunc):
            body = self(node.body)
            return node if body is node.body else node.with_body(body)
        return self._method(type(node))(self, node)

    def _method(self, kind: type) -> Callable[[Any, Any], Any]:
        method = self._methods.get(kind)
        if method is None:
            method = self._methods[kind] = _find_method(type(self), kind)
        return method

    def generic(self, node: Any) -> Any:
        """`node` rebuilt from its rewritten fields; the same object if none changed."""
        changed, values = False, []
        for name in type(node).FIELDS:
            value = getattr(node, name)
            if isinstance(value, Node):
                fresh: Any = self(value)
            elif type(value) is tuple:
                fresh = self._tuple(value)
            else:
                fresh = value
            changed = changed or fresh is not value
            values.append(fresh)
        return type(node)(*values) if changed else node

    def _tuple(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        fresh = tuple([self(item) if isinstance(item, Node) else item for item in items])
        return items if all(a is b for a, b in zip(fresh, items, strict=True)) else fresh


def _find_method(cls: type[Rewriter], kind: type) -> Callable[[Any, Any], Any]:
    for base in kind.__mro__:
        method = getattr(cls, f"visit_{base.__name__}", None)
        if method is not None:
            return method
    return _leaf if issubclass(kind, Var) else cls.generic


def _leaf(rewriter: Rewriter, node: Any) -> Any:
    return node


class _Substitute(Rewriter):
    def __init__(self, mapping: Mapping[Var, Expr]) -> None:
        super().__init__()
        self.memo.update(mapping)


def substitute(node: N, mapping: Mapping[Var, Any]) -> N:
    """`node` with variables replaced as `mapping` says; variables that `node` binds must not be among them."""
    return _Substitute(mapping)(node) if mapping else node


def collect_vars(node: Any) -> list[Var]:
    """The distinct variables inside `node`, in order of first appearance."""
    found: dict[Var, None] = {}

    def visit(current: Any) -> None:
        if isinstance(current, Var):
            found[current] = None

    post_order(node, visit)
    return list(found)
