"""Matching of patterns by backtracking: bindings made on a branch that fails are undone."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import fields

from tilewright.errors import TypeMismatchError
from tilewright.relay.dataflow_pattern.pattern import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, If, Let, Operator, Tuple, TupleGetItem, Var
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.structural import structural_equal
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, consumers, post_order

#: What matched each pattern, in the order in which it was found; a path of a dominator may have many.
NodeMap = dict[DFPattern, list[Expr]]
Users = dict[Expr, list[Expr]]


def match(pattern: DFPattern, expr: Expr) -> bool:
    """True if `expr` is what `pattern` describes."""
    return find(pattern, expr, users_of(pattern, expr)) is not None


def find(pattern: DFPattern, expr: Expr, users: Users) -> NodeMap | None:
    """The node that each part of `pattern` matched if it matches `expr`. `users` are those of the whole graph."""
    matcher = _Matcher(users)
    if not matcher.matches(pattern, expr):
        return None
    found: NodeMap = {}
    for part, node in matcher.trail:
        if isinstance(node, Expr) and node not in found.setdefault(part, []):
            found[part].append(node)
    return found


def users_of(pattern: DFPattern, root: Expr) -> Users:
    """Who uses each node below `root`, if `pattern` requires it."""
    return consumers(post_order(root)) if any(isinstance(part, DominatorPattern) for part in parts(pattern)) else {}


def parts(pattern: DFPattern) -> Iterator[DFPattern]:
    """`pattern` and all patterns within it."""
    yield pattern
    for field in fields(pattern):  # type: ignore[arg-type]
        value = getattr(pattern, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, DFPattern):
                yield from parts(part)


class _Matcher:
    """`trail` has what matched so far, `bound` the same by pattern; both shrink again when a way fails."""

    def __init__(self, users: Users) -> None:
        self.users = users
        self.trail: list[tuple[DFPattern, Expr | Operator]] = []
        self.bound: dict[DFPattern, Expr | Operator] = {}

    def matches(self, pattern: DFPattern, node: Expr | Operator) -> bool:
        """True if `pattern` matches `node`, in accord with the bindings so far."""
        if pattern in self.bound:
            return self.bound[pattern] is node
        mark = len(self.trail)
        if not _MATCH[type(pattern)](self, pattern, node):
            self.back_to(mark)
            return False
        self.bound[pattern] = node
        self.trail.append((pattern, node))
        return True

    def back_to(self, mark: int) -> None:
        """Forget what matched since the trail had this length."""
        for pattern, _ in self.trail[mark:]:
            self.bound.pop(pattern, None)
        del self.trail[mark:]

    def all(self, patterns: Sequence[DFPattern], nodes: Sequence[Expr]) -> bool:
        """One pattern a node."""
        return len(patterns) == len(nodes) and all(self.matches(p, n) for p, n in zip(patterns, nodes))

    def one_of_many(self, pattern: DFPattern, node: Expr) -> bool:
        """True if `pattern` matches here, without binding it: its next match may be another node."""
        mark = len(self.trail)
        found = self.matches(pattern, node)
        for part, _ in self.trail[mark:]:
            self.bound.pop(part, None)
        return found


def _call(matcher: _Matcher, pattern: CallPattern, node: Expr | Operator) -> bool:
    if not isinstance(node, Call) or not matcher.matches(pattern.op, node.op):
        return False
    if pattern.args is None:
        return True
    mark = len(matcher.trail)
    if matcher.all(pattern.args, node.args):
        return True
    matcher.back_to(mark)
    turned = isinstance(node.op, Op) and node.op.commutative
    return turned and matcher.all(pattern.args, node.args[::-1])


def _alternative(matcher: _Matcher, pattern: AltPattern, node: Expr | Operator) -> bool:
    return matcher.matches(pattern.left, node) or matcher.matches(pattern.right, node)


def _attributes(matcher: _Matcher, pattern: AttrPattern, node: Expr | Operator) -> bool:
    if not matcher.matches(pattern.pattern, node):
        return False
    if isinstance(node, Op):
        return pattern.attrs == {"TOpPattern": int(node.pattern)}
    has = node.attrs if isinstance(node, Call | Function) else {}
    return all(key in has and has[key] == value for key, value in pattern.attrs.items())


def _type(node: Expr | Operator) -> Type | None:
    try:
        return type_of(node) if isinstance(node, Expr) else None
    except TypeMismatchError:
        return None


def _has_shape(matcher: _Matcher, pattern: ShapePattern, node: Expr | Operator) -> bool:
    found = _type(node)
    if not isinstance(found, TensorType) or found.ndim != len(pattern.shape):
        return False
    fits = all(type(want) is AnyDim or want is dim or want == dim for want, dim in zip(pattern.shape, found.shape))
    return fits and matcher.matches(pattern.pattern, node)


def _has_dtype(matcher: _Matcher, pattern: DataTypePattern, node: Expr | Operator) -> bool:
    found = _type(node)
    return isinstance(found, TensorType) and found.dtype == pattern.dtype and matcher.matches(pattern.pattern, node)


def _expression(_: _Matcher, pattern: ExprPattern, node: Expr | Operator) -> bool:
    wanted = pattern.expr
    if isinstance(wanted, Op) or isinstance(node, Op):
        return wanted is node
    return wanted is node or (type(wanted) is type(node) is not Var and structural_equal(wanted, node))


def _function(matcher: _Matcher, pattern: FunctionPattern, node: Expr | Operator) -> bool:
    if not isinstance(node, Function):
        return False
    return (pattern.params is None or matcher.all(pattern.params, node.params)) and matcher.matches(
        pattern.body, node.body
    )


def _dominator(matcher: _Matcher, pattern: DominatorPattern, node: Expr | Operator) -> bool:
    if not isinstance(node, Expr) or not matcher.matches(pattern.child, node):
        return False
    parents: dict[Expr, None] = {}
    inside: dict[Expr, None] = {node: None}
    pending = list(children(node))
    while pending:
        current = pending.pop()
        if current in inside or current in parents or isinstance(current, Var | Constant):
            continue
        if matcher.one_of_many(pattern.parent, current):
            parents[current] = None
        elif matcher.one_of_many(pattern.path, current):
            inside[current] = None
            pending += children(current)
        else:
            return False
    users = [user for made in (*parents, *inside) if made is not node for user in matcher.users[made]]
    return (
        len(parents) == 1
        and all(user in inside for user in users)
        and _all_come_from(parents, inside)
        and matcher.matches(pattern.parent, next(iter(parents)))
    )


def _all_come_from(parents: Container[Expr], inside: Iterable[Expr]) -> bool:
    """True if each node of `inside` reads a parent, or another of `inside` that does."""
    waiting, reached = [*inside], set[Expr]()
    while found := [node for node in waiting if any(kid in parents or kid in reached for kid in children(node))]:
        reached.update(found)
        waiting = [node for node in waiting if node not in reached]
    return not waiting


_MATCH: dict[type, Callable[..., bool]] = {
    WildcardPattern: lambda m, p, n: True,
    VarPattern: lambda m, p, n: isinstance(n, Var) and p.name in ("", n.name),
    ConstantPattern: lambda m, p, n: isinstance(n, Constant),
    ExprPattern: _expression,
    CallPattern: _call,
    FunctionPattern: _function,
    LetPattern: lambda m, p, n: isinstance(n, Let) and m.all((p.var, p.value, p.body), (n.var, n.value, n.body)),
    IfPattern: lambda m, p, n: isinstance(n, If) and m.all((p.cond, p.true_branch, p.false_branch), children(n)),
    TuplePattern: lambda m, p, n: isinstance(n, Tuple) and (p.fields is None or m.all(p.fields, n.fields)),
    TupleGetItemPattern: lambda m, p, n: (
        isinstance(n, TupleGetItem) and p.index in (None, n.index) and m.matches(p.tuple_value, n.tuple_value)
    ),
    AltPattern: _alternative,
    AttrPattern: _attributes,
    TypePattern: lambda m, p, n: _type(n) == p.type and m.matches(p.pattern, n),
    DataTypePattern: _has_dtype,
    ShapePattern: _has_shape,
    DominatorPattern: _dominator,
}
