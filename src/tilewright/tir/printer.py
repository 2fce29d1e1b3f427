"""Prints loop IR as text that reads like Python, the same text for the same program in every process.

Names that clash get a suffix (`i`, `i_1`) in the order they are met. An expression that is very large as a tree, such
as an unrolled polynomial, has its shared parts printed first under names of their own (`t0 = …`), once each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import stmt as s
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr
from tilewright.tir.position import Position
from tilewright.tir.visitor import children, post_order

_ATOM, _UNARY = 9, 8
_OPERATORS: dict[type, tuple[str, int]] = {
    e.Or: ("or", 1), e.And: ("and", 2),
    e.EQ: ("==", 4), e.NE: ("!=", 4), e.LT: ("<", 4), e.LE: ("<=", 4), e.GT: (">", 4), e.GE: (">=", 4),
    e.Add: ("+", 5), e.Sub: ("-", 5),
    e.Mul: ("*", 6), e.Div: ("/", 6), e.FloorDiv: ("//", 6), e.FloorMod: ("%", 6),
}  # fmt: skip
_NOT = 3
_COMPARISON = 4
_LARGE, _SHARED = 300, 6  # nodes as a tree: of an expression printed in parts, of a part worth a name
_PREFIXED_CALLS = {"reinterpret", "call_extern"}  # calls whose dtype does not follow from their arguments


def to_text(node: Any, positions: bool = False) -> str:
    """The text of an expression, a statement, a `PrimFunc`, or a sequence of functions.

    With `positions`, statements of functions have a comment where they are from another line than what is around them.
    """
    if isinstance(node, s.PrimFunc):
        return "\n".join(_Printer(positions).function(node))
    if isinstance(node, Expr):
        printer = _Printer()
        setup, text = printer.lines_of(node)
        return "\n".join([*setup, text])
    if isinstance(node, s.Stmt):
        return "\n".join(_Printer().statement(node))
    return "\n\n".join(to_text(item, positions) for item in node)


def lines_and_names(func: s.PrimFunc) -> tuple[list[str], dict[Any, str]]:
    """The lines of `to_text(func)`, and the names that its variables and buffers have in them."""
    printer = _Printer()
    return printer.function(func), printer._names


def _noted(key: str, value: Any) -> str:
    """The value of a function's attribute; of LLVM IR, how much of it there is."""
    return f"{sum(map(len, value))} characters of LLVM IR" if key == s.IMPORT_LLVM else repr(value)


class _Printer:
    def __init__(self, positions: bool = False) -> None:
        self._positions = positions
        self._around: Position | None = None
        self._names: dict[Any, str] = {}
        self._taken: dict[str, int] = {}
        self._parts: dict[Expr, str] = {}

    # ------------------------------------------------------------------------------------------------ names
    def name(self, thing: Any) -> str:
        """The unique name of a variable, buffer or tensor."""
        found = self._names.get(thing)
        if found is None:
            wanted = re.sub(r"\W", "_", thing.name) or "_"
            count = self._taken.get(wanted, 0)
            found = wanted
            while found in self._taken:
                count += 1
                found = f"{wanted}_{count}"
            self._taken[wanted] = count
            self._taken[found] = self._taken.get(found, 0)
            self._names[thing] = found
        return found

    # ------------------------------------------------------------------------------------------ expressions
    @nested
    def expr(self, x: Expr, level: int = 0) -> str:
        """`x` as text, in parentheses if it binds less tightly than `level`."""
        part = self._parts.get(x)
        if part is not None:
            return part
        text, own = self._expr(x)
        return text if own >= level else f"({text})"

    def _expr(self, x: Expr) -> tuple[str, int]:
        operator = _OPERATORS.get(type(x))
        if operator is not None and not (isinstance(x, e.Div) and x.dtype.is_int):
            symbol, level = operator
            right = level + 1
            left = right if level == _COMPARISON else level
            return f"{self.expr(x.a, left)} {symbol} {self.expr(x.b, right)}", level  # type: ignore[attr-defined]
        if isinstance(x, e.Var):
            return self.name(x), _ATOM
        return _EXPRESSIONS[type(x)](self, x)

    def listed(self, items: Iterable[Expr]) -> str:
        """Expressions separated by commas."""
        return ", ".join([self.expr(item) for item in items])

    def lines_of(self, *roots: Expr) -> tuple[list[str], str]:
        """Lines that name the shared parts of large expressions, and the text of the last of `roots`."""
        setup = []
        for part in _shared_parts(roots):
            text = self.expr(part)
            count = self._taken.get("t", -1) + 1
            self._taken["t"] = count
            self._parts[part] = f"t{count}"
            self._taken.setdefault(f"t{count}", 0)
            setup.append(f"t{count} = {text}")
        return setup, self.expr(roots[-1])

    def buffer_type(self, buffer: Buffer) -> str:
        """`float32[16, 4]`."""
        return f"{buffer.dtype}[{self.listed(buffer.shape)}]"

    # ------------------------------------------------------------------------------------------- statements
    def function(self, func: s.PrimFunc) -> list[str]:
        """The lines of a function."""
        params = ", ".join(
            f"{self.name(p)}: {self.buffer_type(p) if isinstance(p, Buffer) else p.dtype}" for p in func.params
        )
        attrs = [f"    # {key} = {_noted(key, value)}" for key, value in func.attrs.items()]
        return [f"def {func.name}({params}):", *attrs, *_indented(self.statement(func.body))]

    @nested
    def statement(self, node: s.Stmt) -> list[str]:
        """The lines of a statement."""
        self._parts = {}
        if not self._positions or node.position in (None, self._around):
            return _STATEMENTS[type(node)](self, node)
        around, self._around = self._around, node.position
        first, *rest = _STATEMENTS[type(node)](self, node)
        self._around = around
        return [f"{first}  # {_shortened(node.position)}", *rest]

    def with_parts(self, render: Callable[[], str], *roots: Expr) -> list[str]:
        """The line `render()` after lines for the shared parts of the expressions in it."""
        setup, _ = self.lines_of(*roots)
        return [*setup, render()]


