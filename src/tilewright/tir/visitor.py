"""The walk and rewrite engine of the loop IR, written once over `FIELDS` for all node classes.

Which fields hold children is read off a class's annotations the first time it is met, so a new node class needs no
change here. Expressions are shared (they form a DAG), so everything here remembers the expressions it has seen: a walk
without a memo takes exponential time. Variables that a `For`, `Let` or `LetStmt` binds are not children of it.

To rewrite, subclass `Rewriter` and define `visit_<Class>(node)` for the classes of interest (or for a base class such
as `visit_CompareExpr`); call `self.rebuild(node)` there to rewrite the children first. Unchanged nodes come back as
the same object. What stands in place of a statement gets its position, unless it has one.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from tilewright.support.recursion import SEGMENT, STACK, nested, on_fresh_stack
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BinaryExpr, Expr, FloatImm, IntImm, Var
from tilewright.tir.node import Node
from tilewright.tir.stmt import BufferStore, PrimFunc, SeqStmt, Stmt, seq

_same = operator.is_

N = TypeVar("N", bound=Node)
R = TypeVar("R", bound=Node | PrimFunc)

_ONE, _MANY, _BUFFER, _ANY, _PLAIN = range(5)  # a node or None, a tuple of nodes, a Buffer, anything, no node
_KINDS = {
    "Expr": _ONE,
    "Stmt": _ONE,
    "Stmt | None": _ONE,
    "tuple[Expr, ...]": _MANY,
    "tuple[Stmt, ...]": _MANY,
    "Buffer": _BUFFER,
    "Any": _ANY,
}
_plans: dict[type, tuple[tuple[str, int], ...]] = {}


def _plan(cls: type) -> tuple[tuple[str, int], ...]:
    """(field, kind) for each field of the class in constructor order."""
    plan = _plans.get(cls)
    if plan is None:
        annotations: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            annotations.update(inspect.get_annotations(base))
        types = {name: re.sub(r"\b\w+\.", "", str(text)) for name, text in annotations.items()}  # tir.Expr is Expr
        plan = tuple((name, _KINDS.get(types.get(name, ""), _PLAIN)) for name in cls.FIELDS)  # type: ignore[attr-defined]
        _plans[cls] = plan
    return plan


def children(node: Node) -> tuple[Any, ...]:
    """The expressions and statements directly under `node`, in field order; bound variables are left out."""
    if isinstance(node, BinaryExpr):
        return (node.a, node.b)
    found: list[Any] = []
    for name, kind in _plan(type(node)):
        if kind in (_ONE, _ANY):
            value = getattr(node, name)
            if isinstance(value, Node):
                found.append(value)
        elif kind == _MANY:
            found.extend(getattr(node, name))
    return tuple(found)


Root = Node | PrimFunc | Iterable[Node]


def post_order(node: Root, fn: Callable[[Any], object]) -> None:
    """Call `fn` on every distinct node under `node` (a node, itself too; a function; or several), children first."""
    seen: set[Node] = set()
    roots = [node.body] if isinstance(node, PrimFunc) else [node] if isinstance(node, Node) else list(node)
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        current, done = stack.pop()
        if done:
            fn(current)
        elif current not in seen:
            seen.add(current)
            stack.append((current, True))
            for child in reversed(children(current)):
                if child not in seen:
                    stack.append((child, False))


def collect(node: Root, *classes: type[N]) -> list[N]:
    """Every distinct node of the given classes under `node`, children before parents."""
    found: list[N] = []

    def keep(current: Node) -> None:
        if isinstance(current, classes):
            found.append(current)

    post_order(node, keep)
    return found


def collect_vars(node: Root) -> dict[Var, None]:
    """The variables read under `node`, as an ordered set; binding alone is no read."""
    return dict.fromkeys(collect(node, Var))


def uses_var(node: Root, test: Callable[[Var], bool]) -> bool:
    """True if `test` holds for some variable read under `node`."""
    return any(test(v) for v in collect_vars(node))


class Rewriter:
    """Rewrites a program: `visit_<Class>` methods return what stands in place of their node.

    Each distinct expression is rewritten once and remembered in `memo`; clear it (`self.memo = {}`) when what the
    methods depend on changes during the walk, such as the bounds known inside a branch.
    """

    #: The method for each class of node, found once; every subclass has its own.
    _handlers: ClassVar[dict[type, Any]] = {}

    def __init_subclass__(cls) -> None:
        cls._handlers = {}

    def __init__(self) -> None:
        self.memo: dict[Expr, Expr] = {}

    def __call__(self, node: Any) -> Any:
        memo = self.memo
        found = memo.get(node)
        if found is not None:
            return found
        level = STACK.level
        if level >= SEGMENT and not isinstance(node, Var | IntImm | FloatImm):
            return on_fresh_stack(self, node)
        STACK.level = level + 1
        cls = node.__class__
        try:
            made = (self._handlers.get(cls) or self._handler(cls))(self, node)
        finally:
            STACK.level = level
        if isinstance(node, Expr):
            memo[node] = made
        elif made is not node and isinstance(made, Stmt) and isinstance(node, Stmt):
            made.at(node.position)
        return made

    def _handler(self, node_class: type) -> Any:
        """The method `visit_<Class>` for the nearest class of `node_class` that has one, or what rebuilds it."""
        found = (getattr(type(self), f"visit_{base.__name__}", None) for base in node_class.__mro__)
        handler = next((f for f in found if f is not None), None) or self._default(node_class)
        self._handlers[node_class] = handler
        return handler

    def _default(self, node_class: type) -> Any:
        """The rewriter of a node whose class has no method."""
        return type(self).generic

    def rebuild(self, node: Any) -> Any:
        """`node` with its children rewritten; the same object if none changed.

        A sequence is flattened again; statements in it that were rewritten to None fall away.
        """
        if isinstance(node, BinaryExpr):
            a, b = self(node.a), self(node.b)
            return node if a is node.a and b is node.b else node.__class__(a, b)
        if node.__class__ is BufferStore:  # by far the most frequent statement
            buffer, value, indices = (
                self.visit_buffer(node.buffer),
                self(node.value),
                tuple([self(i) for i in node.indices]),
            )
            if value is node.value and buffer is node.buffer and all(map(_same, indices, node.indices)):
                return node
            return BufferStore(buffer, value, indices).at(node.position)
        if node.__class__ is SeqStmt:
            stmts = [self(s) for s in node.stmts]
            same = len(stmts) == len(node.stmts) and all(map(_same, stmts, node.stmts))
            return node if same else seq(*stmts)
        changed = False
        values: list[Any] = []
        for name, kind in _plan(node.__class__):
            old = value = getattr(node, name)
            if kind == _ONE:
                value = old if old is None else self(old)
            elif kind == _MANY:
                value = tuple([self(item) for item in old])
                if all(map(_same, value, old)):
                    value = old
            elif kind == _BUFFER:
                value = self.visit_buffer(old)
            elif kind == _ANY:
                value = (
                    self(old) if isinstance(old, Node) else self.visit_buffer(old) if isinstance(old, Buffer) else old
                )
            changed = changed or value is not old
            values.append(value)
        if not changed:
            return node
        made = node.__class__(*values)
        return made.at(node.position) if isinstance(node, Stmt) else made

    generic = rebuild

    def visit_PrimFunc(self, func: PrimFunc) -> PrimFunc:
        """A function with its body rewritten."""
        body = self(func.body)
        return func if body is func.body else func.with_body(body)

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        """The replacement of a buffer wherever a node names it; by default itself."""
        return buffer


class StmtRewriter(Rewriter):
    """Rewrites statements. Each expression that one holds goes through `visit_Expr` as a whole; none is remembered.

    By default expressions stay as they are.
    """

    def __call__(self, node: Any) -> Any:
        if isinstance(node, Expr):
            return self.visit_Expr(node)
        return self._statement(node)

    @nested
    def _statement(self, node: Any) -> Any:
        cls = node.__class__
        made = (self._handlers.get(cls) or self._handler(cls))(self, node)
        if made is not node and isinstance(made, Stmt) and isinstance(node, Stmt):
            made.at(node.position)
        return made

    def visit_Expr(self, node: Expr) -> Expr:
        """The replacement of an expression of a statement: itself."""
        return node


class _RuleRewriter(Rewriter):
    def __init__(self, rules: Mapping[type, Callable[[Any], Any]], memo: dict[Expr, Expr] | None) -> None:
        super().__init__()
        self._rules = rules
        if memo is not None:
            self.memo = memo

    def generic(self, node: Any) -> Any:
        made = self.rebuild(node)
        rule = self._rules.get(made.__class__) if made.__class__ is node.__class__ else None  # one left of a sequence
        replaced = rule(made) if rule is not None else None
        return made if replaced is None else replaced


def rewrite(node: R, rules: Mapping[type, Callable[[Any], Any]], memo: dict[Expr, Expr] | None = None) -> R:
    """Rewrite bottom-up: after its children, each node goes through `rules[its class]`; None there means keep it."""
    return _RuleRewriter(rules, memo)(node)


def rewrite_expr(expr: Expr, rules: Mapping[type, Callable[[Any], Any]], memo: dict[Expr, Expr] | None = None) -> Expr:
    """`rewrite` of an expression; pass the same `memo` again to share work between calls with the same rules."""
    return _RuleRewriter(rules, memo)(expr)


class _Substituter(Rewriter):
    def __init__(self, variables: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.memo = dict[Expr, Expr](variables.items())
        self._buffers = buffers

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        return self._buffers.get(buffer, buffer)


def substitute(node: R, variables: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer] | None = None) -> R:
    """`node` with every read of a key of `variables` replaced by its value, and likewise buffers where they are named.

    Loops keep binding their own variables: to rename a loop's variable, rebuild the `For` too.
    """
    if not variables and not buffers:
        return node
    return _Substituter(variables, buffers or {})(node)
