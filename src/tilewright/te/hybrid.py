"""Hybrid functions: tensors computed by plain Python loops, which are read from the function's source.

    @te.hybrid.script
    def outer(a, b):
        c = output_tensor((a.shape[0], b.shape[0]), "float32")
        for i in range(a.shape[0]):
            for j in parallel(b.shape[0]):
                c[i, j] = a[i] * b[j]
        return c

    C = outer(A, B)         # tensors: an extern operation of the graph
    c = outer(x, y)         # NumPy arrays: the function runs in Python, for looking at it with a debugger

The language: assignments to elements and to scalars, `for` over `range`, `parallel`, `vectorize`, `unroll`, `while`,
`if`, conditional expressions, arithmetic, comparisons, the functions below, `output_tensor(shape, dtype)`,
`allocate(shape, dtype, scope)`, and one `return` at the end. Names from outside stand for Python numbers and tuples.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import ScheduleError
from tilewright.te.extern import ExternOp
from tilewright.te.tensor import Tensor
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr
from tilewright.tir.ir_builder import BufferVar, IRBuilder
from tilewright.tir.position import Position
from tilewright.tir.stmt import Allocate, Stmt
from tilewright.tir.visitor import collect

_LOOPS = {
    "range": "serial",
    "serial": "serial",
    "const_range": "unrolled",
    "unroll": "unrolled",
    "vectorize": "vectorized",
    "parallel": "parallel",
}
_CASTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {  # in a graph, and in Python
    "exp": (op.exp, np.exp),
    "log": (op.log, np.log),
    "sqrt": (op.sqrt, np.sqrt),
    "rsqrt": (op.rsqrt, lambda x: 1 / np.sqrt(x)),
    "tanh": (op.tanh, np.tanh),
    "sigmoid": (op.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "erf": (op.erf, math.erf),
    "power": (op.power, np.power),
    "floor": (op.floor, np.floor),
    "ceil": (op.ceil, np.ceil),
    "round": (op.round, np.rint),
    "abs": (op.abs, builtins.abs),
    "max": (lambda *x: functools.reduce(op.maximum, x), builtins.max),
    "min": (lambda *x: functools.reduce(op.minimum, x), builtins.min),
    "popcount": (lambda x: op.call_intrin(x.dtype, "popcount", x), lambda x: int(x).bit_count()),
    "likely": (op.likely, lambda x: x),
    **{name: (functools.partial(op.cast, name), getattr(np, name)) for name in _CASTS},
}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b if not isinstance(a, Expr) and not isinstance(b, Expr) else op.power(a, b),
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: op.eq(a, b) if isinstance(a, Expr) or isinstance(b, Expr) else a == b,
    ast.NotEq: lambda a, b: op.ne(a, b) if isinstance(a, Expr) or isinstance(b, Expr) else a != b,
}


def script(function: Callable[..., Any]) -> Callable[..., Any]:
    """A hybrid function from a Python one; see the module for what it may contain.

    Called with tensors (and numbers), it returns the output tensor, or a list of several; called with arrays, it runs
    in Python. Raises ScheduleError naming the line for what the language does not have.
    """

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if any(isinstance(a, Tensor) for a in args):
            return _Translator(function, args).result()
        return _run_in_python(function, args)

    return call


def _run_in_python(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The function as it stands, with the names of the language defined."""
    names = {name: python for name, (_, python) in _FUNCTIONS.items()} | dict.fromkeys(_LOOPS, range)
    names["output_tensor"] = names["allocate"] = lambda shape, dtype, scope="global": np.zeros(shape, dtype)
    closure = inspect.getclosurevars(function)
    scope = {**names, **closure.globals, **closure.nonlocals}
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition: Any = tree.body[0]
    definition.decorator_list = []
    exec(compile(tree, inspect.getsourcefile(function) or "hybrid", "exec"), scope)
    return scope[function.__name__](*args)