def _shortened(position: Position | None) -> str:
    """A position with its file's name only."""
    assert position is not None
    return str(position._replace(file=PurePath(position.file).name))


def _indented(lines: Sequence[str]) -> list[str]:
    return ["    " + line for line in lines] or ["    pass"]


def _shared_parts(roots: Sequence[Expr]) -> list[Expr]:
    """The parts used more than once, operands first; none if the expressions are small as trees."""
    sizes: dict[Any, int] = {}
    uses: dict[Any, int] = {}

    def visit(node: Any) -> None:
        kids = children(node)
        sizes[node] = 1 + sum(sizes[kid] for kid in kids)
        for kid in kids:
            uses[kid] = uses.get(kid, 0) + 1

    post_order(roots, visit)
    if sum(sizes[root] for root in roots) <= _LARGE:
        return []
    return [node for node, size in sizes.items() if uses.get(node, 0) > 1 and size >= _SHARED]


# --------------------------------------------------------------------------------------- one entry a node class
def _int_imm(_: _Printer, x: e.IntImm) -> tuple[str, int]:
    if x.dtype.is_bool:
        return str(bool(x.value)), _ATOM
    if x.dtype == "int32":
        return str(x.value), _ATOM if x.value >= 0 else _UNARY
    return f"{x.dtype}({x.value})", _ATOM


def _float_imm(_: _Printer, x: e.FloatImm) -> tuple[str, int]:
    text = str(x.dtype.numpy.type(x.value)) if math.isfinite(x.value) else str(x.value)
    if "." not in text and "e" not in text and math.isfinite(x.value):
        text += ".0"
    return (text, _UNARY if text.startswith("-") else _ATOM) if x.dtype == "float32" else (f"{x.dtype}({text})", _ATOM)


def _call(p: _Printer, x: e.Call) -> tuple[str, int]:
    prefix = f'"{x.dtype}", ' if x.op in _PREFIXED_CALLS else ""
    return f"{x.op}({prefix}{p.listed(x.args)})", _ATOM


def _reduce(p: _Printer, x: e.Reduce) -> tuple[str, int]:
    source = p.listed(x.source)
    text = f"({source})" if len(x.source) > 1 else source
    axes = ", ".join(p.name(axis.var) for axis in x.axis)
    always = isinstance(x.condition, e.IntImm) and x.condition.value
    where = "" if always else f", where={p.expr(x.condition)}"
    start = f", init=({p.listed(x.init)})" if x.init else ""
    pick = f"[{x.value_index}]" if len(x.source) > 1 else ""
    return f"{x.combiner.name}({text}, axis=[{axes}]{where}{start}){pick}", _ATOM


def _function(name: str) -> Any:
    """Prints a node as a call of `name` with its children."""
    return lambda p, x: (f"{name}({p.listed(children(x))})", _ATOM)


