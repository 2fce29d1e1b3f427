"""Validation of an archive of PyTorch before PyTorch reads it: nothing that runs, nothing that unpacks without bounds.

The reader of exported programs evaluates what it finds in the JSON of a graph: sizes as expressions of SymPy, guards as
Python, and targets of calls as a path of attributes from the package `torch`. All three are checked here by their
syntax. TorchScript runs methods called `__setstate__` while it reads.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from tilewright.errors import ModelError, TilewrightError
from tilewright.frontend.source import Source

#: What is unpacked at most from an archive of n bytes: n times this, and the constant.
_MOST_GROWTH, _ALWAYS_ALLOWED = 20, 1 << 26
#: Characters of an expression, and the largest exponent of a number.
_MOST_TEXT, _MOST_POWER = 10_000, 64

#: What a call of a graph may name: overloads and higher-order operators, arithmetic on sizes.
_TARGET = re.compile(
    r"torch\.ops\.[A-Za-z0-9]\w*\.\w+(\.\w+)?|torch\.sym_\w+|math\.(trunc|floor|ceil|sqrt)|_operator\.(eq|ne|le|ge|lt|gt|"
    r"neg|pos|mul|add|sub|floordiv|mod|pow|and_|or_|lshift|rshift|truediv|getitem|not_)"
)
_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
    ast.Constant, ast.Name, ast.Load, ast.Call, ast.keyword,
)  # fmt: skip


def check_program(source: Source) -> None:
    """Raise `ModelError` where the archive of an exported program holds what reading it would run or unpack."""
    with _opened(source) as archive:
        for name in archive.namelist():
            inner = "/" + name
            if "/data/aotinductor/" in inner or re.search(r"/data/constants/(custom_obj_|opaque_obj_)", inner):
                raise ModelError(
                    f"{source.label} holds {name}: objects and native code, which are never read, for they run code"
                )
            if "/models/" in inner and name.endswith(".json"):
                _check_graph(f"{source.label}: {name}", json.loads(archive.read(name)))


def check_script(source: Source) -> None:
    """Raise `ModelError` where the archive of a TorchScript program runs code while it is read, or is a bomb."""
    with _opened(source) as archive:
        for name in archive.namelist():
            if "/code/" in name and name.endswith(".py") and b"__setstate__" in archive.read(name):
                raise ModelError(
                    f"{source.label}: the class in {name} has a method __setstate__, which runs while the archive is "
                    "read; save the module without it"
                )


#: What the reader of zip archives, and of JSON, meets in damaged ones.
_DAMAGES = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError, RuntimeError, AttributeError,
    TypeError,
)  # fmt: skip


@contextmanager
def _opened(source: Source) -> Iterator[zipfile.ZipFile]:
    """A zip archive whose entries stay within it and unpack to no more than an archive of that size may."""
    try:
        with zipfile.ZipFile(source.path if source.path is not None else io.BytesIO(source.contents)) as archive:
            _check_entries(source, archive)
            yield archive
    except _DAMAGES as error:
        if isinstance(error, TilewrightError):
            raise
        raise ModelError(f"{source.label} is a damaged archive: {type(error).__name__}: {error}") from None


def _check_entries(source: Source, archive: zipfile.ZipFile) -> None:
    size = len(source.contents)
    most = size * _MOST_GROWTH + _ALWAYS_ALLOWED
    total = sum(entry.file_size for entry in archive.infolist())
    if total > most:
        raise ModelError(f"{source.label} ({size} bytes) says that it unpacks to {total} bytes, more than {most}")
    names = archive.namelist()
    for name in names:
        if name.startswith("/") or "\\" in name or ".." in PurePosixPath(name).parts:
            raise ModelError(f"{source.label} has the entry {name!r}, which leads out of the archive")
    if len(set(names)) != len(names):
        raise ModelError(f"{source.label} has two entries of one name")


def _check_graph(label: str, model: Any) -> None:
    """Raise `ModelError` for a graph in JSON with something that its reader would run."""
    for part in _objects(model):
        target = part.get("target")
        if "inputs" in part and isinstance(target, str) and not _TARGET.fullmatch(target):
            raise ModelError(
                f"{label} calls {target[:200]!r}, which is no operator; it is not read, for it may run code"
            )
        if "expr_str" in part:
            _check_expression(label, part["expr_str"])
        for guard in part.get("guards_code") or ():
            _check_expression(label, guard, sizes=True)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object within."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _check_expression(label: str, text: Any, sizes: bool = False) -> None:
    """Raise `ModelError` for a text that is more than arithmetic; with `sizes` it may ask for sizes of inputs."""
    try:
        fits = isinstance(text, str) and len(text) <= _MOST_TEXT
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval"))) if fits else []
        names = _names(nodes, sizes)
        fits = fits and all(node in names or _harmless(node, sizes) for node in nodes)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        fits = False
    if not fits:
        raise ModelError(f"{label} has the expression {str(text)[:200]!r}, which is not read, for it may run code")


def _names(nodes: list[ast.AST], sizes: bool) -> set[ast.AST]:
    """Texts that stand where only a name does: of a symbol, or of an input."""
    found: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Symbol", "Dummy"):
            found.update(arg for arg in node.args if isinstance(arg, ast.Constant))
        if sizes and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            found.add(node.slice)
    return found


def _harmless(node: ast.AST, sizes: bool) -> bool:
    """True for a part of an expression that only computes with numbers and names."""
    if sizes and isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant)
    if sizes and isinstance(node, ast.Attribute):
        return node.attr in ("size", "stride", "storage_offset")
    if isinstance(node, ast.Name):
        return not node.id.startswith("_")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _small_power(node.left, node.right)
    if isinstance(node, ast.Call):
        if sizes and isinstance(node.func, ast.Attribute):
            return not node.args and not node.keywords
        return isinstance(node.func, ast.Name) and _harmless_call(node.func.id, node.args, sizes)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool | int | float)
    return isinstance(node, _ARITHMETIC)


def _harmless_call(name: str, args: list[ast.expr], sizes: bool) -> bool:
    """True for what SymPy makes expressions of."""
    # SymPy comes with torch
    import sympy
    from torch.utils._sympy import functions

    if sizes and name in ("max", "min"):
        return True
    known = getattr(functions, name, None) or getattr(sympy, name, None)
    if not (isinstance(known, type) and issubclass(known, sympy.Basic)):
        return False
    return (not name.endswith("Pow") and name != "PowByNatural") or len(args) < 2 or _small_power(args[0], args[1])


def _small_power(base: ast.expr, exponent: ast.expr) -> bool:
    """True where the power is no number that takes for ever to compute."""
    parts = list(ast.walk(base))
    if any(isinstance(node, ast.Name) and node.id not in ("Integer", "Pow", "PowByNatural") for node in parts):
        return True
    towers = any(isinstance(node, ast.Pow) or (isinstance(node, ast.Name) and "Pow" in node.id) for node in parts)
    numbers = [node.value for node in ast.walk(exponent) if isinstance(node, ast.Constant)]
    return not towers and all(isinstance(number, int) and number <= _MOST_POWER for number in numbers)
