"""Patterns: expressions over holes, matched against a node and filled in to build another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import BinaryExpr, Expr, FloatImm, IntImm, Var

Binding = dict[Var, Expr]


class Hole(Var):
    """A variable of a pattern. `kind` is "int", "bool", "float" or "any"; `constant`: it stands for constants only."""

    __slots__ = ("constant", "kind")
    kind: str
    constant: bool

    def __init__(self, name: str, kind: str = "int", constant: bool = False) -> None:
        super().__init__(name, {"bool": "bool", "float": "float32"}.get(kind, "int32"))
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "constant", constant)

    def accepts(self, x: Expr) -> bool:
        """True if `x` is of the kind this hole stands for."""
        if self.constant and not isinstance(x, (IntImm, FloatImm)):
            return False
        dtype = x.dtype
        return (
            self.kind == "any"
            or (self.kind == "int" and dtype.is_int)
            or (self.kind == "float" and dtype.is_float)
            or (self.kind == "bool" and dtype.element.is_bool)
        )


class Rule(NamedTuple):
    """`pattern` may be replaced by `replacement` where `condition`, filled in, can be proved (None: always)."""

    pattern: Expr
    replacement: Expr
    condition: Expr | None = None


def match(pattern: Any, x: Any, binding: Binding) -> bool:
    """True if `x` has the form of `pattern`; what the holes stand for is added to `binding`."""
    cls = pattern.__class__
    if cls is Hole:
        bound = binding.get(pattern)
        if bound is not None:
            return bound is x
        if not pattern.accepts(x):
            return False
        binding[pattern] = x
        return True
    if cls is not x.__class__:
        return False
    if isinstance(pattern, BinaryExpr):
        return match(pattern.a, x.a, binding) and match(pattern.b, x.b, binding)
    if isinstance(pattern, (IntImm, FloatImm)):
        same_kind = pattern.dtype.is_bool == x.dtype.is_bool  # the choice of the numbers 1 and 0 is no bool
        return same_kind and bool(pattern.value == x.value) and str(pattern.value) == str(x.value)
    if cls is e.Call:
        return (
            bool(pattern.op == x.op)
            and len(pattern.args) == len(x.args)
            and all(match(p, q, binding) for p, q in zip(pattern.args, x.args, strict=True))
        )
    return all(match(p, q, binding) for p, q in zip(pattern.fields(), x.fields(), strict=True))


_BUILD: dict[type, Callable[[Any, Any], Expr]] = {
    e.Add: op.add, e.Sub: op.subtract, e.Mul: op.multiply, e.Div: op.truncdiv, e.Mod: op.truncmod,
    e.FloorDiv: op.floordiv, e.FloorMod: op.floormod, e.Min: op.minimum, e.Max: op.maximum,
    e.EQ: op.eq, e.NE: op.ne, e.LT: op.less, e.LE: op.less_equal, e.GT: op.greater, e.GE: op.greater_equal,
    e.And: op.logical_and, e.Or: op.logical_or,
}  # fmt: skip


def build(cls: type, a: Expr, b: Expr) -> Expr:
    """The binary node `cls(a, b)` with constants folded and neutral elements dropped."""
    return _BUILD[cls](a, b)


def fill(pattern: Any, binding: Binding) -> Any:
    """`pattern` with its holes filled in; numbers take the dtype of what they meet."""
    if isinstance(pattern, Hole):
        return binding[pattern]
    if isinstance(pattern, BinaryExpr):
        a, b = fill(pattern.a, binding), fill(pattern.b, binding)
        if isinstance(pattern.a, IntImm):
            a = op.const(pattern.a.value, b.dtype)
        elif isinstance(pattern.b, IntImm):
            b = op.const(pattern.b.value, a.dtype)
        return build(type(pattern), a, b)
    if isinstance(pattern, e.Not):
        return op.logical_not(fill(pattern.a, binding))
    if isinstance(pattern, e.Select):
        return op.select(*[fill(part, binding) for part in pattern.fields()])
    if isinstance(pattern, e.Call):
        args = tuple(fill(arg, binding) for arg in pattern.args)
        return e.Call(args[-1].dtype, pattern.op, args)
    return pattern


_COMMUTATIVE = (e.Add, e.Mul, e.Min, e.Max, e.And, e.Or, e.EQ, e.NE)


def orders(pattern: Any, kinds: tuple[type, ...] = _COMMUTATIVE) -> Iterator[Any]:
    """`pattern` with the operands of its commutative nodes in every order."""
    if isinstance(pattern, BinaryExpr):
        for a in orders(pattern.a, kinds):
            for b in orders(pattern.b, kinds):
                yield type(pattern)(a, b)
                if isinstance(pattern, kinds):
                    yield type(pattern)(b, a)
    elif isinstance(pattern, e.Not):
        yield from (e.Not(a) for a in orders(pattern.a, kinds))
    else:
        yield pattern
