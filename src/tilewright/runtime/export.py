"""A compiled model as a plain library with a C header, for programs that are not written in Python.

    exe.export_library("libclassifier.so", name="classifier")    # or .a, or .o; also writes classifier.h beside it

The library holds code, weights and the worker pool, and needs libc, libm and pthreads only. `c_source.py` says what
functions it has. It is linked by the system's C compiler, or by the one in the `ziglang` package where there is none.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime.artifact import weight_parts, weights_bytes
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.c_source import CModel, header_text, library_model, library_text
from tilewright.runtime.link import split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.native import PoolCode, native
from tilewright.runtime.processor import host_architecture
from tilewright.support.cache import atomic_file

#: What a library may be, by the end of its name.
KINDS = (".so", ".a", ".o")
#: The code addresses the weights relative to itself, in 32 bits.
_MOST_WEIGHTS = 2**31 - 2**28
#: The version of glibc that libraries for other machines ask for at least: Debian 10's, the first for 64-bit RISC-V.
_OLDEST_GLIBC = "2.28"

_WEIGHTS = """\
    .section .rodata.tilewright,"a",@progbits
    .globl tilewright_weights
    .hidden tilewright_weights
    .balign 64
tilewright_weights:
    .incbin "weights.bin"
    .byte 0
    .section .note.GNU-stack,"",@progbits
