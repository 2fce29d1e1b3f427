"""Structural equality and hashing of loop IR: programs are the same if only names of what they bind differ.

Both are built on one canonical text: nodes are numbered in the order of a walk, and variables, buffers and tensors are
numbered where they are first met. The hash is the same in every process, so it may key a disk cache.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from enum import Enum
from typing import Any

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import stmt as s
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.node import Node

_BINDERS = (s.For, s.LetStmt, e.Let)  # bind the variable in their field `var`


def structural_equal(a: Any, b: Any) -> bool:
    """True if `a` and `b` (expressions, statements or functions) differ at most in the names of what they bind.

    Variables and buffers that are bound by neither must be the same objects.
    """
    return a is b or _Canonical(free_by_identity=True).text(a) == _Canonical(free_by_identity=True).text(b)


def structural_hash(node: Any) -> str:
    """64 hex digits, equal for structurally equal nodes and in every process. Free variables count by name and dtype.

    The name of a function is left out, its attributes are not.
    """
    return hashlib.sha256("\n".join(_Canonical(free_by_identity=False).text(node)).encode()).hexdigest()


class _Canonical:
    """Writes a node as lines, one a node, children as line numbers."""

    def __init__(self, free_by_identity: bool) -> None:
        self.free_by_identity = free_by_identity
        self.lines: list[str] = []
        self._numbers: dict[Any, str] = {}
        self._count = 0
        self._memo: dict[Expr, str] = {}

    def text(self, node: Any) -> list[str]:
        """The lines of `node`."""
        if isinstance(node, s.PrimFunc):
            self._function(node)
        else:
            self._value(node)
        return self.lines

    def _function(self, func: s.PrimFunc) -> None:
        for param in func.params:
            self.lines.append(self._buffer(param) if isinstance(param, Buffer) else self._bind(param))
        for key in sorted(func.attrs):
            self.lines.append(f"{key}={self._value(func.attrs[key])}")
        self._value(func.body)

    def _emit(self, line: str) -> str:
        self.lines.append(line)
        return f"#{len(self.lines)}"

    def _number(self, thing: Any, letter: str) -> str:
        self._count += 1
        self._numbers[thing] = f"{letter}{self._count}"
        return self._numbers[thing]

    def _bind(self, var: Var) -> str:
        """A new number for a variable that is bound here; what was remembered of it holds no more."""
        self._memo = {}
        return f"{self._number(var, 'v')}:{var.dtype}"

    @nested
    def _value(self, value: Any) -> str:
        """One field's value: a reference to a line, or its text."""
        if isinstance(value, Var):
            return self._variable(value)
        if isinstance(value, Expr):
            found = self._memo.get(value)
            if found is None:
                found = self._node(value)
                self._memo[value] = found
            return found
        if isinstance(value, Node):
            self._memo = {}
            return self._node(value)
        if isinstance(value, Buffer):
            return self._buffer(value)
        if isinstance(value, (tuple, list)):
            return "[" + ",".join([self._value(item) for item in value]) + "]"
        if isinstance(value, Mapping):
            return "{" + ",".join(f"{k!r}:{self._value(value[k])}" for k in sorted(value)) + "}"
        return self._plain(value)

    def _plain(self, value: Any) -> str:
        if isinstance(value, float):
            return struct.pack("<d", value).hex()
        if isinstance(value, Enum):
            return str(value.value)
        if value is None or isinstance(value, (str, int)):
            return repr(value)
        return self._foreign(value)

    def _node(self, node: Node) -> str:
        binder = self._bind(node.var) if isinstance(node, _BINDERS) else ""  # after its range, which cannot read it
        if isinstance(node, e.Reduce):
            for axis in node.axis:
                binder += self._bind(axis.var) + self._value((axis.dom.min, axis.dom.extent))
        fields = [self._value(getattr(node, name)) for name in node.FIELDS if not (binder and name in ("var", "axis"))]
        dtype = node.dtype if isinstance(node, Expr) else ""
        return self._emit(f"{type(node).__name__} {dtype} {binder} {' '.join(fields)}")

    def _variable(self, var: Var) -> str:
        number = self._numbers.get(var)
        if number is None:
            number = f"free {id(var)}" if self.free_by_identity else f"free {var.name}:{var.dtype}"
            self._numbers[var] = number
        return number

    def _buffer(self, buffer: Buffer) -> str:
        number = self._numbers.get(buffer)
        if number is None:
            number = self._number(buffer, "b")
            layout = self._value((buffer.shape, buffer.strides))
            self._emit(f"{number} {buffer.dtype} {buffer.scope} {buffer.alignment} {layout}")
        return number

    def _foreign(self, value: Any) -> str:
        """A tensor or a reducer of `te`, by what it is made of."""
        number = self._numbers.get(value)
        if number is not None:
            return number
        number = self._number(value, "t")
        if hasattr(value, "identity"):
            for var in (*value.lhs, *value.rhs):
                self._bind(var)
            self._emit(f"{number} {self._value((value.result, value.identity))}")
        else:
            self._emit(f"{number} {value.dtype} {self._value(value.shape)}")
        return number
