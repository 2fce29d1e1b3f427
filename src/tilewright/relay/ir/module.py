"""A module: named functions, `main` first among them, and data types. Immutable; passes map a module to a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tilewright.errors import InternalError
from tilewright.relay.ir.adt import Constructor, TypeData
from tilewright.relay.ir.expr import Expr, Function, GlobalVar
from tilewright.relay.ir.node_methods import METHODS
from tilewright.relay.ir.type import GlobalTypeVar
from tilewright.relay.ir.visitor import free_vars


class IRModule:
    """Functions by `GlobalVar` and data types by `GlobalTypeVar`.

    `mod["main"]` is the entry; `IRModule.from_expr(expr)` wraps one expression.
    """

    __slots__ = ("_by_name", "functions", "type_definitions")

    functions: Mapping[GlobalVar, Function]
    type_definitions: Mapping[GlobalTypeVar, TypeData]

    def __init__(
        self,
        functions: Mapping[GlobalVar, Function] | None = None,
        type_definitions: Mapping[GlobalTypeVar, TypeData] | None = None,
    ) -> None:
        self.functions = dict(functions or {})
        self.type_definitions = dict(type_definitions or {})
        self._by_name = {gvar.name: gvar for gvar in self.functions}
        if len(self._by_name) != len(self.functions):
            raise InternalError("two functions of one module share a name")

    @classmethod
    def from_expr(
        cls,
        expr: Expr,
        functions: Mapping[GlobalVar, Function] | None = None,
        type_definitions: Mapping[GlobalTypeVar, TypeData] | None = None,
    ) -> IRModule:
        """A module whose `main` is `expr`; an expression that is no function takes its free variables as parameters."""
        func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
        return cls({**(functions or {}), GlobalVar("main"): func}, type_definitions)

    def __getitem__(self, name: str | GlobalVar) -> Function:
        return self.functions[self.global_var(name) if isinstance(name, str) else name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __repr__(self) -> str:
        return METHODS.to_text(self)

    def astext(self, show_meta_data: bool = True) -> str:
        """The module as a program that `parser.parse` reads back."""
        return METHODS.astext(self, show_meta_data)

    def global_var(self, name: str) -> GlobalVar:
        """The global variable called `name`; an internal error naming the ones there are."""
        if name not in self._by_name:
            raise InternalError(f"the module has no function {name!r}; it has: {', '.join(self._by_name) or 'none'}")
        return self._by_name[name]

    def type_data(self, name: str | GlobalTypeVar) -> TypeData:
        """The data type called `name`; an internal error naming the ones there are."""
        found = self.type_definitions.get(GlobalTypeVar(name) if isinstance(name, str) else name)
        if found is None:
            known = ", ".join(map(str, self.type_definitions)) or "none"
            raise InternalError(f"the module has no data type {str(name)!r}; it has: {known}")
        return found

    def constructor(self, type_name: str, name: str) -> Constructor:
        """The constructor called `name` of the data type called `type_name`."""
        data = self.type_data(type_name)
        for constructor in data.constructors:
            if constructor.name == name:
                return constructor
        known = ", ".join(constructor.name for constructor in data.constructors)
        raise InternalError(f"{type_name} has no constructor {name!r}; it has: {known}")

    def with_function(self, name: str, func: Function) -> IRModule:
        """This module with the function called `name` replaced, or added under a new `GlobalVar`."""
        gvar = self._by_name.get(name) or GlobalVar(name)
        return self.with_functions({**self.functions, gvar: func})

    def with_functions(self, functions: Mapping[GlobalVar, Function]) -> IRModule:
        """A module of other functions and the same data types."""
        return IRModule(functions, self.type_definitions)

    def merge(self, other: IRModule) -> IRModule:
        """The functions and data types of both; an internal error if both have a function of one name."""
        return IRModule({**other.functions, **self.functions}, {**other.type_definitions, **self.type_definitions})

    def map_functions(self, transform: Callable[[Function], Function]) -> IRModule:
        """This module with `transform` applied to each function; the same module if it changed none."""
        mapped = {gvar: transform(func) for gvar, func in self.functions.items()}
        if all(mapped[gvar] is func for gvar, func in self.functions.items()):
            return self
        return self.with_functions(mapped)
