"""Object code into this process: compile IR text for the runtime's own needs, link objects, look symbols up.

One LLJIT instance serves the process. Every linked object is a library of its own, so two models may define the same
symbol; a `Linked` keeps its code alive and must outlive every address taken from it. Undefined symbols of an object are
resolved from the `imports` given and then from the process (libc and libm).
"""

from __future__ import annotations

import ctypes
import itertools
import os
import platform
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.errors import ArtifactError, EnvironmentError_

_lock = threading.Lock()
_numbers = itertools.count()
_jit: Any = None


class Linked:
    """One object's code in memory; `addresses` maps its exported symbols."""

    def __init__(self, tracker: Any, library: str, addresses: dict[str, int]) -> None:
        self._trackers = [tracker]
        self._library = library
        self.addresses = addresses

    def find(self, symbol: str) -> int | None:
        """The address of any public symbol of the object, or None when it defines none of that name."""
        if symbol not in self.addresses:
            try:
                tracker = _compiler().lookup(self._library, symbol)
            except RuntimeError:
                return None
            self._trackers.append(tracker)
            self.addresses[symbol] = tracker[symbol]
        return self.addresses[symbol]


def link(object_code: bytes, exports: Iterable[str], imports: Mapping[str, int] | None = None) -> Linked:
    """Link one ELF object, or several bundled by `bundle_objects`; `exports` are looked up at once.

    Raises `ArtifactError` when it does not link here.
    """
    from llvmlite import binding as llvm

    builder = llvm.JITLibraryBuilder().add_current_process()
    for image in split_objects(object_code):
        if image[:4] != b"\x7fELF":
            raise ArtifactError("this is not object code for Linux: it does not begin like an ELF file")
        builder.add_object_img(image)
    for name, address in (imports or {}).items():
        builder.import_symbol(name, address)
    exports = list(exports)
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        library = f"tilewright.{next(_numbers)}"
        try:
            tracker = builder.link(_compiler(), library)
        except RuntimeError as error:
            raise ArtifactError(f"the object code does not link in this process: {error}") from None
    return Linked(tracker, library, {name: tracker[name] for name in exports})


_BUNDLE = b"TWOBJS\x00\x01"


def bundle_objects(objects: Sequence[bytes]) -> bytes:
    """Several objects that refer to each other as one string of bytes: a mark, then each with its length before it."""
    if len(objects) == 1:
        return objects[0]
    return b"".join([_BUNDLE, *(part for code in objects for part in (len(code).to_bytes(8, "little"), code))])


def split_objects(code: bytes) -> list[bytes]:
    """The objects of a bundle; a single object is its own bundle. Raises `ArtifactError` when one is cut short."""
    if not code.startswith(_BUNDLE):
        return [code]
    objects, position = [], len(_BUNDLE)
    while position < len(code):
        length = int.from_bytes(code[position : position + 8], "little")
        objects.append(code[position + 8 : position + 8 + length])
        position += 8 + length
    if position != len(code):
        raise ArtifactError("the object code is damaged: it ends within an object. Compile the model again")
    return objects


def compile_text(text: str) -> bytes:
    """The object code of IR text written for the baseline processor of this machine's architecture."""
    from llvmlite import binding as llvm

    _initialize()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=2, reloc="pic", codemodel="default")
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    return machine.emit_object(module)


def host_architecture() -> str:
    """``"x86_64"`` or ``"aarch64"``; raises `EnvironmentError_` where compiled models cannot run."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if os.name != "posix" or platform.system() != "Linux" or machine not in ("x86_64", "aarch64"):
        raise EnvironmentError_(
            f"compiled models run on Linux on x86-64 or AArch64; this is {platform.system()} on {platform.machine()}"
        )
    return machine


def host_features() -> frozenset[str]:
    """The processor features LLVM sees on this machine, by LLVM's names (``"avx2"``, ``"avx512f"``...)."""
    from llvmlite import binding as llvm

    return frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)


def _compiler() -> Any:
    """The process's LLJIT, made on first use and never disposed: compiled code may be running until the very end."""
    global _jit
    if _jit is None:
        from llvmlite import binding as llvm

        host_architecture()
        _initialize()
        # Kernels may call libm; make sure that its symbols are among the process's.
        for name in ("libm.so.6", "libm.so"):
            try:
                ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
                break
            except OSError:
                continue
        _jit = llvm.create_lljit_compiler(suppress_errors=True)  # errors come as exceptions, not on stderr
    return _jit


def _initialize() -> None:
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
