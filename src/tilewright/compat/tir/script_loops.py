"""Scripts read as the loops that they spell. Blocks are their statements, with what their axes stand for."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from tilewright import tir
from tilewright.compat.tir.lowering import lowered
from tilewright.compat.tir.script_tree import ScriptReader
from tilewright.tir import ir_builder, op
from tilewright.tir.buffer import Buffer
from tilewright.tir.ir_builder import BufferVar


class LoopReader(ScriptReader):
    """Emits the statements of a function one after the other."""

    def function(self) -> tir.PrimFunc:
        """The function, lowered."""
        self.builder = ir_builder.create()
        self.memory: list[Buffer] = []
        self.starts: list[Any] = []
        self.read_params(self._declare)
        self._read_all(self.tree.body)
        body = self.builder.get()
        for buffer in reversed(self.memory):
            body = tir.Allocate(buffer, body)
        params = [param.buffer if isinstance(param, BufferVar) else param for param in self.params]
        name = str(self.attrs.pop("global_symbol", self.tree.name))
        return lowered(tir.PrimFunc(name, params, body, {"noalias": bool(self.attrs.get("tir.noalias", True))}))

    def _declare(self, name: str, shape: Sequence[Any], dtype: str) -> BufferVar:
        return BufferVar(self.builder, Buffer(name, [op.convert(size) for size in shape], dtype))

    def allocated(self, made: Any, scope: str) -> None:
        """A buffer of the function's own, for all of it."""
        made.buffer = Buffer(made.buffer.name, made.buffer.shape, made.buffer.dtype, scope)
        self.memory.append(made.buffer)

    def _read_all(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            method = getattr(self, f"_read_{type(node).__name__}", None)
            if method is None:
                self.fail(node, f"{type(node).__name__} is not read")
            method(node)

    def _read_Pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def _read_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or self.word(node.value) in ("reads", "writes", "block_attr"):
            return
        if isinstance(node.value, ast.Call) and self.word(node.value) == "func_attr":
            self.attrs.update(self.value(node.value.args[0]))
        elif isinstance(node.value, ast.Call) and self.word(node.value) == "evaluate":
            self.builder.emit(op.convert(self.value(node.value.args[0])))
        elif isinstance(node.value, ast.Call) and self.word(node.value) == "where":
            self.fail(node, "T.where is read in functions whose blocks compute one buffer each")
        else:
            self.builder.emit(op.convert(self.value(node.value)))

    def _read_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            self.value(target.value)[self.value(target.slice)] = self.value(node.value)
        elif isinstance(node.value, ast.Call) and self.word(node.value).startswith("axis."):
            self._read_axes(target, node.value)
        elif isinstance(target, ast.Name):
            if not (isinstance(node.value, ast.Call) and self.read_declaration(target.id, node.value, self._declare)):
                self.names[target.id] = self.value(node.value)
        else:
            self.fail(node, "several values are assigned by T.axis.remap only")

    def _read_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.fail(node, "a variable is assigned when it is declared")
        self.names[node.target.id] = self.value(node.value)

    def _read_AugAssign(self, node: ast.AugAssign) -> None:
        reading = ast.parse(ast.unparse(node.target), mode="eval").body
        whole = ast.fix_missing_locations(ast.Assign([node.target], ast.BinOp(reading, node.op, node.value)))
        self._read_Assign(ast.copy_location(whole, node))

    def _read_axes(self, target: ast.expr, call: ast.Call) -> None:
        """Axes of a block: what they stand for, and which of them begin a reduction at 0."""
        letters, targets, values = self.axes_of(target, call)
        for letter, one, value in zip(letters, targets, [*map(self.value, values)], strict=True):
            if not isinstance(one, ast.Name):
                self.fail(target, "an axis has a name")
            self.names[one.id] = op.convert(value)
            if letter == "R":
                self.starts.append(op.convert(value) <= 0)

    def _read_With(self, node: ast.With) -> None:
        word = self.word(node.items[0].context_expr)
        if word == "block":
            outer, self.starts = self.starts, []
            self._read_all(node.body)
            self.starts = outer
        elif word == "init":
            with self.builder.if_scope(op.all(*self.starts)) if self.starts else nullcontext():
                self._read_all(node.body)
        else:
            self.fail(node, f"with {ast.unparse(node.items[0].context_expr)} is not read")

    def _read_If(self, node: ast.If) -> None:
        condition = self.value(node.test)
        if isinstance(condition, bool):
            self._read_all(node.body if condition else node.orelse)
            return
        with self.builder.if_scope(op.convert(condition)):
            self._read_all(node.body)
        if node.orelse:
            with self.builder.else_scope():
                self._read_all(node.orelse)

    def _read_For(self, node: ast.For) -> None:
        names, bounds, kind, _ = self.loop_of(node)
        if kind == "thread_binding":
            self.fail(node, "threads are bound by tir.Schedule.bind")
        with ExitStack() as stack:
            for name, (low, high) in zip(names, bounds, strict=True):
                self.names[name] = stack.enter_context(self.builder.for_range(low, high, name=name, kind=kind))
            self._read_all(node.body)
