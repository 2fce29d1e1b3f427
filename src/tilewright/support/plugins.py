"""Registrations by programs outside of the package, and a digest of their code, which the disk cache's key covers.

    note("converter", "Shrink", function)      # by each function that enters something into a table of the compiler
    fingerprint()                              # "" where everything registered is the package's own

A plug-in's code decides what is compiled as the compiler's own does, but the compiler's fingerprint knows nothing of
it. The digest covers the registered objects: the code of functions and classes, their defaults, what they close over
and the globals that they name, and so on from there; and the files of the modules outside of the Python installation
that they are defined in or name. Where it meets something whose contents cannot be read, there is no digest, and what
is compiled with such a plug-in is not cached.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.support.cache import digest

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
#: Folders of this and of other environments that installers write to; no project keeps its sources there.
_OF_INSTALLERS = frozenset(("site-packages", "dist-packages"))
_INSTALLED = tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "purelib", "platlib")})

#: Everything that was registered from outside, in order: the table, the name in it, what was entered.
_noted: list[tuple[str, str, Any]] = []

#: The modules that entry points name.
_modules: set[str] = set()

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type(...), type(NotImplemented))
#: Equal ones may be one object or two, as Python likes.
_MERGED = (tuple, frozenset, types.CodeType)
_BUILTIN = (
    types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)  # fmt: skip
_BY_TEXT = (np.dtype, np.generic, range, slice, re.Pattern, os.PathLike)


#: Members of classes that Python makes.
_OF_CLASSES = frozenset(
    ("__dict__", "__weakref__", "__module__", "_abc_impl", "__firstlineno__", "__static_attributes__")
)


class Unknown(Exception):
    """An object whose contents cannot be read."""


def note(table: str, name: str, what: Any) -> None:
    """Remember that `what` is registered as `name`, where it is a program outside of the package that registers it."""
    if _is_called_from_outside():
        remember(table, name, what)


def remember_module(name: str) -> None:
    """Remember that an entry point names a module of a plug-in."""
    _modules.add(name)


def remember(table: str, name: str, what: Any) -> None:
    """Remember that `what`, which is known to come from outside of the package, is registered as `name`."""
    _noted.append((table, name, what))


def outside_modules() -> set[str]:
    """The names of the modules, those that packages are by, in which something was registered from outside."""
    modules = (getattr(what, "__module__", None) or type(what).__module__ for _, _, what in _noted)
    names = {name.partition(".")[0] for name in (*modules, *_modules)}
    return names - {__name__.partition(".")[0], "builtins", "__main__"}


def fingerprint() -> str | None:
    """A digest of all that was registered from outside: "" where nothing was, None where contents cannot be read."""
    if not _noted:
        return ""
    try:
        return digest(*_Contents().parts(_noted))
    except (Unknown, RecursionError):
        return None


def _is_called_from_outside() -> bool:
    """True if the first caller beyond the package is a program, rather than the import of one of our own modules."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib")


@functools.cache
def _is_inside(path: str) -> bool:
    return os.path.realpath(path).startswith(_PACKAGE)


@functools.cache
def _is_installed(path: str) -> bool:
    real = os.path.realpath(path)
    return _is_inside(path) or real.startswith(_INSTALLED) or not _OF_INSTALLERS.isdisjoint(Path(real).parts)


