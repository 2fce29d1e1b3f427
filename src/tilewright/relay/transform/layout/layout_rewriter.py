"""A function rewritten by a rule that puts some of its calls into other layouts; what reads them follows.

Before: nn.relu(nn.conv2d(%x, %w))                                                            (NCHW, OIHW)
After:  %0 = move(%x); nn.conv2d(%0, %w, data_layout="NCHW16c"); move back(nn.relu(%1))

The rule returns the new call; how it and the old one lay out their operands is read off their attributes
(`data_layout`, `kernel_layout`, `out_layout`, `layout`). Operators follow as their `Op.follows` says. A value is moved
where a reader wants it another way than it is, once a layout, and back to how it was where a reader does not follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.relay.ir.expr import Call, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.registry import Followed, Moved, Op, OpPattern
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.op.following import elementwise
from tilewright.topi.layout import is_layout, parse_layout

#: (the old call, its operands as they are now) -> the call instead of it, None to keep it.
Rule = Callable[[Call, Sequence[Expr]], "Expr | None"]
#: (a value, how many leading axes of extent 1 it lacks, the layout it is in, that which is wanted) -> the value there.
Mover = Callable[[Expr, int, str, str], Expr]


@dataclass(frozen=True, slots=True)
class _Value:
    """A tensor of the new graph, and how it was laid out in the old one; None where nothing is known of its axes."""

    expr: Expr
    move: Moved | None = None

    @property
    def has_moved(self) -> bool:
        return self.move is not None and self.move.was != self.move.now


class LayoutRewriter:
    """The rewriting of one function. Values are known by their nodes in the old graph, whose types are known."""

    def __init__(self, rule: Rule, mover: Mover) -> None:
        self.rule = rule
        self.mover = mover
        #: The tensors that an old node stands for: one, or the fields of a tuple of tensors.
        self.values: dict[Expr, tuple[_Value, ...]] = {}
        #: Old nodes of which no tensor has moved: the new node.
        self.plain: dict[Expr, Expr] = {}
        self.moves: dict[tuple[Expr, int, str, str], Expr] = {}

    def run(self, root: Expr) -> Expr:
        """The rewritten `root`, laid out as it was."""
        for node in post_order(root):
            if isinstance(node, Tuple) and any(self._has_moved(field) for field in node.fields):
                self.values[node] = tuple([self._value(field) for field in node.fields])
            elif isinstance(node, TupleGetItem) and node.tuple_value in self.values:
                self._keep(node, self.values[node.tuple_value][node.index])
            elif isinstance(node, Call) and isinstance(node.op, Op):
                self._visit(node)
            else:
                self.plain[node] = rebuild(node, tuple([self._as_it_was(kid) for kid in children(node)]))
        return self._as_it_was(root)

    def _value(self, node: Expr) -> _Value:
        """The tensor that the old `node` stands for."""
        return self.values[node][0] if node in self.values else _Value(self._as_it_was(node))

    def _has_moved(self, node: Expr) -> bool:
        return node in self.values and _tensor(node) and self.values[node][0].has_moved

    def _keep(self, node: Expr, value: _Value) -> None:
        self.values[node] = (value,)
        if not value.has_moved:
            self.plain[node] = value.expr

    def _as_it_was(self, node: Expr) -> Expr:
        """The value of the old `node`, laid out as there."""
        if node not in self.plain:
            made = [self._moved(value, 0, value.move.was if value.move else "") for value in self.values[node]]
            self.plain[node] = made[0] if _tensor(node) else Tuple(made)
        return self.plain[node]

    def _moved(self, value: _Value, missing: int, wanted: str) -> Expr:
        """`value` in another layout; one of which nothing is known is in the layout `wanted` already."""
        now = value.move.now if value.move is not None else wanted
        return self._move(value.expr, missing, now, wanted)

    def _move(self, expr: Expr, missing: int, now: str, wanted: str) -> Expr:
        if now == wanted and not missing:
            return expr
        key = (expr, missing, now, wanted)
        if key not in self.moves:
            self.moves[key] = self.mover(*key)
        return self.moves[key]

    # ---------------------------------------------------------------------------------------------------- calls
    def _visit(self, call: Call) -> None:
        operands = [operand for arg in call.args for operand in (arg.fields if isinstance(arg, Tuple) else (arg,))]
        simple = all(_tensor(operand) for operand in operands)
        values = [self._value(operand) for operand in operands] if simple else []
        known = declared(call)
        if simple and known is not None and self._replaced(call, values, known):
            return
        choice = self._followed(call, operands, values) if simple else None
        if choice is not None and any(value.has_moved for value in values):
            args = [self._wanted(o, v, m) for o, v, m in zip(operands, values, choice.inputs, strict=True)]
            self._results(call, Call(call.op, _grouped(call, args), choice.attrs, call.span), choice.outputs)
            return
        made = rebuild(call, tuple([self._as_it_was(kid) for kid in children(call)]))
        outputs = choice.outputs if choice is not None else (Moved(known[1], known[1]),) if known else None
        self._results(call, made, outputs)

    def _results(self, call: Call, made: Expr, outputs: Sequence[Moved | None] | None) -> None:
        """Note `made` as the value of the old `call`."""
        if outputs is None:
            self.plain[call] = made
        elif _tensor(call):
            self._keep(call, _Value(made, outputs[0]))
        else:
            self.values[call] = tuple([_Value(TupleGetItem(made, at), move) for at, move in enumerate(outputs)])
            if not any(value.has_moved for value in self.values[call]):
                self.plain[call] = made

    def _replaced(self, call: Call, values: Sequence[_Value], known: tuple[list[str], str]) -> bool:
        """Replace `call` by what the rule makes of it; False where it keeps the call."""
        was = [*known[0], *[""] * (len(values) - len(known[0]))]
        apart = any(v.has_moved and v.move is not None and v.move.was != layout for v, layout in zip(values, was))
        if apart:
            values = [_Value(self._as_it_was(arg)) for arg in call.args]
        made = self.rule(call, _grouped(call, [value.expr for value in values]))
        if made is None:
            return False
        wanted = declared(made) if isinstance(made, Call) else None
        if wanted is None or len(made.args) != len(values):  # type: ignore[attr-defined]
            self.plain[call] = self.rule(call, [self._as_it_was(arg) for arg in call.args]) or call
            return True
        assert isinstance(made, Call)
        args = list(made.args)
        for at, (value, before) in enumerate(zip(values, was)):
            after = wanted[0][at] if at < len(wanted[0]) else before
            args[at] = self._move(args[at], 0, value.move.now if value.move else before, after)
        self._results(call, Call(made.op, args, made.attrs, call.span), (Moved(known[1], wanted[1]),))
        return True

    def _followed(self, call: Call, operands: Sequence[Expr], values: Sequence[_Value]) -> Followed | None:
        assert isinstance(call.op, Op)
        rule = call.op.follows or (elementwise if call.op.pattern <= OpPattern.BROADCAST else None)
        if rule is None or not any(value.move is not None for value in values):
            return None
        return rule(call, [value.move for value in values], [type_of(o) for o in operands])  # type: ignore[misc]

    def _wanted(self, operand: Expr, value: _Value, move: Moved | None) -> Expr:
        if move is None:
            return self._as_it_was(operand)
        if value.move is not None and value.move.was == move.was:
            return self._moved(value, 0, move.now)
        missing = parse_layout(move.was).ndim - type_of(operand).ndim  # type: ignore[attr-defined]
        return self._move(self._as_it_was(operand), missing, move.was, move.now)


def declared(call: Call) -> tuple[list[str], str] | None:
    """The layouts of a call's first operands and of its result, as its attributes say; None where they say nothing."""
    attrs = call.attrs
    if "kernel_layout" in attrs and "data_layout" in attrs:
        return [attrs.data_layout, attrs.kernel_layout], attrs.get("out_layout", "") or attrs.data_layout
    layout = attrs.get("layout", "")
    return ([layout], layout) if isinstance(layout, str) and is_layout(layout) else None


def _tensor(node: Expr) -> bool:
    return isinstance(type_of(node), TensorType)


def _grouped(call: Call, operands: Sequence[Expr]) -> list[Expr]:
    """Flat operands as the arguments of `call`, tuples where it has tuples."""
    rest = iter(operands)
    return [Tuple([next(rest) for _ in arg.fields]) if isinstance(arg, Tuple) else next(rest) for arg in call.args]