class _Translator(ast.NodeVisitor):
    """Runs over the source once, building loop IR: expressions return values, statements emit."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any]) -> None:
        self.name = function.__name__
        source, self.first_line = inspect.getsourcelines(function)
        self.file = inspect.getsourcefile(function) or ""
        definition: Any = ast.parse(textwrap.dedent("".join(source))).body[0]
        self.tree = definition
        closure = inspect.getclosurevars(function)
        self.outside = {**closure.builtins, **closure.globals, **closure.nonlocals}
        self.builder = IRBuilder()
        self.names: dict[str, Any] = {}
        self.scalars: dict[str, BufferVar] = {}
        self.declared: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.returned: list[Buffer] | None = None
        parameters = [a.arg for a in self.tree.args.args]
        if len(parameters) != len(args):
            raise ScheduleError(f"{self.name} takes {len(parameters)} arguments; got {len(args)}")
        self.inputs: list[tuple[Tensor, Buffer]] = []
        for name, value in zip(parameters, args, strict=True):
            if isinstance(value, Tensor):
                buffer = Buffer(name, value.shape, value.dtype)
                self.inputs.append((value, buffer))
                self.names[name] = BufferVar(self.builder, buffer)
            else:
                self.names[name] = value

    def result(self) -> Any:
        """The operation's outputs."""
        for statement in self.tree.body:
            self.visit(statement)
        if not self.returned:
            raise ScheduleError(f"{self.name}: a hybrid function returns its output_tensor at the end")
        body: Stmt = self.builder.get()
        for buffer in self.declared:
            body = Allocate(buffer, body)
        inputs, buffers = [t for t, _ in self.inputs], [b for _, b in self.inputs]
        op_ = ExternOp(self.name, inputs, buffers, self.returned, body, position=self.position(self.tree))
        return op_.outputs[0] if len(op_.outputs) == 1 else list(op_.outputs)

    def position(self, node: ast.AST) -> Position:
        """The position of `node` in the file."""
        return Position(self.file, self.first_line + getattr(node, "lineno", 1) - 1)

    def visit(self, node: ast.AST) -> Any:
        """The meaning of a node; a statement's loop IR gets its line."""
        if isinstance(node, ast.stmt):
            self.builder.position = self.position(node)
        return super().visit(node)

    def fail(self, node: ast.AST, why: str) -> ScheduleError:
        """The error that `why`, at the line of `node`."""
        line = self.position(node).line
        return ScheduleError(f"{self.name}, line {line}: {why}: {ast.unparse(node).splitlines()[0]}")

    def generic_visit(self, node: ast.AST) -> Any:
        """Refuse a node that the language does not have."""
        raise self.fail(node, f"a hybrid function has no {type(node).__name__}")

    # -------------------------------------------------------------------------------------------- statements
    def visit_Pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def visit_Expr(self, node: ast.Expr) -> None:
        """A docstring; other expressions have no effect."""
        if not isinstance(node.value, ast.Constant):
            raise self.fail(node, "an expression without effect")

    def visit_Assign(self, node: ast.Assign) -> None:
        """An element stored, a buffer made, or a scalar set."""
        if len(node.targets) != 1:
            raise self.fail(node, "several targets of one assignment")
        self._store(node, node.targets[0], self.visit(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """An element or scalar updated."""
        load: Any = ast.parse(ast.unparse(node.target), mode="eval").body
        ast.copy_location(load, node)
        self._store(node, node.target, self._binary(node, node.op, self.visit(load), self.visit(node.value)))

    def _store(self, node: ast.AST, target: ast.AST, value: Any) -> None:
        if isinstance(target, ast.Subscript):
            buffer = self.visit(target.value)
            if not isinstance(buffer, BufferVar):
                raise self.fail(node, "only elements of tensors can be assigned")
            if any(buffer.buffer is b for _, b in self.inputs):
                raise self.fail(node, "an input cannot be assigned to")
            buffer[self.visit(target.slice)] = value
        elif not isinstance(target, ast.Name):
            raise self.fail(node, "an assignment is to a name or an element")
        elif isinstance(value, (BufferVar, tuple)) or self._is_fixed(target.id, value):
            self.names[target.id] = value
        else:
            self._set_scalar(node, target.id, value)

    def _is_fixed(self, name: str, value: Any) -> bool:
        """True if a name stands for one value that no memory has a part in, such as an extent or an index."""
        stores = [n for n in ast.walk(self.tree) if isinstance(n, ast.Name) and n.id == name]
        once = sum(isinstance(n.ctx, ast.Store) for n in stores) == 1
        return once and not (isinstance(value, Expr) and collect(value, BufferLoad))

    def _set_scalar(self, node: ast.AST, name: str, value: Any) -> None:
        """A scalar is a buffer of one element, so that it can be assigned again and in loops."""
        held = op.convert(value)
        scalar = self.scalars.get(name)
        if scalar is None:
            buffer = Buffer(name, [1], held.dtype, "local")
            self.declared.append(buffer)
            scalar = self.scalars[name] = BufferVar(self.builder, buffer)
            self.names.pop(name, None)
        if held.dtype is not scalar.dtype and not isinstance(value, (int, float)):
            raise self.fail(node, f"{name} is {scalar.dtype} and cannot become {held.dtype}; cast it")
        scalar[0] = value

    def visit_For(self, node: ast.For) -> None:
        """A loop over a range, of the kind that the range says."""
        call = node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _LOOPS):
            raise self.fail(node, f"a loop runs over one of {', '.join(_LOOPS)}")
        if not isinstance(node.target, ast.Name) or node.orelse or not 1 <= len(call.args) <= 2:
            raise self.fail(node, "a loop has one variable, one or two bounds and no else")
        low, high = [0, *map(self.visit, call.args)][-2:]
        with self.builder.for_range(low, high, name=node.target.id, kind=_LOOPS[call.func.id]) as variable:
            hidden = self.names.get(node.target.id)
            self.names[node.target.id] = variable
            for statement in node.body:
                self.visit(statement)
        self.names[node.target.id] = hidden

    def visit_While(self, node: ast.While) -> None:
        """A loop while a condition holds."""
        with self.builder.while_loop(self.visit(node.test)):
            for statement in node.body:
                self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        """A branch; of a condition known while translating only the side taken."""
        condition = self.visit(node.test)
        if not isinstance(condition, Expr):
            for statement in node.body if condition else node.orelse:
                self.visit(statement)
            return
        with self.builder.if_scope(condition):
            for statement in node.body:
                self.visit(statement)
        if node.orelse:
            with self.builder.else_scope():
                for statement in node.orelse:
                    self.visit(statement)

    def visit_Return(self, node: ast.Return) -> None:
        """The outputs."""
        if node is not self.tree.body[-1]:
            raise self.fail(node, "return must be the last statement")
        value = self.visit(node.value) if node.value is not None else ()
        values = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(v, BufferVar) and v.buffer in self.outputs for v in values):
            raise self.fail(node, "return takes what output_tensor made")
        self.returned = [v.buffer for v in values]

    # ------------------------------------------------------------------------------------------- expressions
    def visit_Constant(self, node: ast.Constant) -> Any:
        """A number or a string."""
        return node.value

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        """Several values."""
        return tuple(self.visit(item) for item in node.elts)

    def visit_Name(self, node: ast.Name) -> Any:
        """A variable of the function or a value from outside."""
        if node.id in self.scalars:
            return self.scalars[node.id][0]
        value = self.names.get(node.id, self.outside.get(node.id))
        if value is None:
            raise self.fail(node, "nothing of this name")
        return value

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """`shape` and `dtype` of a tensor."""
        value = self.visit(node.value)
        if isinstance(value, BufferVar) and node.attr in ("shape", "dtype"):
            return getattr(value.buffer, node.attr)
        raise self.fail(node, "the attributes are shape and dtype of tensors")

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """An element, or an extent of a shape."""
        return self.visit(node.value)[self.visit(node.slice)]

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """Arithmetic."""
        return self._binary(node, node.op, self.visit(node.left), self.visit(node.right))

    def _binary(self, node: ast.AST, operator: ast.AST, a: Any, b: Any) -> Any:
        rule = _BINARY.get(type(operator))
        if rule is None:
            raise self.fail(node, f"a hybrid function has no {type(operator).__name__}")
        return rule(a, b)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """A sign or a negation."""
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return op.logical_not(value) if isinstance(value, Expr) else not value
        return -value if isinstance(node.op, ast.USub) else value

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Comparisons, also chained."""
        values = [self.visit(x) for x in (node.left, *node.comparators)]
        tests = []
        for a, operator, b in zip(values, node.ops, values[1:]):
            rule = _COMPARE.get(type(operator))
            if rule is None:
                raise self.fail(node, f"a hybrid function has no {type(operator).__name__}")
            tests.append(rule(a, b))
        return _all(tests)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """And, or."""
        values = [self.visit(x) for x in node.values]
        if isinstance(node.op, ast.And):
            return _all(values)
        return op.any(*values) if any(isinstance(v, Expr) for v in values) else any(values)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """One of two values; only the one taken is evaluated."""
        condition = self.visit(node.test)
        if not isinstance(condition, Expr):
            return self.visit(node.body if condition else node.orelse)
        a, b = op.match(self.visit(node.body), self.visit(node.orelse))
        return op.if_then_else(condition, a, b)

    def visit_Call(self, node: ast.Call) -> Any:
        """A function of the language."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        args = [self.visit(a) for a in node.args] + [self.visit(k.value) for k in node.keywords]
        if name in ("output_tensor", "allocate"):
            return self._make(node, name, *args)
        if name == "len":
            return len(args[0])
        if name in _FUNCTIONS:
            return _FUNCTIONS[name][0](*args)
        raise self.fail(node, f"the functions are {', '.join(_FUNCTIONS)}, len, output_tensor and allocate")

    def _make(self, node: ast.Call, kind: str, shape: Any, dtype: Any, scope: str = "global") -> BufferVar:
        sizes = shape if isinstance(shape, tuple) else (shape,)
        buffer = Buffer(f"{kind}{len(self.outputs) + len(self.declared)}", sizes, str(dtype), scope)
        (self.outputs if kind == "output_tensor" else self.declared).append(buffer)
        return BufferVar(self.builder, buffer)


def _all(values: Sequence[Any]) -> Any:
    return op.all(*values) if any(isinstance(v, Expr) for v in values) else all(values)
