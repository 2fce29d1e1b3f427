"""Relay as text, in the classic style: a line per call, numbered in order of evaluation, the result last.

    def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 3), float32] {
      %0 = nn.dense(%x, const<float32[3, 4]>, units=3);
      nn.relu(%0)
    }

Scalar constants are written out (`2f`), larger ones as `const<dtype[shape]>`; a field of a tuple reads `%3.0`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.relay.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from tilewright.relay.expr import (
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
from tilewright.relay.module import IRModule
from tilewright.relay.type import TypeData
from tilewright.relay.visitor import children

_SUFFIX = {"float32": "f", "float64": "f64", "int64": "i64", "float16": "f16"}


def to_text(node: IRModule | Expr, types: bool = False, spans: bool = False) -> str:
    """`node` as text, the same from run to run.

    `types` adds the inferred type and `spans` the source node names of each call as a comment.
    """
    if isinstance(node, IRModule):
        parts = [_type_data_text(data) for data in node.type_definitions.values()]
        parts += [_Printer(types, spans).function(func, f"def @{gvar.name}") for gvar, func in node.functions.items()]
        return "\n\n".join(parts) + "\n"
    if isinstance(node, Function):
        return _Printer(types, spans).function(node, "fn ")
    if isinstance(node, GlobalVar):
        return f"@{node.name}"
    return "\n".join(_Printer(types, spans).block(node, {}))


def attr_text(value: Any) -> str:
    """An attribute's value in the classic spelling: lists in brackets, strings in double quotes."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(attr_text, value))}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, float):
        return f"{value!r}f"
    return str(value)


class _Printer:
    """Names and numbers given out so far; shared by a function and the functions nested in it."""

    def __init__(self, types: bool, spans: bool) -> None:
        self.types = types
        self.spans = spans
        self.names: dict[Var, str] = {}
        self.taken: set[str] = set()
        self.counter = 0

    def function(self, func: Function, head: str) -> str:
        """The whole function: parameters and attributes, then its body, indented."""
        params = []
        for param in func.params:
            type_ = param.type_annotation or param.inferred_type
            params.append(self.name(param) + (f": {type_}" if type_ is not None else ""))
        attrs = [f"{key}={attr_text(value)}" for key, value in func.attrs.items()]
        result = f" -> {func.func_type.ret_type}" if func.inferred_type is not None else ""
        body = [f"  {line}" for line in self.block(func.body, {})]
        if func.type_params:
            head += f"[{', '.join(map(str, func.type_params))}]"
        return "\n".join([f"{head}({', '.join(params + attrs)}){result} {{", *body, "}"])

    def block(self, root: Expr, known: dict[Expr, str]) -> list[str]:
        """The lines of a block that evaluates `root`; `known` has the texts of values computed outside it."""
        lines: list[str] = []
        last: tuple[Expr, str] | None = None
        stack: list[tuple[Expr, int]] = [(root, 0)]
        while stack:
            node, visits = stack.pop()
            if node in known:
                continue
            if visits == 0:
                stack.append((node, 1))
                stack.extend([(kid, 0) for kid in reversed(_operands(node))])
            elif isinstance(node, Let):
                if visits == 1:
                    lines.append(f"let {self.name(node.var)} = {known[node.value]};")
                    stack += [(node, 2), (node.body, 0)]
                else:
                    known[node] = known[node.body]
            elif isinstance(node, _LINES):
                last = (node, self._definition(node, known))
                known[node] = f"%{self.counter}"
                self.counter += 1
                lines += f"{known[node]} = {last[1]};{self._comment(node)}".split("\n")
            else:
                known[node] = _ATOMS[type(node)](self, node, known)
        while isinstance(root, Let):
            root = root.body
        if last is not None and last[0] is root:
            text = last[1].split("\n")
            return [*lines[: len(lines) - len(text)], *text[:-1], text[-1] + self._comment(root)]
        return [*lines, known[root]]

    def name(self, var: Var) -> str:
        """`%name`, with a number behind it if another variable has the name already."""
        if var not in self.names:
            unique, number = var.name, 0
            while unique in self.taken:
                number += 1
                unique = f"{var.name}_{number}"
            self.taken.add(unique)
            self.names[var] = f"%{unique}"
        return self.names[var]

    def _definition(self, node: Expr, known: dict[Expr, str]) -> str:
        if isinstance(node, If):
            true, false = [self._indented(branch, known) for branch in children(node)[1:]]
            return f"if ({known[node.cond]}) {{\n{true}\n}} else {{\n{false}\n}}"
        if isinstance(node, Match):
            head = f"match{'' if node.complete else '?'} ({known[node.data]}) {{"
            clauses = [
                f"  {self._pattern(clause.lhs)} => {{\n{_indent(self._indented(clause.rhs, known))}\n  }},"
                for clause in node.clauses
            ]
            return "\n".join([head, *clauses, "}"])
        if not isinstance(node, Call):
            operands = ", ".join([known[kid] for kid in children(node)])
            return f"{_REFERENCES[type(node)]}({operands})"
        args = [known[arg] for arg in node.args]
        attrs = [f"{key}={attr_text(value)}" for key, value in node.attrs.items()]
        return f"{self._callee(node.op, known)}({', '.join(args + attrs)})"

    def _indented(self, root: Expr, known: dict[Expr, str]) -> str:
        return _indent("\n".join(self.block(root, dict(known))))

    def _pattern(self, pattern: Pattern) -> str:
        if isinstance(pattern, PatternVar):
            type_ = pattern.var.type_annotation
            return self.name(pattern.var) + (f": {type_}" if type_ is not None else "")
        if isinstance(pattern, PatternConstructor):
            inner = ", ".join(map(self._pattern, pattern.patterns))
            return f"{pattern.constructor.name}({inner})" if inner else pattern.constructor.name
        if isinstance(pattern, PatternTuple):
            return f"({', '.join(map(self._pattern, pattern.patterns))}{',' if len(pattern.patterns) == 1 else ''})"
        return "_"

    def _callee(self, op: Any, known: dict[Expr, str]) -> str:
        if op in known:
            return f"({known[op]})" if isinstance(op, Function) else known[op]
        if isinstance(op, Function):
            return self.function(op, "fn ")
        return f"@{op.name}" if isinstance(op, GlobalVar) else str(op.name)

    def _comment(self, node: Expr) -> str:
        parts = []
        if self.types and node.inferred_type is not None:
            parts.append(f"ty={node.inferred_type}")
        if self.spans and isinstance(node, Call) and node.span:
            parts.append(f"span={node.span}")
        return f" /* {' '.join(parts)} */" if parts else ""


