"""Scripts read as tensor expressions: each block one buffer, computed element by element or as a reduction."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te, tir
from tilewright.compat.te.tensor_function import TensorFunction
from tilewright.compat.tir.script_tree import ScriptReader
from tilewright.errors import TilewrightError
from tilewright.te.rewrite import BodyRewriter
from tilewright.tir import op
from tilewright.tir.structural import structural_equal


class NotTensors(Exception):
    """The function is no tensor expression."""


@dataclass(eq=False)
class _Buffer:
    """A buffer of the text: a tensor as soon as it is known whether it is given or computed."""

    reader: BlockReader
    name: str
    shape: tuple[Any, ...]
    dtype: str
    tensor: te.Tensor | None = None

    def __getitem__(self, indices: Any) -> Any:
        positions = tuple(op.convert(i) for i in (indices if isinstance(indices, tuple) else (indices,)))
        if self is self.reader.target:
            self.reader.own_reads.append(positions)
            return self.reader.itself
        if self.tensor is None:
            if self not in self.reader.params:
                raise NotTensors
            self.tensor = te.placeholder(self.shape, self.dtype, self.name)
        return self.tensor(*positions)


@dataclass
class _Axis:
    var: tir.Var
    extent: Any
    reduces: bool


class BlockReader(ScriptReader):
    """Makes a computation of each block, in order."""

    target: _Buffer | None = None
    itself: tir.Var

    def function(self) -> TensorFunction:
        """The function. Raises `NotTensors` where it is none of tensors."""
        self.own_reads: list[tuple[Any, ...]] = []
        self.loops: dict[str, tuple[tir.Var, Any]] = {}
        self.read_params(self._declare)
        self._statements(self.tree.body)
        arguments = []
        for param in self.params:
            if isinstance(param, _Buffer) and param.tensor is None:
                param.tensor = te.placeholder(param.shape, param.dtype, param.name)
            arguments.append(param.tensor if isinstance(param, _Buffer) else param)
        name = str(self.attrs.pop("global_symbol", self.tree.name))
        try:
            return TensorFunction(name, arguments)
        except TilewrightError:
            raise NotTensors from None

    def _declare(self, name: str, shape: Sequence[Any], dtype: str) -> _Buffer:
        return _Buffer(self, name, tuple(shape), dtype)

    def allocated(self, made: Any, scope: str) -> None:
        """A buffer of the function's own: where it is kept is for the schedule to say."""
        if scope != "global":
            raise NotTensors

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.Expr):
                self._expression(node.value)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if not (isinstance(node.value, ast.Call) and self.read_declaration(name, node.value, self._declare)):
                    self.names[name] = self.value(node.value)
            elif isinstance(node, ast.For):
                self._loop(node)
            elif isinstance(node, ast.With) and self.word(node.items[0].context_expr) == "block":
                self._block(node)
            else:
                raise NotTensors

    def _expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call) and self.word(node) == "func_attr":
            self.attrs.update(self.value(node.args[0]))
        elif not isinstance(node, ast.Constant):
            raise NotTensors

    def _loop(self, node: ast.For) -> None:
        names, bounds, kind, _ = self.loop_of(node)
        if kind != "serial" or any(isinstance(low, tir.Expr) or low != 0 for low, _ in bounds):
            raise NotTensors
        for name, (_, extent) in zip(names, bounds, strict=True):
            self.names[name] = tir.Var(name)
            self.loops[name] = (self.names[name], extent)
        self._statements(node.body)

    # --------------------------------------------------------------------------------------------------------- blocks
    def _block(self, node: ast.With) -> None:
        call = node.items[0].context_expr
        assert isinstance(call, ast.Call)
        axes: list[_Axis] = []
        start: ast.Assign | None = None
        store: ast.stmt | None = None
        for one in node.body:
            if isinstance(one, ast.Expr) and self.word(one.value) in ("reads", "writes"):
                continue
            if isinstance(one, ast.Assign) and self.word(one.value).startswith("axis."):
                axes += self._axes(one)
            elif isinstance(one, ast.With) and self.word(one.items[0].context_expr) == "init" and start is None:
                if len(one.body) != 1 or not isinstance(one.body[0], ast.Assign):
                    raise NotTensors
                start = one.body[0]
            elif isinstance(one, ast.Assign | ast.AugAssign) and store is None:
                store = one
            else:
                raise NotTensors
        if store is None:
            raise NotTensors
        self._compute(self.block_name(call), axes, store, start)

    def _axes(self, node: ast.Assign) -> list[_Axis]:
        """Axes that each stand for a loop of their own."""
        assert isinstance(node.value, ast.Call)
        made = []
        for letter, name, loop in zip(*self.axes_of(node.targets[0], node.value), strict=True):
            if not isinstance(name, ast.Name) or not isinstance(loop, ast.Name) or loop.id not in self.loops:
                raise NotTensors
            var = tir.Var(name.id)
            self.names[name.id] = var
            made.append(_Axis(var, self.loops[loop.id][1], letter == "R"))
        return made

    def _compute(self, name: str, axes: list[_Axis], store: ast.stmt, start: ast.Assign | None) -> None:
        assert isinstance(store, ast.Assign | ast.AugAssign)
        position = store.targets[0] if isinstance(store, ast.Assign) else store.target
        if not isinstance(position, ast.Subscript):
            raise NotTensors
        buffer = self.value(position.value)
        indices = self.value(position.slice)
        indices = indices if isinstance(indices, tuple) else (indices,)
        data = [axis for axis in axes if not axis.reduces]
        if not isinstance(buffer, _Buffer) or buffer.tensor is not None or {*indices} != {axis.var for axis in data}:
            raise NotTensors
        self.target, self.own_reads, self.itself = buffer, [], tir.Var("itself", buffer.dtype)
        value = op.convert(self.value(store.value), buffer.dtype)
        if isinstance(store, ast.AugAssign):
            if not isinstance(store.op, ast.Add):
                raise NotTensors
            self.own_reads.append(tuple(indices))
            value = self.itself + value
        self.target = None
        reduced = [axis for axis in axes if axis.reduces]
        if bool(reduced) != (start is not None) or bool(reduced) != bool(self.own_reads):
            raise NotTensors
        if any([*read] != [*indices] for read in self.own_reads):
            raise NotTensors
        first = None if start is None else op.convert(self.value(start.value), buffer.dtype)
        buffer.tensor = self._tensor(name or buffer.name, buffer, (indices, reduced), value, first)

    def _tensor(self, name: str, buffer: _Buffer, where: Any, value: tir.Expr, first: Any) -> te.Tensor:
        indices, reduced = where
        inner = {axis.var: te.reduce_axis((0, axis.extent), axis.var.name) for axis in reduced}

        def element(*positions: Any) -> Any:
            values: Mapping[Any, Any] = dict(zip(indices, positions, strict=True)) | {
                v: k.var for v, k in inner.items()
            }
            if not reduced:
                return BodyRewriter(values)(value)
            reducer, source = self._combined(value)
            plain = reducer(BodyRewriter(values)(source), axis=list(inner.values()))
            if structural_equal(plain.combiner.identity[0], first):
                return plain
            return reducer(BodyRewriter(values)(source), axis=list(inner.values()), init=first)

        made: te.Tensor = te.compute(buffer.shape, element, name=name)
        return made

    def _combined(self, value: tir.Expr) -> tuple[Any, tir.Expr]:
        """The reduction that "itself and something" is, and the something."""
        for cls, reducer in ((tir.Add, te.sum), (tir.Max, te.max), (tir.Min, te.min), (tir.Mul, te.prod)):
            if isinstance(value, cls) and self.itself in (value.a, value.b):
                return reducer, value.b if value.a is self.itself else value.a
        raise NotTensors
