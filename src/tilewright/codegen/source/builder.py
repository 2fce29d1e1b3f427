"""The text of one function while it is written: lines, indentation, names, and which expressions have a value already.

A value that a statement uses more than once gets a constant of its own before it, so that text never grows beyond the
graph it stands for. Values live as long as the block they were computed in; a statement boundary forgets them, because
what was loaded may have changed (the language's own compiler finds common subexpressions across statements).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilewright.codegen.source.dialect import Dialect
from tilewright.errors import UnsupportedError
from tilewright.support import knobs
from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.position import Position
from tilewright.tir.visitor import children

_ATOMS = (e.IntImm, e.FloatImm, e.Var, e.StringImm)


#: Open brackets in the text of one value; C compilers take 256 within each other (clang's default).
_MOST_BRACKETS = 100


class SourceBuilder:
    """Collects the lines of one function."""

    def __init__(self, dialect: Dialect, expressions: Mapping[type, Callable[[SourceBuilder, Any], str]]) -> None:
        self.dialect = dialect
        self.expressions = expressions
        self.analyzer = Analyzer()
        self.lines: list[str] = []
        self.top_lines: list[str] = []  # declarations that must stand at the top of the function
        self.indent = 1
        self.messages: list[str] = []  # of assertions; the n-th has the return code n + 1
        self.registers: dict[Buffer, dict[int, str]] = {}  # arrays that are variables: by the first element of each
        self.declared: set[Any] = set()  # variables and arrays that have been declared somewhere
        self._names: dict[Any, str] = {}
        self.taken: set[str] = set()  # names in use
        self._known: dict[Expr, str] = {}
        self._uses: dict[Expr, int] = {}
        self.shows_positions = knobs.DEBUG_INFO.get()
        self._position: Position | None = None  # of the statement at hand

    # ------------------------------------------------------------------------------------------------- names, lines
    def name(self, thing: Var | Buffer | Expr | tuple[Buffer, int], hint: str = "") -> str:
        """The name of a variable, a buffer or a value: its own where that is free, else with a number."""
        found = self._names.get(thing)
        if found is None:
            stem = "".join(c if c.isalnum() and c.isascii() else "_" for c in hint or getattr(thing, "name", "t"))
            stem = stem if stem[:1].isalpha() else f"v{stem}"
            found, number = stem, 1
            while found in self.taken:
                found = f"{stem}_{number}"
                number += 1
            self.taken.add(found)
            self._names[thing] = found
        return found

    def reserve(self, *names: str) -> None:
        """Names that nothing may get."""
        self.taken.update(names)

    def line(self, text: str) -> None:
        """One line at the current depth, after the directive that says what it was made of if that is requested."""
        if self.shows_positions and self._position is not None:
            file, line, _ = self._position
            self.lines.append(self.dialect.position.format(file=_quotable(file), line=line))
        self.lines.append("  " * self.indent + text)

    @contextmanager
    def at(self, position: Position | None) -> Iterator[None]:
        """Lines written inside were made of what is at `position`; of the same as around, if that is None."""
        around, self._position = self._position, position or self._position
        yield
        self._position = around

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """The lines between `head` and `tail`; values computed inside are forgotten after."""
        self.line(head)
        known = dict(self._known)
        self.indent += 1
        yield
        self.indent -= 1
        self._known = known
        self.line(tail)

    # ------------------------------------------------------------------------------------------------------ values
    def statement(self, *roots: Expr) -> None:
        """Begin a statement that uses `roots`: earlier values are forgotten, uses counted."""
        self._known = {}
        self._uses = {}
        for root in roots:
            self._count(root)

    def _count(self, root: Expr) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            seen = self._uses.get(node, 0)
            self._uses[node] = seen + 1
            if not seen:
                stack.extend(children(node))

    def value(self, expr: Expr) -> str:
        """The text of `expr`: the name of its constant where the statement uses it several times."""
        found = self._known.get(expr)
        return self._emitted(expr) if found is None else found

    @nested
    def _emitted(self, expr: Expr) -> str:
        emit = self.expressions.get(type(expr))
        if emit is None:
            raise UnsupportedError(f"the {self.dialect.name} code generator has no code for {type(expr).__name__}")
        text = emit(self, expr)
        if (self._uses.get(expr, 0) > 1 or text.count("(") > _MOST_BRACKETS) and not isinstance(expr, _ATOMS):
            text = self.keep(expr, text)
        return text

    def keep(self, expr: Expr, text: str) -> str:
        """A constant of this block that holds `text`, the value of `expr`."""
        name = f"t{len(self.taken)}"
        self.taken.add(name)
        d = self.dialect
        self.line(d.constant_line(d.type_name(expr.dtype), name, text))
        self._known[expr] = name
        return name

    def fresh(self, dtype: Any) -> str:
        """A new variable of `dtype`, declared here."""
        name = f"t{len(self.taken)}"
        self.taken.add(name)
        self.line(self.dialect.variable.format(type=self.dialect.type_name(dtype), name=name))
        return name

    def know(self, expr: Expr, text: str) -> None:
        """`text` is the value of `expr` in this block."""
        self._known[expr] = text

    def nonnegative(self, expr: Expr) -> bool:
        """True if an integer is known to be at least 0."""
        low = self.analyzer.const_int_bound(expr)[0]
        return low is not None and low >= 0

    def positive(self, expr: Expr) -> bool:
        """True if an integer is known to be at least 1."""
        low = self.analyzer.const_int_bound(expr)[0]
        return low is not None and low >= 1


def _quotable(path: str) -> str:
    """A path between quotes in a directive, or behind `//`."""
    return path.replace("\\", "/").replace('"', "'").replace("\n", " ")
