"""A compiled model as a plain shared object with a C header, for programs that are not written in Python.

    exe.export_library("libclassifier.so", name="classifier")    # also writes classifier.h beside it

The library needs libc and libm only. It has one entry, ``int tilewright_NAME(const void *const *inputs, void *const
*outputs)``, runs on the calling thread, and holds code, weights and working memory. It is linked by the system's C
compiler, or by the one in the `ziglang` package where there is none.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.artifact import weight_parts
from tilewright.runtime.link import compile_text, split_objects
from tilewright.runtime.signature import TensorSpec
from tilewright.support.cache import atomic_file

# The barrier never waits for anybody: there is one worker. The lock guards the one arena; it is held for a whole run,
# so a second caller yields its processor rather than spins.
_WRAPPER = """\
%Context = type {{ i32, i32, ptr }}
@arena = internal global [{arena} x i8] zeroinitializer, align 64
@scratch = internal global [{scratch} x i8] zeroinitializer, align 64
@busy = internal global i32 0
@tilewright_weights = external hidden constant i8

declare i32 @{entry}(ptr, ptr)
declare i32 @sched_yield()

define void @tilewright_barrier(ptr %ctx) {{
  ret void
}}

define i32 @tilewright_{name}(ptr %inputs, ptr %outputs) {{
entry:
  %slots = alloca [{count} x ptr], align 16
  %ctx = alloca %Context, align 16
  br label %take
take:
  %before = atomicrmw xchg ptr @busy, i32 1 acquire
  %free = icmp eq i32 %before, 0
  br i1 %free, label %run, label %wait
wait:
  call i32 @sched_yield()
  br label %take
run:
  store %Context {{ i32 0, i32 1, ptr null }}, ptr %ctx
{stores}
  %code = call i32 @{entry}(ptr %slots, ptr %ctx)
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %code
}}
"""

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

_HEADER = """\
/* {name}: a model compiled by Tilewright {version} for {target}.

   inputs:
{inputs}
   outputs:
{outputs}

   Tensors are dense, the last dimension varying fastest. */
#ifndef TILEWRIGHT_{upper}_H
#define TILEWRIGHT_{upper}_H

#define TILEWRIGHT_{upper}_INPUTS {input_count}
#define TILEWRIGHT_{upper}_OUTPUTS {output_count}

