"""Relay as text, in the classic style: a line per call, numbered in order of evaluation, the result last.

    def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 3), float32] {
      %0 = nn.dense(%x, const<float32[3, 4]>, units=3);
      nn.relu(%0)
    }

`to_text` is for reading. `astext` is the whole program, and `parser.parse` reads it back: it begins with
`#[version = "0.0.5"]`, attributes that have their defaults are left out, and constants that are no scalars stand as
`meta[relay.Constant][0]`, with their contents in a section behind the program. `%0 = …;` names a node of the graph and
no more than that: only `let` binds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.relay.ir.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, TypeData
from tilewright.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilewright.relay.ir.json import save_metadata
from tilewright.relay.ir.literals import TypeTexts, quoted, scalar_text
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.node_methods import node_method
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.scopes import Scopes
from tilewright.relay.ir.type import FuncType, Type
from tilewright.relay.ir.visitor import children, free_vars
from tilewright.support.recursion import nested

VERSION = '#[version = "0.0.5"]'

#: Around the text of the node that an excerpt is about; no text has these characters.
MARKS = ("\ue000", "\ue001")


@node_method
def to_text(node: IRModule | Expr, types: bool = False, spans: bool = False, mark: Expr | None = None) -> str:
    """`node` as text, the same from run to run.

    `types` adds the inferred type and `spans` the source node names of each call as a comment. `mark` is a node whose
    text is put between `MARKS`.
    """
    printer = _Printer(types, spans, mark=mark)
    if isinstance(node, IRModule):
        return _laid_out("\n\n".join(printer.module(node))) + "\n"
    return _laid_out(printer.expression(node))


@node_method
def astext(node: IRModule | Expr | Op, show_meta_data: bool = True) -> str:
    """`node` as a program that `parser.parse` (a module) or `parser.parse_expr` reads back.

    Without `show_meta_data` the contents of constants are left out, and it cannot be read back if there are any.
    """
    printer = _Printer(False, False, constants=[])
    if isinstance(node, Op):
        return f"{VERSION}\n{node.name}\n"
    if isinstance(node, IRModule):
        lines = printer.module(node)
    else:
        free = [f"free_var {printer.parameter(var)};" for var in free_vars(node)]
        lines = ["\n".join([*free, printer.expression(node)])]
    text = f"{VERSION}\n" + _laid_out("\n\n".join(lines)) + "\n"
    if not printer.constants or not show_meta_data:
        return text
    return f"{text}\n#[metadata]\n{save_metadata({'relay.Constant': printer.constants})}\n"


#: Lines between these are indented once more. They are inserted at the end, for programs nest deep.
_DEEPER, _BACK = "\ue002", "\ue003"


def _within(lines: list[str]) -> str:
    """The lines, indented, and the beginning of the line behind them."""
    return "\n".join([f"{_DEEPER}{lines[0]}" if lines else _DEEPER, *lines[1:], _BACK])


def _laid_out(text: str) -> str:
    level, lines = 0, []
    for line in text.split("\n"):
        level += line.count(_DEEPER) - line.count(_BACK)
        lines.append("  " * level + line.replace(_DEEPER, "").replace(_BACK, "") if line else line)
    return "\n".join(lines)


class _Printer:
    """Names and numbers given out so far; shared by a function and the functions nested in it."""

    def __init__(
        self, types: bool, spans: bool, constants: list[Constant] | None = None, mark: Expr | None = None
    ) -> None:
        self.types = types
        self.spans = spans
        self.constants = constants
        self.mark = mark
        self.texts = TypeTexts()
        self._numbers: dict[Constant, int] = {}
        self._start()

    def _start(self) -> None:
        self.names: dict[Var, str] = {}
        self.taken: set[str] = set()
        self.counter = 0
        self.texts.start_definition()

    def module(self, mod: IRModule) -> list[str]:
        """The data types, then the functions."""
        parts = []
        for data in mod.type_definitions.values():
            self._start()
            parts.append(self._type_data(data))
        for gvar, func in mod.functions.items():
            self._start()
            parts.append(self.expression(func, f"def @{quoted(gvar.name)}"))
        return parts

    def expression(self, node: Expr, head: str = "fn ") -> str:
        """A whole expression: a function behind `head`, or the lines of a block."""
        if isinstance(node, Function):
            text = _FunctionPrinter(self, node.body).function(node, head)
            return f"{MARKS[0]}{text}{MARKS[1]}" if node is self.mark else text
        return "\n".join(_FunctionPrinter(self, node).block(node))

    def name(self, var: Var) -> str:
        """`%name`, with a number behind it if another variable has the name already."""
        if var not in self.names:
            unique, number = var.name, 0
            while unique in self.taken:
                number += 1
                unique = f"{var.name}_{number}"
            self.taken.add(unique)
            self.names[var] = f"%{quoted(unique)}"
        return self.names[var]

    def parameter(self, var: Var, type_: Type | None = None) -> str:
        """`%name: type`, or the name alone where nothing is known of the type."""
        type_ = type_ or var.type_annotation or var.inferred_type
        return self.name(var) + (f": {self.texts.type(type_)}" if type_ is not None else "")

    def constant(self, node: Constant) -> str:
        """A scalar as a number, anything else by its type or, in a whole program, its number."""
        text = scalar_text(node.data)
        if text is None and self.constants is not None:
            if node not in self._numbers:
                self._numbers[node] = len(self.constants)
                self.constants.append(node)
            text = f"meta[relay.Constant][{self._numbers[node]}]"
        return f"const<{node.tensor_type.dtype}{list(node.data.shape)}>" if text is None else text

    def comment(self, node: Expr) -> str:
        """The comment that `types` and `spans` request."""
        parts = []
        if self.types and node.inferred_type is not None:
            parts.append(f"ty={self.texts.type(node.inferred_type)}")
        if self.spans and isinstance(node, Call) and node.span:
            parts.append(f"span={node.span}")
        return f" /* {' '.join(parts)} */" if parts else ""

    def _type_data(self, data: TypeData) -> str:
        head = f"type {data.header}" + (f"[{self.texts.types(data.type_vars)}]" if data.type_vars else "")
        lines = [c.name + (f"({self.texts.types(c.inputs)})" if c.inputs else "") for c in data.constructors]
        return f"{head} {{\n{_within([f'{line},' for line in lines])}}}"


class _FunctionPrinter:
    """Writes the blocks of one closed graph. `known` has the text by which each node computed so far is named."""

    def __init__(self, shared: _Printer, root: Expr) -> None:
        self.shared = shared
        self.scopes = Scopes(root)
        self.known: dict[Expr, str] = {}

    def function(self, func: Function, head: str) -> str:
        """The whole function: parameters and attributes, then its body, indented."""
        shared = self.shared
        if func.type_params:
            head = f"{head}[{shared.texts.types(func.type_params)}]"
        params = [shared.parameter(param) for param in func.params] + shared.texts.attrs(func.attrs)
        found = func.inferred_type
        declared = func.ret_type or (found.ret_type if isinstance(found, FuncType) else None)
        result = f" -> {shared.texts.type(declared)}" if declared is not None else ""
        return f"{head}({', '.join(params)}){result} {{\n{self.indented(func.body)}}}"

    def indented(self, root: Expr) -> str:
        """The lines of a block inside of braces."""
        return _within(self.block(root))

    @nested
    def block(self, root: Expr, nested: bool = False) -> list[str]:
        """The lines of a block that evaluates `root`; `nested` where `root` is a `Let` that is an operand elsewhere."""
        lines: list[str] = []
        result = root
        while isinstance(result, Let) and (self.scopes.is_tail(result) or (nested and result is root)):
            result = result.body
        stack: list[tuple[Expr, int]] = [(root, 0)]
        while stack:
            node, visits = stack.pop()
            if node in self.known:
                continue
            if isinstance(node, Let) and (self.scopes.is_tail(node) or (nested and node is root)):
                if visits == 0:
                    stack += [(node, 1), (node.value, 0)]
                else:
                    lines += self._let(node)
                    stack.append((node.body, 0))
            elif visits == 0:
                stack.append((node, 1))
                stack.extend([(kid, 0) for kid in reversed(self._before(node))])
            else:
                lines += self._define(node, stack, node is result)
        last = self.known[result]
        return [*lines, *(last + self._comment_behind(result)).split("\n")]

    def _comment_behind(self, node: Expr) -> str:
        return self.shared.comment(node) if isinstance(node, _LINES) and self._is_direct(node) else ""

    def _is_direct(self, node: Expr) -> bool:
        return self.scopes.uses.get(node, 1) == 1

    def _before(self, node: Expr) -> list[Expr]:
        """Nodes that must be bound before the text of `node` is written; the rest opens blocks of its own."""
        hoisted = self.scopes.hoisted.get(node, [])
        if isinstance(node, Function | Let):
            return hoisted
        return [*(children(node)[:1] if isinstance(node, If | Match) else children(node)), *hoisted]

    def _let(self, node: Let) -> list[str]:
        annotation = node.var.type_annotation
        declared = f": {self.shared.texts.type(annotation)}" if annotation is not None else ""
        value = f"{self.known[node.value]};{self._comment_behind(node.value)}"
        return self._marked(node, f"let {self.shared.name(node.var)}{declared} = {value}").split("\n")

    def _define(self, node: Expr, stack: list[tuple[Expr, int]], is_result: bool) -> list[str]:
        """Set the text of `node`: its definition if it is used once and stands alone, a line and a number otherwise."""
        text = self._marked(node, _TEXTS[type(node)](self, node))
        user = stack[-1][0] if stack else None
        alone = self._is_direct(node) and (is_result or (isinstance(user, Let) and user.value is node))
        inline = alone if isinstance(node, _LINES) else not isinstance(node, _VALUES) or self._is_direct(node)
        if inline:
            self.known[node] = text
            return []
        self.known[node] = f"%{self.shared.counter}"
        self.shared.counter += 1
        return f"{self.known[node]} = {text};{self.shared.comment(node)}".split("\n")

    def _marked(self, node: Expr, text: str) -> str:
        return text if node is not self.shared.mark else f"{MARKS[0]}{text}{MARKS[1]}"

    # -------------------------------------------------------------------------------------------- text of a node
    def _call(self, node: Call) -> str:
        op: Any = node.op
        if isinstance(op, Constructor) and not op.inputs and not node.args:
            return op.name
        args = [self.known[arg] for arg in node.args] + self.shared.texts.attrs(self._stated(node))
        return f"{self._callee(op)}({', '.join(args)})"

    def _stated(self, node: Call) -> Mapping[str, Any]:
        """The attributes to write: all for reading, in a program those that are not their operator's defaults."""
        schema = node.op.attributes if isinstance(node.op, Op) else None
        if schema is None or self.shared.constants is None:
            return node.attrs
        return {
            key: value
            for key, value in node.attrs.items()
            if key not in schema or type(value) is not type(schema[key].default) or value != schema[key].default
        }

    def _callee(self, op: Any) -> str:
        if isinstance(op, Function):
            if op.is_primitive:
                return _FunctionPrinter(self.shared, op.body).function(op, "fn ")
            return self.known[op]
        if isinstance(op, GlobalVar):
            return f"@{quoted(op.name)}"
        return self.known[op] if op in self.known else str(op.name)

    def _if(self, node: If) -> str:
        true, false = self.indented(node.true_branch), self.indented(node.false_branch)
        return f"if ({self.known[node.cond]}) {{\n{true}}} else {{\n{false}}}"

    def _match(self, node: Match) -> str:
        lines: list[str] = []
        for clause in node.clauses:
            left, right = self._pattern(clause.lhs), self.block(clause.rhs)
            if len(right) == 1:
                lines.append(f"{left} => {right[0]},")
            else:
                lines.append(f"{left} => {{\n{_within(right)}}},")
        return f"match{'' if node.complete else '?'} ({self.known[node.data]}) {{\n{_within(lines)}}}"

    def _pattern(self, pattern: Pattern) -> str:
        if isinstance(pattern, PatternVar):
            annotation = pattern.var.type_annotation
            return self.shared.name(pattern.var) + (f": {self.shared.texts.type(annotation)}" if annotation else "")
        if isinstance(pattern, PatternConstructor):
            inner = ", ".join(map(self._pattern, pattern.patterns))
            return f"{pattern.constructor.name}({inner})" if inner else pattern.constructor.name
        if isinstance(pattern, PatternTuple):
            return f"({', '.join(map(self._pattern, pattern.patterns))}{',' if len(pattern.patterns) == 1 else ''})"
        return "_"

    def _tuple(self, node: Tuple) -> str:
        return f"({', '.join(self.known[field] for field in node.fields)}{',' if len(node.fields) == 1 else ''})"

    def _nested_let(self, node: Let) -> str:
        return f"{{\n{_within(self.block(node, nested=True))}}}"

    def _function(self, node: Function) -> str:
        printer = _FunctionPrinter(self.shared, node.body) if node.is_primitive else self
        return printer.function(node, "fn ")

    def _reference(self, node: Expr) -> str:
        return f"{_REFERENCES[type(node)]}({', '.join([self.known[kid] for kid in children(node)])})"


_REFERENCES = {RefCreate: "ref", RefRead: "ref_read", RefWrite: "ref_write"}

#: What gets a line and a number of its own, unless it is the result of its block or the value of a `let`.
_LINES = (Call, If, Match, Let, Function, RefCreate, RefRead, RefWrite)

#: What is written where it is used if that is one position.
_VALUES = (Tuple, TupleGetItem)

_TEXTS: dict[type, Callable[..., str]] = {
    Var: lambda self, node: self.shared.name(node),
    Constant: lambda self, node: self.shared.constant(node),
    Tuple: _FunctionPrinter._tuple,
    TupleGetItem: lambda self, node: f"{self.known[node.tuple_value]}.{node.index}",
    GlobalVar: lambda self, node: f"@{quoted(node.name)}",
    Constructor: lambda self, node: node.name if node.inputs else f"constructor({node.name})",
    Function: _FunctionPrinter._function,
    Call: _FunctionPrinter._call,
    If: _FunctionPrinter._if,
    Match: _FunctionPrinter._match,
    Let: _FunctionPrinter._nested_let,
    RefCreate: _FunctionPrinter._reference,
    RefRead: _FunctionPrinter._reference,
    RefWrite: _FunctionPrinter._reference,
}
