"""A module: named functions, `main` first among them. Immutable; passes map a module to a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tilewright.errors import InternalError
from tilewright.relay.expr import Expr, Function, GlobalVar
from tilewright.relay.visitor import free_vars


class IRModule:
    """Functions by `GlobalVar`. `mod["main"]` is the entry; `IRModule.from_expr(expr)` wraps one expression."""

    __slots__ = ("_by_name", "functions")

    functions: Mapping[GlobalVar, Function]

    def __init__(self, functions: Mapping[GlobalVar, Function] | None = None) -> None:
        self.functions = dict(functions or {})
        self._by_name = {gvar.name: gvar for gvar in self.functions}
        if len(self._by_name) != len(self.functions):
            raise InternalError("two functions of one module share a name")

    @classmethod
    def from_expr(cls, expr: Expr) -> IRModule:
        """A module whose `main` is `expr`; an expression that is no function takes its free variables as parameters."""
        func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
        return cls({GlobalVar("main"): func})

    def __getitem__(self, name: str | GlobalVar) -> Function:
        return self.functions[self.global_var(name) if isinstance(name, str) else name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __repr__(self) -> str:
        from tilewright.relay.printer import to_text

        return to_text(self)

    def global_var(self, name: str) -> GlobalVar:
        """The global variable called `name`; an internal error naming the ones there are."""
        if name not in self._by_name:
            raise InternalError(f"the module has no function {name!r}; it has: {', '.join(self._by_name) or 'none'}")
        return self._by_name[name]

    def with_function(self, name: str, func: Function) -> IRModule:
        """This module with the function called `name` replaced, or added under a new `GlobalVar`."""
        gvar = self._by_name.get(name) or GlobalVar(name)
        return IRModule({**self.functions, gvar: func})

    def map_functions(self, transform: Callable[[Function], Function]) -> IRModule:
        """This module with `transform` applied to each function; the same module if it changed none."""
        mapped = {gvar: transform(func) for gvar, func in self.functions.items()}
        if all(mapped[gvar] is func for gvar, func in self.functions.items()):
            return self
        return IRModule(mapped)