#ifdef __cplusplus
extern "C" {{
#endif

/* Runs the model once. The caller owns all tensors. Returns 0, or another number when a check of the model on its
   input values failed. Runs on the calling thread; calls from several threads take turns. */
int tilewright_{name}(const void *const *inputs, void *const *outputs);

#ifdef __cplusplus
}}
#endif
#endif
"""


def export_library(
    path: str | os.PathLike[str],
    manifest: Mapping[str, Any],
    object_code: bytes,
    weights: Any,
    name: str | None = None,
    linker: Sequence[str] | None = None,
) -> tuple[Path, Path]:
    """Link a model into the shared object `path` and write ``NAME.h`` beside it; the two paths.

    `name` becomes part of the C names (default: from the file's name, without ``lib``); `linker` is a C compiler's
    command (default: what `find_linker` finds). Raises `EnvironmentError_` without a linker, or with its words when it
    fails; then neither file is touched.
    """
    library = Path(path)
    name = _c_name(library.name.split(".")[0].removeprefix("lib") if name is None else name)
    command = list(linker) if linker is not None else find_linker()
    header = library.with_name(f"{name}.h")
    with tempfile.TemporaryDirectory(prefix="tilewright-export-") as folder:
        work = Path(folder)
        sources = [*_write_objects(work, name, manifest, object_code), *_write_weights(work, manifest, weights)]
        (work / "exports.map").write_text(f"{{ global: tilewright_{name}; local: *; }};\n")
        options = ["-shared", "-Wl,--version-script=exports.map", "-Wl,-z,noexecstack", f"-Wl,-soname,{library.name}"]
        _run([*command, *options, "-o", "library.so", *sources, *_libraries(command)], work)
        try:
            with atomic_file(header) as temporary_header, atomic_file(library) as temporary_library:
                temporary_header.write_text(header_text(name, manifest))
                shutil.copyfile(work / "library.so", temporary_library)
            os.chmod(library, library.stat().st_mode | 0o111)
        except OSError as error:
            raise EnvironmentError_(f"cannot write {library}: {error.strerror or error}") from None
    return library, header


def find_linker() -> list[str]:
    """The command of a C compiler: the system's, else the `ziglang` package's. Raises `EnvironmentError_` without."""
    for candidate in ("cc", "gcc", "clang"):
        if shutil.which(candidate):
            return [candidate]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise EnvironmentError_(
        "exporting a library needs a C compiler to link with, and none was found. "
        "Install one (cc, gcc or clang), or: pip install 'tilewright[export]'"
    )


def _libraries(command: Sequence[str]) -> list[str]:
    """Arguments that link libm and libc.

    The zig compiler would build its own stubs of them first, which takes 20 s; the ones in this process serve as well.
    """
    if "ziglang" not in command:
        return ["-lm"]
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    return ["-nostdlib", *sorted(path for path in mapped if re.search(r"/lib[mc](\.so\.6|-[\d.]+\.so)$", path))]


def wrapper_text(name: str, manifest: Mapping[str, Any]) -> str:
    """LLVM IR of the C entry: it puts the addresses into slots and calls the model as worker 0 of 1."""
    inputs, outputs = len(manifest["inputs"]), len(manifest["outputs"])
    lines = []
    for index in range(inputs + outputs):
        source, position = ("inputs", index) if index < inputs else ("outputs", index - inputs)
        lines += [
            f"  %from{index} = getelementptr ptr, ptr %{source}, i64 {position}",
            f"  %value{index} = load ptr, ptr %from{index}",
            *_store_slot(index, f"%value{index}"),
        ]
    for index, symbol in enumerate(("@tilewright_weights", "@arena", "@scratch"), inputs + outputs):
        lines += _store_slot(index, symbol)
    return _WRAPPER.format(
        name=name,
        entry=f"{manifest.get('entry', 'main')}__entry",
        arena=max(int(manifest.get("arena_bytes", 0)), 1),
        scratch=max(int(manifest.get("worker_workspace_bytes", 0)), 1),
        count=inputs + outputs + 3,
        stores="\n".join(lines),
    )


def header_text(name: str, manifest: Mapping[str, Any]) -> str:
    """The C header of an exported model."""
    inputs, outputs = ([TensorSpec.from_manifest(entry) for entry in manifest[key]] for key in ("inputs", "outputs"))
    return _HEADER.format(
        name=name,
        upper=name.upper(),
        version=_comment(manifest.get("tilewright_version", "")),
        target=_comment(manifest.get("target", "")),
        inputs="\n".join(_described(inputs)),
        outputs="\n".join(_described(outputs)),
        input_count=len(inputs),
        output_count=len(outputs),
    )


def _store_slot(index: int, value: str) -> list[str]:
    return [
        f"  %slot{index} = getelementptr ptr, ptr %slots, i64 {index}",
        f"  store ptr {value}, ptr %slot{index}",
    ]


def _described(specs: Sequence[TensorSpec]) -> Iterator[str]:
    for index, spec in enumerate(specs):
        yield f"     [{index}] {_comment(str(spec))}, {math.prod(spec.static_shape) * spec.dtype.itemsize} bytes"


def _comment(text: str) -> str:
    """Text that cannot end a C comment."""
    return text.replace("*/", "* /")


def _c_name(name: str) -> str:
    """`name` with what C does not allow in names replaced by underscores. Raises `InputError` when nothing is left."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not cleaned.strip("_"):
        raise InputError(f"{name!r} cannot be made into a C name; give one with name=")
    return cleaned


def _write_objects(work: Path, name: str, manifest: Mapping[str, Any], object_code: bytes) -> Iterator[str]:
    """Write the model's objects and the wrapper's into `work`; their file names."""
    objects = [*split_objects(object_code), compile_text(wrapper_text(name, manifest))]
    for index, code in enumerate(objects):
        (work / f"part{index}.o").write_bytes(code)
        yield f"part{index}.o"


def _write_weights(work: Path, manifest: Mapping[str, Any], weights: Any) -> Iterator[str]:
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
