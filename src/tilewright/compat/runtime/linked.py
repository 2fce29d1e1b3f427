"""Modules within object files, the libraries that are linked of them, and LLVM IR.

    module.save("add.o"); cc.create_shared("add.so", ["add.o"]); tvm.runtime.load_module("add.so")

An object file that a built module saves has the code for whoever links it, and beside it, as data, the module as
`Module.save` writes it, which says how to call its functions: that is what loading takes, once for each module linked.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import ArtifactError, InputError
from tilewright.runtime.container import MAGIC, contained, container_format
from tilewright.runtime.module import FORMAT, Function, Module

#: How object files of ELF and Mach-O (64 bits) begin.
_OBJECTS = (b"\x7fELF", b"\xcf\xfa\xed\xfe")

#: The constant that `as_data` writes, in LLVM IR.
_AS_TEXT = re.compile(rb'__module" = constant \[\d+ x i8\] c"([^"]*)"')


def as_data(module: Module, name: str) -> str:
    """LLVM IR of a constant, called by the function `name`, that holds the saved module."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module"
        module.save(path)
        saved = path.read_bytes()
    text = "".join([f"\\{byte:02x}" for byte in saved])
    return f'\n@"{name}__module" = constant [{len(saved)} x i8] c"{text}", align 8\n'


class LinkedModules:
    """Functions of several modules, by name."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.modules = modules
        self.functions = {name: info for module in modules for name, info in module.functions.items()}

    def __getitem__(self, name: str) -> Function:
        module = next((module for module in self.modules if name in module), None)
        if module is None:
            raise InputError(f"the library has no function {name!r}; it has: {', '.join(self.functions)}")
        return module[name]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Refused unless there is one module: the file of a module holds one."""
        if len(self.modules) != 1:
            raise InputError("a library of several modules is not exported again; keep its file")
        self.modules[0].save(path)


def is_object(path: str | os.PathLike[str]) -> bool:
    """True if the file begins like an object file or library, or has the name of LLVM IR."""
    if Path(path).suffix == ".ll":
        return True
    try:
        with open(path, "rb") as file:
            return file.read(4) in _OBJECTS
    except OSError:
        return False


def is_shared(path: str | os.PathLike[str]) -> bool:
    """True if an object file of ELF is a shared library."""
    with open(path, "rb") as file:
        return file.read(18)[16:] == b"\x03\0"


def own_parts(path: str | os.PathLike[str]) -> list[bytes]:
    """The files of this package within an object file or library, in their order. Raises `ArtifactError`."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from None
    for text in _AS_TEXT.findall(content):
        content += bytes.fromhex(text.replace(b"\\", b"").decode())
    found = []
    start = content.find(MAGIC)
    while start >= 0:
        found.append(contained(content[start:]))
        start = content.find(MAGIC, start + max(len(found[-1]), 1))
    return found


def is_model(part: bytes) -> bool:
    """True if a file of this package, as bytes, is a compiled model rather than a module of functions."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part"
        path.write_bytes(part)
        return container_format(path) != FORMAT


def load_linked(path: str | os.PathLike[str]) -> LinkedModules:
    """The modules within an object file or library. Raises `ArtifactError` where there are none."""
    found: list[Module] = []
    with tempfile.TemporaryDirectory() as folder:
        for part in own_parts(path):
            single = Path(folder) / str(len(found))
            single.write_bytes(part)
            found.append(Module.load(single))
    if not found:
        raise ArtifactError(f"{path} has no module in it; objects are saved by the module that tvm.build returns")
    return LinkedModules(found)
