"""Shared parts of both readers of scripts: expressions evaluated, parameters, and declarations of buffers."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tilewright import tir
from tilewright.compat.tir.script_words import BufferType, Scalar
from tilewright.errors import UnsupportedError
from tilewright.tir import op


def _joined(join: Callable[..., Any], plain: Callable[[Any], bool]) -> Callable[..., Any]:
    """`and` or `or`: of expressions the expression, of Python's own values the value."""

    def combine(*values: Any) -> Any:
        known = all(isinstance(value, bool | int) for value in values)
        return plain(values) if known else join(*[op.convert(value) for value in values])

    return combine


#: What stands for Python's `and`, `or` and `not` while a text is evaluated.
_CONDITIONS: dict[str, Any] = {
    "__all__": _joined(op.all, all),
    "__any__": _joined(op.any, any),
    "__not__": lambda value: not value if isinstance(value, bool) else op.logical_not(op.convert(value)),
}


class _Conditions(ast.NodeTransformer):
    """Calls instead of `and`, `or` and `not`, which Python decides by truth values."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """All, or any, of the parts."""
        self.generic_visit(node)
        name = "__all__" if isinstance(node.op, ast.And) else "__any__"
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), node.values, []), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """The opposite."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.copy_location(ast.Call(ast.Name("__not__", ast.Load()), [node.operand], []), node)


class ScriptReader:
    """Walks the statements of one function; `visit_NAME` of a reader reads a statement of that class."""

    def __init__(self, tree: ast.FunctionDef, names: Mapping[str, Any]) -> None:
        self.tree = tree
        self.outside = dict(names)
        self.names: dict[str, Any] = {}
        self.handles: list[str] = []
        self.params: list[Any] = []
        self.attrs: dict[str, Any] = {}

    def fail(self, node: ast.AST, why: str) -> NoReturn:
        """Raise `UnsupportedError` that names the line."""
        raise UnsupportedError(f"{self.tree.name}, line {getattr(node, 'lineno', '?')}: {why}")

    def value(self, node: ast.AST) -> Any:
        """The value of an expression of the text, over buffers and variables."""
        whole = ast.fix_missing_locations(ast.Expression(_Conditions().visit(copy.deepcopy(node))))
        code = compile(whole, self.tree.name, "eval")
        return eval(code, {**self.outside, **self.names, **_CONDITIONS})  # the program's own text

    def word(self, node: ast.AST) -> str:
        """The word that a call of `T` says: "grid", "axis.remap"; "" for what is none."""
        if isinstance(node, ast.Call):
            return self.word(node.func)
        if isinstance(node, ast.Attribute):
            inner = self.word(node.value)
            return f"{inner}.{node.attr}" if inner and inner != "T" else node.attr if inner == "T" else ""
        return "T" if isinstance(node, ast.Name) and type(self.outside.get(node.id)).__name__ == "Words" else ""

    def axes_of(self, target: ast.expr, call: ast.Call) -> tuple[str, list[ast.expr], list[ast.expr]]:
        """The axes that an assignment of `T.axis` declares: a letter for each, "R" of a reduction, names and values."""
        kind = self.word(call).removeprefix("axis.")
        if kind != "remap":
            return "R" if kind in ("reduce", "R") else "S", [target], [call.args[-1]]
        targets, values = [
            one.elts if isinstance(one, ast.Tuple | ast.List) else [one] for one in (target, call.args[1])
        ]
        return self.value(call.args[0]), targets, values

    def arguments(self, node: ast.Call, *order: str) -> dict[str, Any]:
        """The arguments of a call by name, where the positional ones have the names `order`."""
        found = {name: self.value(arg) for name, arg in zip(order, node.args)}
        return found | {word.arg: self.value(word.value) for word in node.keywords if word.arg}

    def read_params(self, declare: Callable[[str, Sequence[Any], str], Any]) -> None:
        """The parameters: buffers by their types, scalars, and handles, which `match_buffer` makes buffers."""
        for arg in self.tree.args.args:
            kind = self.value(arg.annotation) if arg.annotation is not None else None
            if isinstance(kind, BufferType):
                self.names[arg.arg] = declare(arg.arg, kind.shape, kind.dtype)
                self.params.append(self.names[arg.arg])
            elif isinstance(kind, Scalar) and kind.dtype != "handle":
                self.names[arg.arg] = tir.Var(arg.arg, kind.dtype)
                self.params.append(self.names[arg.arg])
            else:
                self.handles.append(arg.arg)
                self.params.append(arg.arg)

    def read_declaration(self, name: str, node: ast.Call, declare: Callable[[str, Sequence[Any], str], Any]) -> bool:
        """Read `name = T.match_buffer(…)` or `T.alloc_buffer(…)`; False for another call."""
        word = self.word(node)
        if word == "match_buffer":
            if not isinstance(node.args[0], ast.Name) or node.args[0].id not in self.handles:
                self.fail(node, "match_buffer is of a parameter here")
            rest = ast.Call(node.func, node.args[1:], node.keywords)
            given = self.arguments(rest, "shape", "dtype")
            made = declare(name, self._shape(given["shape"]), given.get("dtype", "float32"))
            self.params[self.params.index(node.args[0].id)] = made
        elif word in ("alloc_buffer", "sblock_alloc_buffer"):
            given = self.arguments(node, "shape", "dtype")
            made = declare(name, self._shape(given["shape"]), given.get("dtype", "float32"))
            self.allocated(made, given.get("scope", "global"))
        else:
            return False
        self.names[name] = made
        return True

    @staticmethod
    def _shape(given: Any) -> tuple[Any, ...]:
        return tuple(given) if isinstance(given, Sequence) else (given,)

    def allocated(self, made: Any, scope: str) -> None:
        """A buffer of the function's own."""

    def loop_of(self, node: ast.For) -> tuple[list[str], list[tuple[Any, Any]], str, str]:
        """The names of a loop's variables, their bounds, how it runs and on which threads."""
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        call = node.iter
        if not isinstance(call, ast.Call):
            self.fail(node, "a loop runs over range or one of T.grid, T.serial, T.parallel, T.vectorized, T.unroll")
        word = self.word(call) or ("serial" if isinstance(call.func, ast.Name) and call.func.id == "range" else "")
        bounds = [self.value(arg) for arg in call.args]
        options = {item.arg: self.value(item.value) for item in call.keywords}
        if word == "grid":
            return names, [(0, extent) for extent in bounds], "serial", ""
        if word not in ("serial", "parallel", "vectorized", "unroll", "thread_binding"):
            self.fail(node, f"no loop over {ast.unparse(call.func)} is read")
        low, high = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        return names, [(low, high)], {"unroll": "unrolled"}.get(word, word), str(options.get("thread", ""))

    @staticmethod
    def block_name(node: ast.Call) -> str:
        """The name passed to `T.block`, or ""."""
        return str(node.args[0].value) if node.args and isinstance(node.args[0], ast.Constant) else ""
