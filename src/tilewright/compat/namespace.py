"""Modules made from tables: `tvm.relay` is a `Namespace` whose names are looked up when they are used.

`install` puts a finder before the others, which makes `tvm` and the namespaces below it from `tables.TABLES`. Nothing
of the compiler is imported before a program uses it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from tilewright.compat.runtime.refused import Refused
from tilewright.compat.tables import ROOTS, TABLES, Table
from tilewright.compat.tables.signatures import adapted
from tilewright.compat.target.options import emulate_devices
from tilewright.support.suggestion import suggestion


class Namespace(ModuleType):
    """A module whose attributes are the names of one table."""

    _table: Table

    def __init__(self, table: Table) -> None:
        super().__init__(table.name, table.doc)
        vars(self).update(__path__=[], _table=table)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        value = sorted(self.__dir__()) if name == "__all__" else find(self._table, name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a module sets it in its package; `topi.nn.conv2d` stays the function after `import topi.nn.conv2d`.
        if not (isinstance(value, Namespace) and name in self._table.names):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return public_names(self._table)


def find(table: Table, name: str) -> Any:
    """The object `name` in the namespace of `table`: an entry, a namespace below it, or a public name of `table.open`.

    Raises `AttributeError` with what to use instead.
    """
    if name in table.names:
        return adapted(f"{table.name}.{name}", resolve(table.names[name]))
    if f"{table.name}.{name}" in TABLES:
        return importlib.import_module(f"{table.name}.{name}")
    for module_name in table.open:
        module = importlib.import_module(module_name)
        if not name.startswith("_") and name in exported(module):
            return adapted(f"{table.name}.{name}", getattr(module, name))
    if name in table.refused:
        return Refused(f"{table.name}.{name}", table.refused[name])
    raise AttributeError(missing(table, name))


def resolve(target: str) -> Any:
    """The object that "package.module:attribute.attribute" names, or the module itself without a colon."""
    module_name, _, path = target.partition(":")
    value: Any = importlib.import_module(module_name)
    for attribute in path.split(".") if path else ():
        value = getattr(value, attribute)
    return value


def missing(table: Table, name: str) -> str:
    """The message for a name that is not there: the table's advice, or the names nearest to it."""
    if name in table.absent:
        return f"{table.name}.{name} is not part of tilewright.compat; {table.absent[name]}"
    hint = suggestion(name, public_names(table))
    return f"{table.name}.{name} is not part of tilewright.compat{hint} (docs/compat.md lists what is)"


def public_names(table: Table) -> list[str]:
    """Every name that `find` finds in the namespace of `table`."""
    below = [name.removeprefix(f"{table.name}.") for name in TABLES if name.startswith(f"{table.name}.")]
    names = {*table.names, *table.refused, *[name for name in below if "." not in name]}
    for module_name in table.open:
        module = importlib.import_module(module_name)
        names |= {name for name in exported(module) if not name.startswith("_")}
    return sorted(names)


def exported(module: ModuleType) -> Collection[str]:
    """The names that a module lists in `__all__`; without a list, what it defines itself."""
    if hasattr(module, "__all__"):
        return frozenset(module.__all__)
    return [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]


class _NamespaceLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Namespace(TABLES[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        """A namespace is complete when it is made."""

    def get_code(self, name: str) -> CodeType:
        """The code that `python -m NAME` runs of a program."""
        return compile(f"import sys\nfrom {name} import main\nsys.exit(main())", name, "exec")


class _Finder(MetaPathFinder):
    """Finds `tvm` and what lies below it, and nothing else."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        root, _, rest = name.partition(".")
        if root not in ROOTS:
            return None
        if name in TABLES:
            return ModuleSpec(name, _NamespaceLoader(), is_package=not TABLES[name].program)
        parent, _, last = name.rpartition(".")
        # No `name=` here: the import system hides an error that carries it when `from parent import name` fails.
        raise ModuleNotFoundError(missing(TABLES.get(parent, TABLES[root]), last if parent in TABLES else rest))


_FINDER = _Finder()


def install(emulate: bool = False) -> None:
    """Make `import tvm` mean this package, in this process. Modules of a `tvm` imported before are set aside.

    With `emulate` the targets "cuda" and "metal" mean their kernels run on this machine's processor, slowly.
    """
    emulate_devices(emulate)
    if _FINDER not in sys.meta_path:
        _forget()
        sys.meta_path.insert(0, _FINDER)


def uninstall() -> None:
    """Undo `install`: the next `import tvm` finds whatever Python finds."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ROOTS]:
        del sys.modules[name]