def _operands(node: Expr) -> tuple[Expr, ...]:
    """The operands whose text stands before that of `node`; the rest opens blocks of its own."""
    if isinstance(node, Function):
        return ()
    return children(node)[:1] if isinstance(node, Let | If | Match) else children(node)


def _indent(text: str) -> str:
    return "\n".join([f"  {line}" for line in text.split("\n")])


def _type_data_text(data: TypeData) -> str:
    lines = [c.name + (f"({', '.join(map(str, c.inputs))})" if c.inputs else "") for c in data.constructors]
    return "\n".join([f"{data} {{", *[f"  {line}," for line in lines], "}"])


def _constant_text(node: Constant) -> str:
    dtype = node.tensor_type.dtype
    if node.data.ndim:
        return f"const<{dtype}{list(node.data.shape)}>"
    if dtype.is_bool:
        return str(bool(node.data))
    if dtype.is_float:
        return f"{float(node.data):.9g}{_SUFFIX.get(dtype, dtype)}"
    return f"{int(node.data)}{_SUFFIX.get(dtype, '' if dtype == 'int32' else dtype)}"


def _tuple_text(node: Tuple, known: dict[Expr, str]) -> str:
    return f"({', '.join(known[field] for field in node.fields)}{',' if len(node.fields) == 1 else ''})"


_REFERENCES = {RefCreate: "ref", RefRead: "ref_read", RefWrite: "ref_write"}

#: What gets a line and a number of its own; the rest is written where it is used.
_LINES = (Call, If, Match, RefCreate, RefRead, RefWrite)

_ATOMS: dict[type, Callable[..., str]] = {
    Var: lambda printer, node, known: printer.name(node),
    Constant: lambda printer, node, known: _constant_text(node),
    Tuple: lambda printer, node, known: _tuple_text(node, known),
    TupleGetItem: lambda printer, node, known: f"{known[node.tuple_value]}.{node.index}",
    GlobalVar: lambda printer, node, known: f"@{node.name}",
    Constructor: lambda printer, node, known: node.name,
    Function: lambda printer, node, known: printer.function(node, "fn "),
}
