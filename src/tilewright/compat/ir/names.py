"""Names that are given out once, and names in the styles of C: `tvm.ir.supply`, `relay.backend.name_transforms`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright.errors import InputError
from tilewright.relay.ir.expr import GlobalVar

_PREFIX = "TVM"


class NameSupply:
    """Names that have not been given out before, behind a prefix."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._taken: set[str] = set()

    def _full(self, name: str, add_prefix: bool) -> str:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        return f"{self._prefix}_{plain}" if add_prefix and self._prefix else plain

    def fresh_name(self, name: str, add_prefix: bool = True, add_underscore: bool = True) -> str:
        """`name`, or `name` with the first number that makes it a new one."""
        full, number = self._full(name, add_prefix), 0
        chosen = full
        while chosen in self._taken:
            number += 1
            chosen = f"{full}{'_' if add_underscore else ''}{number}"
        self._taken.add(chosen)
        return chosen

    def reserve_name(self, name: str, add_prefix: bool = True) -> str:
        """Reserve `name`; returns it with the prefix."""
        full = self._full(name, add_prefix)
        self._taken.add(full)
        return full

    def contains_name(self, name: str, add_prefix: bool = True) -> bool:
        """True if `name` has been given out or reserved."""
        return self._full(name, add_prefix) in self._taken


class GlobalVarSupply:
    """Global variables of names that have not been given out before; `value` is a supply of names, or modules."""

    def __init__(self, value: Any = None) -> None:
        self._names = value if isinstance(value, NameSupply) else NameSupply()
        self._vars: dict[str, GlobalVar] = {}
        modules = () if value is None or isinstance(value, NameSupply) else value
        for mod in modules if isinstance(modules, Sequence) else [modules]:
            for gvar in mod.functions:
                self.reserve_global(gvar)

    def fresh_global(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """A variable of a new name."""
        made = GlobalVar(self._names.fresh_name(name, add_prefix))
        self._vars[made.name] = made
        return made

    def unique_global_for(self, name: str, add_prefix: bool = True) -> GlobalVar:
        """The variable of this name, made at the first request."""
        full = self._names.reserve_name(name, add_prefix)
        return self._vars.setdefault(full, GlobalVar(full))

    def reserve_global(self, global_var: GlobalVar, allow_conflict: bool = False) -> None:
        """Take a variable's name. Raises `InputError` for one that is taken by another variable."""
        known = self._vars.get(global_var.name)
        if known is not None and known is not global_var and not allow_conflict:
            raise InputError(f"the global name {global_var.name} is taken")
        self._names.reserve_name(global_var.name, False)
        self._vars[global_var.name] = global_var


def _checked(name: str, what: str) -> str:
    if not name:
        raise InputError(f"{what} name is empty")
    if not name.startswith(_PREFIX):
        raise InputError(f"{what} not TVM prefixed: {name}")
    return name


def to_c_function_style(original_name: str) -> str:
    """A function's name in C: "TVM_woof_woof" is "TVMWoofWoof"."""
    first, *words = _checked(original_name, "Function").split("_")
    return first + "".join(word[:1].upper() + word[1:].lower() for word in words)


def to_c_variable_style(original_name: str) -> str:
    """A variable's name in C: all lower case."""
    return _checked(original_name, "Variable").lower()


def to_c_constant_style(original_name: str) -> str:
    """A constant's name in C: all upper case."""
    return _checked(original_name, "Constant").upper()


def prefix_name(names: str | Sequence[str]) -> str:
    """The parts of a name behind "TVM"."""
    return _joined(_PREFIX, names)


def prefix_generated_name(names: str | Sequence[str]) -> str:
    """The parts of a name behind "TVMGen"."""
    return _joined("TVMGen", names)


def _joined(prefix: str, names: str | Sequence[str]) -> str:
    parts = [names] if isinstance(names, str) else list(names)
    if not parts or not all(parts):
        raise InputError("Name is empty" if parts else "Name parts empty")
    return "_".join([prefix, *parts])


def sanitize_name(name: str) -> str:
    """A name whose characters are letters, digits and underscores."""
    if not name:
        raise InputError("Name is empty")
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def mangle_module_name(name: str | None) -> str:
    """The name of a module's functions in C. Raises `ValueError` where it is no ASCII text."""
    if name and not name.isascii():
        raise ValueError(f"the module name {name!r} has characters other than those of ASCII")
    return "tvmgen_" + name if name else "tvmgen"
