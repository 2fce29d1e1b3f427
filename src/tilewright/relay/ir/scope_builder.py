"""`ScopeBuilder`: programs with bindings and branches written line by line, as they run.

builder = ScopeBuilder()
with builder.if_scope(relay.less(x, y)):
    doubled = builder.let("doubled", x + x)
    builder.ret(doubled)
with builder.else_scope():
    builder.ret(y)
func = relay.Function([x, y], builder.get())
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.errors import InputError
from tilewright.relay.ir.expr import Expr, If, Let, Var
from tilewright.relay.ir.type import Type


@dataclass
class _Scope:
    """The bindings of a scope in order, and what it returns."""

    bindings: list[tuple[Var, Expr]] = field(default_factory=list)
    result: Expr | None = None


class ScopeBuilder:
    """Collects `let`s and the result of a scope; `get` is the expression of what was written."""

    def __init__(self) -> None:
        self._scopes = [_Scope()]
        self._branch: tuple[Expr, Expr] | None = None

    def let(self, var: Var | str | tuple[str, Type], value: Expr) -> Var:
        """Bind `value` from here on; the variable, made from a name or a (name, type) if need be."""
        if not isinstance(var, Var):
            var = Var(var) if isinstance(var, str) else Var(*var)
        self._scopes[-1].bindings.append((var, value))
        return var

    def ret(self, value: Expr) -> None:
        """Make `value` the result of the innermost scope. Raises `InputError` if it has one."""
        if self._scopes[-1].result is not None:
            raise InputError("this scope returns already; a scope has one ret")
        self._scopes[-1].result = value

    @contextmanager
    def if_scope(self, cond: Expr) -> Iterator[None]:
        """The scope of statements that run if `cond` holds; an `else_scope` follows."""
        self._scopes.append(_Scope())
        yield
        self._branch = (cond, self._closed(self._scopes.pop()))

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The scope of statements that run if the condition of the preceding `if_scope` fails; both make the enclosing
        scope's result.

        Raises `InputError` where no `if_scope` is before it.
        """
        if self._branch is None:
            raise InputError("an else_scope follows an if_scope")
        cond, taken = self._branch
        self._branch = None
        self._scopes.append(_Scope())
        yield
        self.ret(If(cond, taken, self._closed(self._scopes.pop())))

    def get(self) -> Expr:
        """The expression of all that was written. Raises `InputError` if nothing is returned."""
        if self._branch is not None:
            raise InputError("an if_scope without an else_scope has no value")
        return self._closed(self._scopes[-1])

    @staticmethod
    def _closed(scope: _Scope) -> Expr:
        if scope.result is None:
            raise InputError("a scope returns nothing: call ret in it")
        body = scope.result
        for var, value in reversed(scope.bindings):
            body = Let(var, value, body)
        return body
