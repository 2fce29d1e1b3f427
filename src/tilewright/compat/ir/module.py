"""`tvm.IRModule`: a module of Relay or loop functions that may be added to while it is being written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.compat.ir.containers import Map
from tilewright.compat.ir.standard_library import standard_module
from tilewright.compat.ir.weights import infer_weights
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.ir.adt import TypeData
from tilewright.relay.ir.expr import Expr, Function, GlobalVar
from tilewright.relay.ir.module import IRModule as RelayModule
from tilewright.relay.ir.type import GlobalTypeVar
from tilewright.relay.ir.visitor import free_vars, global_vars
from tilewright.tir.stmt import PrimFunc


class IRModule(RelayModule):
    """`mod["main"] = func` adds or replaces a function; passes leave the module they get as it is."""

    def __init__(self, functions: Mapping[Any, Any] | None = None, type_definitions: Any = None) -> None:
        super().__init__()
        self.functions, self.type_definitions = Map(), Map(type_definitions or {})
        for key, value in (functions or {}).items():
            self[key] = value

    @classmethod
    def of(cls, mod: RelayModule) -> IRModule:
        """`mod` with the classic methods."""
        return mod if isinstance(mod, IRModule) else cls(mod.functions, mod.type_definitions)

    @classmethod
    def from_expr(cls, expr: Any, functions: Any = None, type_defs: Any = None) -> IRModule:
        """A module whose `main` is `expr`; the free variables of what is no function become its parameters."""
        if isinstance(expr, PrimFunc):
            return cls({expr.name: expr})
        func = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
        return cls({**(functions or {}), "main": func}, type_defs)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, TypeData):
            self.type_definitions[value.header] = value  # type: ignore[index]
            return
        if isinstance(value, Expr) and not isinstance(value, Function):
            value = Function(free_vars(value), value)
        if not isinstance(value, Function | PrimFunc):
            raise InputError(f"a module holds functions and type definitions, not a {type(value).__name__}")
        name = key if isinstance(key, str) else key.name
        old = self._by_name.get(name)
        gvar = GlobalVar(key) if isinstance(key, str) else key
        if old is not None:
            gvar = self._replaced(old, key)
        self._by_name[name] = gvar
        self.functions[gvar] = value  # type: ignore[index]

    @property
    def prim_funcs(self) -> list[PrimFunc]:
        """The loop functions, in order."""
        functions: Iterable[Any] = self.functions.values()
        return [func for func in functions if isinstance(func, PrimFunc)]

    def __repr__(self) -> str:
        if not self.prim_funcs:
            return super().__repr__()
        return "\n".join(repr(func) for func in self.functions.values())

    @property
    def body(self) -> Any:
        """The body of the module's only loop function, which v0.6 calls a lowered function."""
        functions = self.prim_funcs
        if len(functions) != 1:
            raise AttributeError(f"a module of {len(functions)} loop functions has no body; take mod[name].body")
        return functions[0].body

    def script(self, *_: Any, **__: Any) -> str:
        """The module as text: Relay, or loops."""
        return repr(self)

    def show(self, *_: Any, **__: Any) -> None:
        """Print the module."""
        print(self)

    def _replaced(self, old: GlobalVar, key: Any) -> GlobalVar:
        """Take the function of `old` out; the variable for its successor, whose type is not known yet."""
        del self.functions[old]  # type: ignore[attr-defined]
        if isinstance(key, GlobalVar):
            return key
        relay_functions = [func for func in self.functions.values() if isinstance(func, Function)]
        named = any(old in global_vars(func) for func in relay_functions)
        return old if named else GlobalVar(old.name)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, GlobalTypeVar):
            return self.type_data(key)
        if isinstance(key, GlobalVar) and key not in self.functions:
            key = key.name
        return super().__getitem__(key)

    def update(self, other: RelayModule) -> None:
        """Add the functions and data types of `other`, replacing those of the same name."""
        self.type_definitions.update(other.type_definitions)  # type: ignore[attr-defined]
        for gvar, func in other.functions.items():
            self[gvar] = func

    def import_from_std(self, file_to_import: str) -> None:
        """Add the definitions of a file of the standard library where the module has none of the same names.

        Raises `UnsupportedError` for a file that is not there.
        """
        library = standard_module(file_to_import)
        for data in library.type_definitions.values():
            if data.header not in self.type_definitions:
                self[data.header] = data
        for gvar, func in library.functions.items():
            if gvar.name not in self:
                self[gvar] = func

    def _add(self, var: Any, val: Any, update: bool = False) -> None:
        """Add a function; one of that name must not be there, unless it is to be updated."""
        if not update and (var if isinstance(var, str) else var.name) in self:
            raise InputError(f"the module has a function {var} already; pass update=True to replace it")
        self[var] = val

    def update_func(self, var: GlobalVar, func: Function) -> None:
        """Replace the function called `var` by `func`."""
        self[var] = func

    def get_global_var(self, name: str) -> GlobalVar:
        """The variable of the function called `name`. Raises `InputError` where there is none."""
        if name not in self:
            raise InputError(f"the module has no function {name!r}; it has: {', '.join(self._by_name) or 'none'}")
        return self.global_var(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """The variables of all functions, in order."""
        return list(self.functions)

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """The variable of the data type called `name`."""
        return self.type_data(name).header

    def get_type(self, name: str) -> tuple[Any, ...]:
        """The variable of the data type called `name`, then its constructors."""
        data = self.type_data(name)
        return (data.header, *data.constructors)

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The module as text; without `show_meta_data` no contents of constants. `annotate` is refused."""
        if self.prim_funcs:
            return repr(self)
        if annotate is not None:
            raise UnsupportedError("IRModule.astext(annotate=…): remarks are not written; look at the nodes")
        return super().astext(show_meta_data)


def as_module(subject: Any) -> IRModule:
    """A module from a module, a function or another expression, the types of open parameters settled by their readers.

    Raises `InputError` for anything else.
    """
    if isinstance(subject, RelayModule | Expr):
        mod = IRModule.of(subject) if isinstance(subject, RelayModule) else IRModule.from_expr(subject)
        for func in mod.functions.values():
            if isinstance(func, Function):
                infer_weights(func)
        return mod
    raise InputError(f"a Relay module or function is needed, not a {type(subject).__name__}")