_EXPRESSIONS: dict[type, Callable[[_Printer, Any], tuple[str, int]]] = {
    e.IntImm: _int_imm,
    e.FloatImm: _float_imm,
    e.StringImm: lambda p, x: (repr(x.value), _ATOM),
    e.Div: _function("truncdiv"),
    e.Mod: _function("truncmod"),
    e.Min: _function("min"),
    e.Max: _function("max"),
    e.Not: lambda p, x: (f"not {p.expr(x.a, _NOT)}", _NOT),
    e.Cast: lambda p, x: (f"{x.dtype}({p.expr(x.value)})", _ATOM),
    e.Select: _function("select"),
    e.Let: lambda p, x: (f"let({p.name(x.var)}={p.expr(x.value)}, {p.expr(x.body)})", _ATOM),
    e.Ramp: lambda p, x: (f"ramp({p.expr(x.base)}, {p.expr(x.stride)}, {x.lanes})", _ATOM),
    e.Broadcast: lambda p, x: (f"broadcast({p.expr(x.value)}, {x.lanes})", _ATOM),
    e.Shuffle: lambda p, x: (f"shuffle([{p.listed(x.vectors)}], {list(x.indices)})", _ATOM),
    e.BufferLoad: lambda p, x: (f"{p.name(x.buffer)}[{p.listed(x.indices)}]", _ATOM),
    e.ProducerLoad: lambda p, x: (f"{p.name(x.producer)}[{p.listed(x.indices)}]", _ATOM),
    e.Call: _call,
    e.Reduce: _reduce,
}


def _for(p: _Printer, node: s.For) -> list[str]:
    low = _constant(node.min)
    extent = _constant(node.extent)
    if low == 0:
        bounds = p.expr(node.extent)
    elif low is not None and extent is not None:
        bounds = f"{low}, {low + extent}"
    elif isinstance(node.extent, e.Sub) and node.extent.b is node.min:
        bounds = f"{p.expr(node.min)}, {p.expr(node.extent.a)}"
    else:
        bounds = f"{p.expr(node.min)}, {p.expr(node.min, 5)} + {p.expr(node.extent, 6)}"
    kind = "range" if node.kind is s.ForKind.SERIAL else node.kind.value
    if node.kind is s.ForKind.THREAD_BINDING:
        kind, bounds = "thread", f'"{node.thread}", {bounds}'
    notes = ", ".join(f"{key}={value!r}" for key, value in node.annotations.items())
    head = f"for {p.name(node.var)} in {kind}({bounds}):" + (f"  # {notes}" if notes else "")
    return [head, *_indented(p.statement(node.body))]


def _constant(x: Expr) -> int | None:
    """The value of an integer constant."""
    return x.value if isinstance(x, e.IntImm) else None


def _store(p: _Printer, node: s.BufferStore) -> list[str]:
    return p.with_parts(
        lambda: f"{p.name(node.buffer)}[{p.listed(node.indices)}] = {p.expr(node.value)}", *node.indices, node.value
    )


def _allocate(p: _Printer, node: s.Allocate) -> list[str]:
    line = f'{p.name(node.buffer)} = allocate({p.buffer_type(node.buffer)}, scope="{node.buffer.scope}")'
    return [line, *p.statement(node.body)]


def _declare(p: _Printer, node: s.DeclBuffer) -> list[str]:
    line = f"{p.name(node.buffer)} = view({p.buffer_type(node.buffer)}, {p.expr(node.address)})"
    return [line, *p.statement(node.body)]


def _if(p: _Printer, node: s.IfThenElse) -> list[str]:
    lines = p.with_parts(lambda: f"if {p.expr(node.condition)}:", node.condition)
    lines += _indented(p.statement(node.then_case))
    if node.else_case is not None:
        lines += ["else:", *_indented(p.statement(node.else_case))]
    return lines


def _let(p: _Printer, node: s.LetStmt) -> list[str]:
    lines = p.with_parts(lambda: f"{p.name(node.var)} = {p.expr(node.value)}", node.value)
    return [*lines, *p.statement(node.body)]


def _attribute(p: _Printer, node: s.AttrStmt) -> list[str]:
    def show(value: Any) -> str:
        if isinstance(value, Expr):
            return p.expr(value)
        return p.name(value) if isinstance(value, Buffer) else repr(value)

    target = "" if node.target is None else f", on={show(node.target)}"
    return [f"with attribute({node.key!r}, {show(node.value)}{target}):", *_indented(p.statement(node.body))]


def _while(p: _Printer, node: s.While) -> list[str]:
    return [f"while {p.expr(node.condition)}:", *_indented(p.statement(node.body))]


def _assert(p: _Printer, node: s.AssertStmt) -> list[str]:
    return [f"assert {p.expr(node.condition)}, {node.message!r}", *p.statement(node.body)]


_STATEMENTS: dict[type, Callable[[_Printer, Any], list[str]]] = {
    s.SeqStmt: lambda p, x: [line for item in x.stmts for line in p.statement(item)] or ["pass"],
    s.For: _for,
    s.While: _while,
    s.BufferStore: _store,
    s.Allocate: _allocate,
    s.DeclBuffer: _declare,
    s.IfThenElse: _if,
    s.LetStmt: _let,
    s.AttrStmt: _attribute,
    s.AssertStmt: _assert,
    s.Evaluate: lambda p, x: p.with_parts(lambda: p.expr(x.value), x.value),
}