class _Contents:
    """Texts that tell one plug-in's contents from another's. An object met again is written as its number."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # numbers go by address

    def parts(self, value: Any) -> Iterator[str | bytes]:
        """The texts of `value` and of what it holds. Raises `Unknown`."""
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
            return
        if not isinstance(value, _MERGED):
            if id(value) in self._numbers:
                yield f"again {self._numbers[id(value)]}"
                return
            self._numbers[id(value)] = len(self._numbers)
            self._alive.append(value)
        yield type(value).__qualname__
        for kind, described in _DESCRIPTIONS:
            if isinstance(value, kind):
                yield from described(self, value)
                return
        yield from self._object(value)

    def _all(self, values: Any) -> Iterator[str | bytes]:
        values = list(values)
        yield str(len(values))
        for value in values:
            yield from self.parts(value)

    def _set(self, value: Any) -> Iterator[str | bytes]:
        yield from sorted(digest(*_Contents().parts(element)) for element in value)

    def _mapping(self, value: Mapping[Any, Any]) -> Iterator[str | bytes]:
        yield from self._all(pair for item in value.items() for pair in item)

    def _array(self, value: np.ndarray[Any, Any]) -> Iterator[str | bytes]:
        yield f"{value.dtype} {value.shape}"
        if value.dtype.hasobject:
            yield from self._all(value.reshape(-1).tolist())
        else:
            yield np.ascontiguousarray(value).tobytes()

    def _code(self, value: types.CodeType) -> Iterator[str | bytes]:
        yield value.co_code
        yield repr((value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars, value.co_flags))
        yield value.co_exceptiontable
        yield from self._all(value.co_consts)

    def _function(self, value: types.FunctionType) -> Iterator[str | bytes]:
        """A function of ours is written as its name, and what it closes over (its code is in the compiler's digest)."""
        yield f"{value.__module__} {value.__qualname__}"
        yield from self._all([value.__defaults__, value.__kwdefaults__, getattr(value, "__wrapped__", None)])
        yield from self._all(_cell(cell) for cell in value.__closure__ or ())
        if _is_inside(value.__code__.co_filename):
            return
        yield from self._code(value.__code__)
        yield from self.parts(sys.modules.get(value.__module__))
        names = sorted(_names(value.__code__))
        for name in names:
            if name in value.__globals__:
                yield name
                yield from self.parts(found := value.__globals__[name])
                if isinstance(found, types.ModuleType) and not _is_part_of_an_installation(found):
                    yield from self._mapping({n: vars(found)[n] for n in names if n in vars(found)})

    def _method(self, value: types.MethodType) -> Iterator[str | bytes]:
        yield from self._all([value.__func__, value.__self__])

    def _builtin(self, value: Any) -> Iterator[str | bytes]:
        yield f"{getattr(value, '__module__', '')} {value.__qualname__}"
        owner = getattr(value, "__self__", None)
        yield from self.parts(None if isinstance(owner, types.ModuleType) else owner)

    def _partial(self, value: functools.partial[Any]) -> Iterator[str | bytes]:
        yield from self._all([value.func, value.args, value.keywords])

    def _member(self, value: enum.Enum) -> Iterator[str | bytes]:
        yield f"{type(value).__module__} {value!r}"

    def _text(self, value: Any) -> Iterator[str | bytes]:
        yield repr(value)

    def _module(self, value: types.ModuleType) -> Iterator[str | bytes]:
        """A module by its name; with the bytes of its file where that is not part of an installation."""
        yield value.__name__
        path = getattr(value, "__file__", None)
        if path is None or _is_inside(path):
            return
        if _is_installed(path):
            top = sys.modules.get(value.__name__.partition(".")[0])
            yield str(getattr(top, "__version__", ""))
            return
        try:
            yield Path(path).read_bytes()
        except OSError:
            raise Unknown(path) from None

    def _class(self, value: type) -> Iterator[str | bytes]:
        """A class by its name; where it is not of an installation, by its bases and members too."""
        yield f"{value.__module__} {value.__qualname__}"
        module = sys.modules.get(value.__module__)
        path = getattr(module, "__file__", None)
        if value.__module__ == "builtins" or (path is None and value.__module__ != "__main__"):
            return
        yield from self.parts(module)
        if path is not None and _is_installed(path):
            return
        yield from self._all(value.__bases__)
        for name, member in sorted(vars(value).items()):
            if isinstance(member, property):
                yield from self._all([name, member.fget, member.fset])
            elif isinstance(member, functools.cached_property):
                yield from self._all([name, member.func])
            elif name not in _OF_CLASSES and not inspect.isdatadescriptor(member):
                yield from self._all([name, member])

    def _wrapper(self, value: Any) -> Iterator[str | bytes]:
        yield from self.parts(value.__func__)

    def _object(self, value: Any) -> Iterator[str | bytes]:
        """An object by its class and what it would be made of again. Raises `Unknown` where it cannot be copied."""
        yield from self.parts(type(value))
        if dataclasses.is_dataclass(value):
            yield from self._all(getattr(value, field.name, None) for field in dataclasses.fields(value))
            return
        try:
            made_of = value.__reduce_ex__(4)
        except Exception:  # a lock, a file, a connection: each says so in its own way
            raise Unknown(type(value)) from None
        if isinstance(made_of, str):
            yield made_of
        else:
            yield from self._all(list(part) if isinstance(part, Iterator) else part for part in made_of)


_DESCRIPTIONS: tuple[tuple[Any, Callable[[_Contents, Any], Iterator[str | bytes]]], ...] = (
    (enum.Enum, _Contents._member),
    (types.FunctionType, _Contents._function),
    (types.MethodType, _Contents._method),
    (_BUILTIN, _Contents._builtin),
    (functools.partial, _Contents._partial),
    (types.CodeType, _Contents._code),
    (types.ModuleType, _Contents._module),
    ((staticmethod, classmethod), _Contents._wrapper),
    (type, _Contents._class),
    (_BY_TEXT, _Contents._text),
    (np.ndarray, _Contents._array),
    ((dict, types.MappingProxyType), _Contents._mapping),
    ((set, frozenset), _Contents._set),
    ((list, tuple), _Contents._all),
)


def _is_part_of_an_installation(module: types.ModuleType) -> bool:
    """True for Python's own modules, those compiled into it too, and for packages that are installed."""
    path = getattr(module, "__file__", None)
    return module.__name__ in sys.builtin_module_names if path is None else _is_installed(path)


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _names(code: types.CodeType) -> set[str]:
    """The names that code and the functions within it may look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