"""


def export_library(
    path: str | os.PathLike[str],
    manifest: Manifest,
    object_code: bytes,
    weights: Any,
    name: str | None = None,
    linker: Sequence[str] | None = None,
    model: CModel | None = None,
    pool: PoolCode | None = None,
    after: str = "",
    declared: str = "",
) -> tuple[Path, Path]:
    """Link a model into the library `path` (.so, .a or .o) and write ``NAME.h`` beside it; the two paths.

    `name` becomes part of the C names (default: from the file's name, without ``lib``); `linker` is a C compiler's
    command (default: what `find_linker` finds); `model` is how C calls one that is no straight graph; `pool` is the
    native runtime of another architecture, for which a cross compiler links; `after` is C behind the library's own,
    in which it may export what is named ``tilewright_NAME_…``, and `declared` of the header. Raises
    `EnvironmentError_` without a linker, or with its words when it fails, `UnsupportedError` for a model that is no
    single function; then neither file is touched.
    """
    library = Path(path)
    model = model or library_model(manifest)
    interface = model.interface
    _check_exportable(library, interface, manifest, weights)
    name = c_name(library, name)
    command = list(linker) if linker is not None else find_linker(manifest.arch if pool is not None else "")
    header = library.with_name(f"{name}.h")
    with tempfile.TemporaryDirectory(prefix="tilewright-export-") as folder:
        work = Path(folder)
        try:
            (work / f"{name}.h").write_text(header_text(name, manifest, weights=declared, interface=interface))
            (work / "library.c").write_text(library_text(name, model) + after)
            sources = [
                *_write_objects(work, object_code, pool or native().pool),
                *_write_weights(work, manifest, weights),
                "library.c",
            ]
        except OSError as error:
            raise EnvironmentError_(f"cannot write to the temporary folder {work}: {error.strerror or error}") from None
        if library.suffix == ".so":
            symbols = [f"tilewright_{name}", f"tilewright_{name}_*"]
            made = _link_shared(work, command, sources, library.name, symbols)
        else:
            made = _link_relocatable(work, command, sources, library.suffix, _symbols(name, interface), manifest.arch)
        move_into_place([(made, library), (work / f"{name}.h", header)])
    if library.suffix == ".so":
        os.chmod(library, library.stat().st_mode | 0o111)
    return library, header


def link_library(
    path: str | os.PathLike[str], object_code: bytes, pool: PoolCode, architecture: str, text: str, name: str
) -> None:
    """Link code with its worker pool and C `text`, which exports what is named ``tilewright_NAME_…``, into a .so.

    Raises `EnvironmentError_` without a linker for the architecture, or with its words when it fails.
    """
    library = Path(path)
    command = find_linker("" if architecture == host_architecture() else architecture)
    with tempfile.TemporaryDirectory(prefix="tilewright-export-") as folder:
        work = Path(folder)
        (work / "library.c").write_text(text)
        sources = [*_write_objects(work, object_code, pool), "library.c"]
        move_into_place([(_link_shared(work, command, sources, library.name, [f"tilewright_{name}_*"]), library)])


def move_into_place(files: Sequence[tuple[Path, Path]]) -> None:
    """Copy finished files to where they belong: all of them, or none. Raises `EnvironmentError_`."""
    if not files:
        return
    (source, target), *others = files
    try:
        with atomic_file(target) as temporary:
            shutil.copyfile(source, temporary)
            move_into_place(others)
    except OSError as error:
        raise EnvironmentError_(f"cannot write {target}: {error.strerror or error}") from None


def find_linker(architecture: str = "") -> list[str]:
    """The command of a C compiler, for another `architecture` if one is named: the system's, else `ziglang`'s.

    Raises `EnvironmentError_` without.
    """
    for candidate in (f"{architecture}-linux-gnu-gcc",) if architecture else ("cc", "gcc", "clang"):
        if shutil.which(candidate):
            return [candidate]
    if importlib.util.find_spec("ziglang") is not None:
        target = ["-target", f"{architecture}-linux-gnu.{_OLDEST_GLIBC}"] if architecture else []
        return [sys.executable, "-m", "ziglang", "cc", *target]
    if architecture:
        raise EnvironmentError_(
            f"linking for {architecture} needs a cross compiler, and none was found. Install one "
            "(Debian: gcc-x86-64-linux-gnu, gcc-aarch64-linux-gnu, gcc-riscv64-linux-gnu), or: "
            "pip install 'tilewright[export]'; an artifact (.tw) needs no linker"
        )
    raise EnvironmentError_(
        "exporting a library needs a C compiler to link with, and none was found. "
        "Install one (cc, gcc or clang), or: pip install 'tilewright[export]'"
    )


def c_name(path: Path, name: str | None) -> str:
    """`name`, or one made from the file's, with what C does not allow in names replaced by underscores.

    Raises `InputError` when nothing is left.
    """
    given = path.name.split(".")[0].removeprefix("lib") if name is None else name
    cleaned = re.sub(r"\W", "_", given, flags=re.ASCII)
    if not cleaned.strip("_"):
        raise InputError(f"{given!r} cannot be made into a C name; pass one with name=")
    return cleaned


def _check_exportable(library: Path, interface: CInterface, manifest: Manifest, weights: Any) -> None:
    if manifest.device != "cpu":
        raise UnsupportedError(
            f"there is no library for C: it is compiled for a device, {manifest.device}; compile the model for a "
            "processor"
        )
    if library.suffix not in KINDS:
        raise InputError(f"a library's name ends in one of {', '.join(KINDS)}; {library.name!r} does not")
    size = weights_bytes(manifest, weights)
    if size > _MOST_WEIGHTS:
        raise UnsupportedError(
            f"a library holds at most {_MOST_WEIGHTS} bytes of weights, the model has {size}; save it as an artifact "
            "(.tw), or write it as C source (.c), which reads them from a file"
        )
    if interface.is_symbolic and manifest.checks is None:
        raise UnsupportedError("the model was compiled without functions for its symbolic sizes; compile it again")


def _symbols(name: str, interface: CInterface) -> list[str]:
    """The functions that the header declares."""
    ends = ("", "_workspace_bytes", "_error_text", *(("_output_shapes",) if interface.is_symbolic else ()))
    return [f"tilewright_{name}{end}" for end in ends]


def _link_shared(
    work: Path, command: Sequence[str], sources: Sequence[str], soname: str, symbols: Sequence[str]
) -> Path:
    """A shared library that exports what is named like one of `symbols`, in which a star is any text."""
    (work / "exports.map").write_text(f"{{ global: {'; '.join(symbols)}; local: *; }};\n")
    options = ["-shared", "-Wl,--version-script=exports.map", "-Wl,-z,noexecstack", "-Wl,-z,defs"]
    options += [f"-Wl,-soname,{soname}", *_COMPILE]
    _run([*command, *options, "-o", "made.so", *sources, *_libraries(command)], work)
    return work / "made.so"


def _link_relocatable(
    work: Path, command: Sequence[str], sources: Sequence[str], suffix: str, symbols: Sequence[str], architecture: str
) -> Path:
    """One object in which only `symbols` are global, or an archive of it."""
    _run([*command, *_COMPILE, "-r", "-nostdlib", "-o", "whole.o", *sources], work)
    keep = [f"--keep-global-symbol={symbol}" for symbol in symbols]
    _run([_tool("objcopy", architecture), *keep, "whole.o", "made.o"], work)
    if suffix == ".o":
        return work / "made.o"
    _run([_tool("ar", architecture), "rcs", "made.a", "made.o"], work)
    return work / "made.a"


_COMPILE = ("-O2", "-std=gnu99", "-fPIC")


def _tool(name: str, architecture: str) -> str:
    own = [name] if architecture in ("", os.uname().machine) else []
    for candidate in (*own, f"{architecture}-linux-gnu-{name}", f"llvm-{name}"):
        if shutil.which(candidate):
            return candidate
    raise EnvironmentError_(
        f"a static library needs {name}, and none was found; install binutils or llvm, or export a .so"
    )


def _libraries(command: Sequence[str]) -> list[str]:
    """Arguments that link libm and libc.

    The zig compiler would build its own stubs of them first, which takes 20 s; the ones in this process serve as well,
    but for the function that takes part in forks, which no shared libc has.
    """
    if "ziglang" not in command or "-target" in command:
        return ["-lm", "-pthread"]
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    found = sorted(path for path in mapped if re.search(r"/lib(m|c|pthread)(\.so\.\d|-[\d.]+\.so)$", path))
    return ["-nostdlib", "-DTILEWRIGHT_WITHOUT_ATFORK", *found]


def _write_objects(work: Path, object_code: bytes, pool: PoolCode) -> Iterator[str]:
    """Write the model's objects and the worker pool's into `work`; their file names."""
    for index, code in enumerate([*split_objects(object_code), pool.code]):
        (work / f"part{index}.o").write_bytes(code)
        yield f"part{index}.o"


def _write_weights(work: Path, manifest: Manifest, weights: Any) -> Iterator[str]:
    """Write the weights and an assembly file that takes them in; the name of the latter."""
    with open(work / "weights.bin", "wb") as file:
        for offset, part in weight_parts(manifest, weights):
            file.seek(offset)
            file.write(memoryview(part).cast("B") if len(part) else b"")
    (work / "weights.S").write_text(_WEIGHTS)
    yield "weights.S"


def _run(command: Sequence[str], work: Path) -> None:
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EnvironmentError_(f"cannot run the linker {command[0]}: {error.strerror or error}") from None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise EnvironmentError_("linking the library failed; the linker says:\n" + "\n".join(words[-10:]))
